"""What an ingestion works with, what it is asked for, and how far a source has come."""

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime

from jobs.core.settings import Settings, Source
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.impressions.inputs import InputFile, Ledger
from jobs.impressions.layout import Layout
from jobs.impressions.privacy import Salt


@dataclass(frozen=True, kw_only=True)
class Request:
    """Files of one source to read; `day` dates the rows of sources without times.

    A `replay` reads single rows again: its files are not remembered as read, and a high share of refused rows is no
    error.
    """

    source: Source
    files: tuple[InputFile, ...]
    day: str = ""
    replay: bool = False


@dataclass(frozen=True, kw_only=True)
class Ingestion:
    """What an ingestion works with. `run_day` is the partition of its refused rows, `latest` the end of the present."""

    settings: Settings
    store: Store
    spark: SparkProvider
    salt: Salt
    run_id: str
    run_day: date | None
    latest: datetime
    say: Callable[[str], None]
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @property
    def stage(self) -> str:
        """Folder of the staged frames, relative to the store; deleted at the end."""
        return f"staging/{self.run_id}-{self.token}"

    def out(self, name: str) -> str:
        """URI of a staged frame."""
        return self.store.documents.uri(f"{self.stage}/{name}")


@dataclass(kw_only=True)
class Part:
    """One request on its way through the stages."""

    request: Request
    layout: Layout
    ledger: Ledger
    buckets: int
    keep: bool
    read: list[dict] = field(default_factory=list)
    joined: list[dict] = field(default_factory=list)
    replace: bool = True
    refused: list[str] = field(default_factory=list)
    doubted: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def source(self) -> Source:
        return self.request.source

    def total(self, name: str) -> int:
        return sum(r[name] for r in self.read if name in r) + sum(j[name] for j in self.joined if name in j)

    def rejected(self) -> Counter:
        found: Counter = Counter()
        for result in (*self.read, *self.joined):
            found.update(result["rejected"])
        return found

    def file_figures(self) -> dict[int, dict]:
        """What became of the rows of each file, by its key: the invariant's counts."""
        found: dict[int, dict] = {}
        for result in (*self.read, *self.joined):
            for key, figures in result["by_file"].items():
                held = found.setdefault(int(key), {"rows_in": 0, "accepted": 0, "duplicates": 0, "ignored": 0})
                rejected = held.setdefault("rejected", Counter())
                for name, n in figures.items():
                    if name == "rejected":
                        rejected.update(n)
                    else:
                        held[name] += n
        return {key: f | {"rejected": dict(f["rejected"])} for key, f in found.items()}

    def span(self) -> tuple[str, str]:
        firsts = [r["first_arrival"] for r in self.read if r["first_arrival"]]
        lasts = [r["last_arrival"] for r in self.read if r["last_arrival"]]
        return min(firsts, default=""), max(lasts, default="")

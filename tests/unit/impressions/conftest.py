"""Ingestion without Spark: the same tasks, called one after the other in this process."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs.core.settings import Settings, Source
from jobs.core.tables import Store
from jobs.impressions import daily, stages
from jobs.impressions.ingest import ingest
from jobs.impressions.inputs import list_files
from jobs.impressions.work import Ingestion, Request
from tests.unit.impressions.logs import SALT, ndjson


class Bench:
    """A store, a folder of logs, and sources that read them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(str(folder / "store"))
        self.runs = 0

    def source(self, **over) -> Source:
        body = {"name": "web", "corpus": "tracks", "path": "logs/{day}/*.ndjson*", "format": "ubi", "max_rejected": 1,
                "actions": {"impression": "impression", "click": "click", "purchase": 1.0}}  # fmt: skip
        return Source.model_validate({**body, **over})

    def write(self, day: str, *documents, name: str = "part.ndjson.gz") -> Path:
        """A log file of an arrival day."""
        path = self.folder / "logs" / day / name
        path.parent.mkdir(parents=True, exist_ok=True)
        body = ndjson(*documents)
        path.write_bytes(gzip.compress(body) if name.endswith(".gz") else body)
        return path

    def settings(self, *sources: Source, locales=()) -> Settings:
        corpora = {s.corpus: {"locales": locales} for s in sources}
        return Settings(root=str(self.folder), store=self.store.uri, corpora=corpora, sources=sources)

    def work(self, settings: Settings, *, run_day=None, run_id: str = "") -> Ingestion:
        self.runs += 1
        return Ingestion(
            settings=settings,
            store=self.store,
            spark=None,
            salt=SALT,
            run_id=run_id or f"run-{self.runs}",
            run_day=run_day,
            latest=datetime(2026, 12, 1, tzinfo=UTC),
            say=lambda text: None,
        )

    def ingest(self, *sources: Source, days=None, paths=None, files=None, run_id: str = "", locales=()) -> dict:
        """Ingest the files of the sources (of some arrival days, or those given) whether or not they were read
        before."""
        settings = self.settings(*(sources or (self.source(),)), locales=locales)
        requests = []
        for source in settings.sources:
            found = files or [f for p in paths or [settings.path(source.path)] for f in list_files(str(p))]
            chosen = tuple(f for f in found if days is None or f.arrival_day in days)
            requests.append(Request(source=source, files=chosen))
        return ingest(requests, work=self.work(settings, run_id=run_id))

    def tables(self) -> dict:
        """Every table's rows in a stable order."""
        names = ("impressions", "daily_counts", "daily_users", "queries", "item_keys", "rejected_impressions")
        frames = {n: self.store.read(n) for n in names}
        frames["rejected_impressions"] = frames["rejected_impressions"].select("path", "line", "reason", "raw")
        return {n: f.sort(f.columns) for n, f in frames.items()}

    def versions(self) -> dict:
        names = ("impressions", "daily_counts", "daily_users", "queries", "item_keys", "rejected_impressions")
        return {n: self.store.version(n) for n in names}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A bench whose tasks are plain calls; specs and results go through JSON, as they must be plain."""

    def run_here(spark, function, specs, *, label=""):
        return [json.loads(json.dumps(function(json.loads(json.dumps(spec, default=str))))) for spec in specs]

    for module in (stages, daily):
        monkeypatch.setattr(module, "run_tasks", run_here)
    return Bench(tmp_path)

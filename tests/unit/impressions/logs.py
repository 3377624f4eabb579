"""Small logs in memory for the tests: UBI documents or CSV text in, canonical rows and the fate of every document
out."""

import io
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime

import polars as pl

from jobs.impressions.canonical import join_documents
from jobs.impressions.checks import Rules, check
from jobs.impressions.documents import DOCUMENT
from jobs.impressions.layout import Layout
from jobs.impressions.lines import read_lines
from jobs.impressions.privacy import make_salt
from jobs.impressions.text_tables import CsvReader, JsonReader
from jobs.impressions.ubi import UbiReader

SALT = make_salt("a secret of the tests")
NOW = datetime(2026, 12, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Canonical rows, reasons with counts, and the counts of the invariant."""

    rows: pl.DataFrame
    refused: pl.DataFrame
    rows_in: int
    accepted: int
    duplicates: int
    ignored: int

    @property
    def reasons(self) -> dict[str, int]:
        return dict(Counter(self.refused["reason"].to_list()))

    @property
    def places(self) -> set[tuple]:
        """(search, item, rank) of the impressions."""
        return set(self.rows.select("search_id", "item_id", "rank").iter_rows())

    @property
    def clicks(self) -> set[tuple]:
        return set(self.rows.filter("clicked").select("search_id", "item_id", "rank").iter_rows())


def layout(**over) -> Layout:
    """A UBI layout with the usual actions; times without offset are refused unless a zone is given."""
    body = {"source": "web", "corpus": "tracks", "format": "ubi",
            "actions": {"impression": "impression", "click": "click", "purchase": 1.0, "add_to_cart": 0.5}}  # fmt: skip
    return Layout(**{**body, **over})


def ndjson(*documents) -> bytes:
    """Lines of JSON; bytes are taken as they are."""
    return b"\n".join(d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents) + b"\n"


def query(search="q1", hits=None, at="2026-11-20T10:00:00Z", text="jazz", **more) -> dict:
    body = {"query_id": search, "user_query": text, "timestamp": at, "client_id": "u1", "application": "shop"}
    return body | ({"query_response_hit_ids": hits} if hits is not None else {}) | more


def event(action="click", search="q1", item="a", rank=1, at="2026-11-20T10:00:05Z", **more) -> dict:
    position = {} if rank is None else {"ordinal": rank}
    attributes = {"object": {"object_id": item}, "position": position}
    return {"action_name": action, "query_id": search, "timestamp": at, "client_id": "u1", "application": "shop",
            "event_attributes": attributes} | more  # fmt: skip


def ingest(
    content: bytes, *, layout=None, arrival_day: date | None = None, context: bytes = b"", latest=NOW
) -> Outcome:
    """Read, check and join one file (and, as context, what an earlier ingestion read) as the tasks do."""
    used = layout or globals()["layout"]()
    documents, refused, tally = read(content, used, arrival_day=arrival_day, file=1, latest=latest)
    before, _, _ = read(context, used, arrival_day=arrival_day, file=2, latest=latest)
    marked = pl.concat([documents.with_columns(context=pl.lit(False)), before.with_columns(context=pl.lit(True))])
    joined = join_documents(marked, shown=used.shown, lateness_days=used.lateness_days)
    lost = pl.concat([refused.select("line", "reason"), joined.refused.select("line", "reason")])
    outcome = Outcome(
        rows=joined.rows, refused=lost, rows_in=tally.documents, accepted=joined.accepted, duplicates=joined.duplicates,
        ignored=tally.ignored,
    )  # fmt: skip
    assert outcome.rows_in == outcome.accepted + outcome.duplicates + outcome.ignored + lost.height
    return outcome


def read(content: bytes, used: Layout, *, arrival_day: date | None = None, file: int = 1, latest=NOW):
    """Documents, refused rows and tally of one file."""
    lines = list(read_lines(io.BytesIO(content), name="memory"))
    if used.format == "ubi":
        reader = UbiReader(used)
    else:
        reader = (JsonReader if used.format == "jsonl" else CsvReader)(used, name="memory")
    rules = Rules(layout=used, salt=SALT, latest=latest, arrival_day=arrival_day)
    documents, refused = check(reader.read(lines), rules=rules, file=file)
    return documents.select(list(DOCUMENT)), refused, reader.tally

"""The first two stages as tasks: read files to checked documents by bucket of search, then join each bucket's searches.

A task gets a plain dict and returns one; frames travel as staged Parquet files. An unusable file comes back as `error`,
so that the driver can name it in one sentence instead of a stack trace of the cluster.
"""

import gc
from collections import Counter
from datetime import date, datetime
from typing import Any

import polars as pl

from jobs.core.storage import filesystem
from jobs.core.tables import scan_uris
from jobs.impressions import reasons
from jobs.impressions.answers import answering
from jobs.impressions.canonical import Joined, contradicting, join_documents, with_contents
from jobs.impressions.checks import Rules, check
from jobs.impressions.documents import DOCUMENT, EVENT, PLACE, REFUSED, Kind, empty_documents
from jobs.impressions.frames import scan_frames, write_frame
from jobs.impressions.layout import Layout
from jobs.impressions.lines import contents_at, unpacked
from jobs.impressions.privacy import Salt
from jobs.impressions.reading import RawOf, masker_of, read_batches, whole_rows
from jobs.impressions.ubi import Tally

FLUSH = 500_000
"""Documents that a reading task holds before it writes them out."""


SHARED_DAY = 250_000
"""Rows of one day in one bucket above which several tasks may share the day, so that its keys are kept in order."""


def salt_from(spec: dict) -> Salt:
    """The salt of a task spec."""
    return Salt(secret=bytes.fromhex(spec["secret"]), name=spec["name"])


def bucket_of(buckets: int) -> pl.Expr:
    """Bucket of a search within one ingestion; all documents of a search meet in one."""
    return pl.col("search_id").hash(seed=20) % buckets


class _Writer:
    """Collects documents and writes them by bucket."""

    def __init__(self, out: str, scratch: str, buckets: int) -> None:
        self._out, self._scratch, self._buckets = out, scratch, buckets
        self._held: list[pl.DataFrame] = []
        self._rows, self._part = 0, 0
        self.written: list[dict] = []
        self.events: list[dict] = []

    def add(self, documents: pl.DataFrame) -> None:
        self._held.append(documents)
        self._rows += documents.height
        if self._rows >= FLUSH:
            self.flush()

    def flush(self) -> None:
        if not self._rows:
            return
        frame = pl.concat(self._held)
        parts = [frame] if self._buckets == 1 else _split(frame, self._buckets)
        for bucket, part in enumerate(parts):
            if part.height:
                uri = write_frame(part, f"{self._out}-{self._part}-b{bucket}.parquet")
                self.written.append({"bucket": bucket, "uri": uri, "rows": part.height})
        if self._buckets > 1:
            self._write_events(frame)
        self._held, self._rows, self._part = [], 0, self._part + 1

    def _write_events(self, frame: pl.DataFrame) -> None:
        """What events with ids say, by bucket of the id: two searches may claim one id, and their documents never
        meet."""
        events = with_contents(frame.filter(pl.col("event_key").is_not_null())).select(list(EVENT))
        for bucket in range(self._buckets):
            part = events.filter(pl.col("event_key").hash(seed=20) % self._buckets == bucket)
            if part.height:
                uri = write_frame(part, f"{self._scratch}-{self._part}-e{bucket}.parquet")
                self.events.append({"bucket": bucket, "uri": uri})


@answering
def events_task(spec: dict) -> dict:
    """Find events of one bucket of event ids that contradict each other, and stage their places."""
    events = scan_frames(spec["events"], schema=EVENT).collect()
    doubted = contradicting(events, by="event_key", what="contents").select("file", "line")
    return {"doubted": write_frame(doubted, spec["out"]) if doubted.height else ""}


def _split(frame: pl.DataFrame, buckets: int) -> list[pl.DataFrame]:
    parts = frame.with_columns(bucket_of(buckets).alias("bucket")).partition_by(
        "bucket", as_dict=True, include_key=False
    )
    return [parts.get((b,), frame.clear()) for b in range(buckets)]


@answering
def read_task(spec: dict) -> dict:
    """Read some files of one source. Returns counts, staged documents and refused rows, arrival days, what was seen."""
    gc.disable()  # documents are trees without cycles: walking them again and again takes longer than parsing them
    try:
        return _read(spec)
    finally:
        gc.enable()


def _read(spec: dict) -> dict:
    layout, salt = Layout(**spec["layout"]), salt_from(spec["salt"])
    writer = _Writer(spec["out"], spec["scratch"], spec["buckets"])
    seen = {"rows_in": 0, "ignored": 0, "rejected": Counter(), "actions": Counter(), "bases": {}, "refused": [],
            "by_file": {}, "notes": [], "undated": 0}  # fmt: skip
    arrivals: list[date] = []
    for file in spec["files"]:
        day = date.fromisoformat(file["arrival_day"]) if file["arrival_day"] else None
        rules = Rules(layout=layout, salt=salt, latest=datetime.fromisoformat(spec["latest"]), arrival_day=day)
        tally, lost = Tally(), Counter(seen["rejected"])
        for batch, tally in read_batches(file["uri"], layout=layout, salt=salt, constants=file["constants"]):  # noqa: B007 - the last one counts
            _count_bases(seen["bases"], batch.rows, layout)
            seen["undated"] += 0 if day else _undated(batch.rows)
            documents, refused = check(batch.rows, rules=rules, file=file["key"])
            documents, refused, raw = _renumbered(documents, refused, batch.raw, file["numbers"])
            _keep_refused(seen, raw, refused, f"{spec['scratch']}-refused-{len(seen['refused'])}.parquet")
            arrivals += _span(documents)
            writer.add(documents)
        seen["rows_in"] += tally.documents
        seen["ignored"] += tally.ignored
        seen["actions"].update(tally.actions)
        seen["notes"] += tally.notes
        seen["by_file"][file["key"]] = {"rows_in": tally.documents, "ignored": tally.ignored,
                                        "rejected": dict(seen["rejected"] - lost)}  # fmt: skip
    writer.flush()
    first, last = (min(arrivals).isoformat(), max(arrivals).isoformat()) if arrivals else ("", "")
    return {
        **seen,
        "rejected": dict(seen["rejected"]),
        "actions": dict(seen["actions"]),
        "documents": writer.written,
        "events": writer.events,
        "first_arrival": first,
        "last_arrival": last,
    }


def _undated(rows: pl.DataFrame) -> int:
    """Rows that do not say when they arrived."""
    return rows.filter(pl.col("reason").is_null() & pl.col("arrived").is_null()).height


def _span(documents: pl.DataFrame) -> list[date]:
    if not documents.height:
        return []
    return list(
        documents.select(pl.col("arrived_at").min().dt.date(), pl.col("arrived_at").max().dt.date().alias("b")).row(0)
    )


def _renumbered(
    documents: pl.DataFrame, refused: pl.DataFrame, raw: RawOf, numbers: str
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """The contents of refused rows; rows of a replayed file get the line numbers of the file that they came from."""
    contents = raw(refused["line"].to_list()) if refused.height else []
    if not numbers:
        return documents, refused, contents
    lines = _numbers(numbers)
    own = [f.with_columns(lines.gather(f["line"] - 1).alias("line")) for f in (documents, refused)]
    return own[0], own[1], contents


def _numbers(uri: str) -> pl.Series | None:
    """Line numbers, in the file that they came from, of the rows of a replayed file."""
    return scan_uris([uri]).select("line").collect().to_series() if uri else None


def _keep_refused(seen: dict, raw: list[str], refused: pl.DataFrame, uri: str) -> None:
    if refused.height:
        frame = refused.with_columns(pl.Series("raw", raw, dtype=pl.String))
        seen["refused"].append(write_frame(frame.select(list(REFUSED)), uri))
        seen["rejected"].update(refused["reason"].to_list())


def _count_bases(bases: dict[str, list[int]], rows: pl.DataFrame, layout: Layout) -> None:
    """Per application: rows with a rank, those whose rank lies one below the declared base, those at it, and searches
    with a rank one above it."""
    ranked = rows.filter(pl.col("rank").is_not_null()).select(pl.col("application").fill_null(""), "search_id", "rank")
    base = pl.col("application").replace_strict(
        {a: layout.base(a) for a in layout.rank_base}, default=layout.base("default"), return_dtype=pl.Int64
    )
    away = pl.col("rank") - base
    counts = ranked.group_by("application").agg(
        pl.len(), (away == -1).sum(), (away == 0).sum().alias("at"),
        pl.col("search_id").filter(away == 1).n_unique().alias("next"),
    )  # fmt: skip
    for application, *found in counts.iter_rows():
        bases[application] = [a + b for a, b in zip(bases.get(application, [0, 0, 0, 0]), found, strict=True)]


@answering
def join_task(spec: dict) -> dict:
    """Join one bucket of a source. Returns staged canonical rows with counts by day, touched searches, refused
    documents."""
    own = scan_frames(spec["documents"], schema=DOCUMENT).collect()
    context = _context(own, spec)
    documents = pl.concat([own.with_columns(pl.lit(False).alias("context")), context])
    doubted = scan_frames(spec["doubted"], schema=PLACE).collect()
    joined = join_documents(
        documents, shown=spec["shown"], lateness_days=spec["lateness_days"], doubted=doubted if doubted.height else None
    )
    rows = joined.rows.with_columns(pl.col("shown_at").dt.date().alias("event_day"))
    days = dict(rows.group_by("event_day").len().iter_rows())
    shared = max(days.values(), default=0) > SHARED_DAY
    rows = rows.sort("event_day", *(["query_key"] if shared else []))
    told = own.filter(pl.col("kind") != Kind.ROW)
    touched = told.select("search_id").unique()
    before = context.filter(pl.col("kind") != Kind.VALUE).select(pl.col("at").dt.date()).unique().to_series()
    out = spec["out"]
    return {
        "rows": write_frame(rows, f"{out}-rows.parquet"),
        "days": {d.isoformat(): n for d, n in days.items()},
        "days_before": [d.isoformat() for d in before],
        "touched": write_frame(touched, f"{out}-touched.parquet"),
        "refused": write_frame(joined.refused, f"{out}-refused.parquet") if joined.refused.height else "",
        "rejected": dict(joined.refused.group_by("reason").len().iter_rows()),
        "fate": write_frame(joined.fate, f"{out}-fate.parquet") if joined.fate.height else "",
        "by_file": _by_file(own, joined),
        "accepted": joined.accepted,
        "duplicates": joined.duplicates,
        "impressions": rows.height,
        "clicks": int(rows["clicked"].sum()),
    }


def _by_file(own: pl.DataFrame, joined: Joined) -> dict[int, dict]:
    """What became of the documents of each file."""
    total, doubled = (dict(f.group_by("file").len().iter_rows()) for f in (own, joined.doubled))
    lost: dict[int, dict[str, int]] = {}
    for file, reason, n in joined.refused.group_by("file", "reason").len().iter_rows():
        lost.setdefault(file, {})[reason] = n
    return {
        file: {"accepted": n - doubled.get(file, 0) - sum(lost.get(file, {}).values()),
               "duplicates": doubled.get(file, 0), "rejected": lost.get(file, {})}
        for file, n in total.items()
    }  # fmt: skip


def _context(own: pl.DataFrame, spec: dict) -> pl.DataFrame:
    """Documents of earlier ingestions that belong to the searches of this bucket."""
    marked = [pl.lit(True).alias("context")]
    if not spec["context"] or not own.height:
        return empty_documents().with_columns(marked)
    scan = scan_frames(spec["context"], schema=DOCUMENT)
    first, last = (datetime.fromisoformat(t) for t in spec["between"])
    near = scan.filter(
        pl.col("arrived_at").is_between(first, last, closed="left"), ~pl.col("file").is_in(spec["files"])
    )
    found = near.join(own.lazy().select("search_id").unique(), on="search_id", how="semi")
    return found.select(list(DOCUMENT)).with_columns(marked).collect()


@answering
def raw_task(spec: dict) -> dict:
    """Find the content of refused documents again in their files, masked; an unreadable file leaves it null."""
    layout, salt = Layout(**spec["layout"]), salt_from(spec["salt"])
    wanted = scan_frames(spec["refused"], schema=REFUSED).filter(
        pl.col("file").is_in([f["key"] for f in spec["files"]])
    )
    frame = wanted.select("file", "line", "byte_offset", "reason").collect()
    raws = [_raws(file, frame.filter(pl.col("file") == file["key"]), layout, salt) for file in spec["files"]]
    found = pl.concat([pl.DataFrame(schema={"file": pl.Int64, "line": pl.Int64, "raw": pl.String}), *raws])
    meaning = pl.col("reason").replace_strict(reasons.MEANING, default="", return_dtype=pl.String).alias("detail")
    full = frame.join(found, on=["file", "line"], how="left", maintain_order="left").with_columns(meaning)
    return {"refused": write_frame(full.select(list(REFUSED)), f"{spec['out']}.parquet")}


def _raws(file: dict[str, Any], refused: pl.DataFrame, layout: Layout, salt: Salt) -> pl.DataFrame:
    columnar = layout.format in ("parquet", "delta")
    found = (_rows_of_table if columnar else _rows_of_text)(file, refused, layout, salt)
    body = {"file": [file["key"]] * len(found), "line": list(found), "raw": list(found.values())}
    return pl.DataFrame(body, schema={"file": pl.Int64, "line": pl.Int64, "raw": pl.String})


def _rows_of_text(file: dict[str, Any], refused: pl.DataFrame, layout: Layout, salt: Salt) -> dict[int, str]:
    if layout.format != "csv" and not file["numbers"]:
        return _rows_at(file, refused, layout, salt)
    found: dict[int, str] = {}
    lines, numbers = set(refused["line"].to_list()), _numbers(file["numbers"])
    for line, masker in whole_rows(file["uri"], layout, salt):
        number = line.number if numbers is None else numbers[line.number - 1]
        if number in lines:
            found[number] = masker.kept(line.content, cut=line.cut)
            if len(found) == len(lines):
                break
    return found


def _rows_at(file: dict[str, Any], refused: pl.DataFrame, layout: Layout, salt: Salt) -> dict[int, str]:
    """Contents by line of refused rows whose byte offsets are known."""
    masker, lines = masker_of(layout, salt), dict(refused.select("byte_offset", "line").iter_rows())
    fs, path = filesystem(file["uri"])
    with fs.open_input_file(path) as stream:
        found = contents_at(unpacked(stream), list(lines), name=file["uri"])
        return {lines[offset]: masker.kept(content) for offset, content in found}


def _rows_of_table(file: dict[str, Any], refused: pl.DataFrame, layout: Layout, salt: Salt) -> dict[int, str]:
    found: dict[int, str] = {}
    lines = set(refused["line"].to_list())
    for batch, _ in read_batches(file["uri"], layout=layout, salt=salt, constants=file["constants"]):
        here = [n for n in batch.rows["line"].to_list() if n in lines]
        found.update(zip(here, batch.raw(here), strict=True))
    return found

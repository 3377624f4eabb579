"""`hindcast impressions replay`: refused rows read again after a mend, from what quarantine kept or from their
source."""

from collections.abc import Iterator
from typing import Any

import polars as pl
from pyarrow.fs import FileType

from jobs.core.errors import NotThereError
from jobs.core.settings import Source
from jobs.core.storage import filesystem
from jobs.impressions.frames import write_frame
from jobs.impressions.ingest import ingest
from jobs.impressions.inputs import InputFile
from jobs.impressions.layout import layout_of
from jobs.impressions.lines import RAW_LIMIT, Line
from jobs.impressions.quarantine import TABLE
from jobs.impressions.reading import whole_rows
from jobs.impressions.ubi import load
from jobs.impressions.work import Ingestion, Request


def replay(work: Ingestion, *, source: str = "", reason: str = "") -> dict[str, Any]:
    """Ingest quarantined rows with the settings of today; those accepted leave quarantine, the others stay.

    Returns an ingest result whose rows_in counts the replayed rows. NotThereError if no row fits. A row longer than
    what
    is kept is read from its source, which must still be there; else it stays in quarantine.
    """
    held = work.store.read(TABLE)
    wanted = {n: v for n, v in (("source", source), ("reason", reason)) if v}
    chosen = held.filter(pl.lit(value=True), *[pl.col(n) == v for n, v in wanted.items()])
    declared = {s.name: s for s in work.settings.sources}
    chosen = chosen.filter(pl.col("source").is_in(list(declared)))
    if not chosen.height:
        raise NotThereError(
            f"quarantine holds no row of source {source or 'any'} with reason {reason or 'any'} to replay"
        )
    requests = [
        Request(source=_as_read(declared[name]), files=tuple(_files(rows, declared[name], work)), replay=True)
        for (name,), rows in chosen.partition_by("source", as_dict=True).items()
    ]
    return ingest(requests, work=work)


def _as_read(source: Source) -> Source:
    """The source as its refused rows are kept: objects with the columns of the file."""
    return source if source.format == "ubi" else source.model_copy(update={"format": "jsonl"})


def _files(rows: pl.DataFrame, source: Source, work: Ingestion) -> Iterator[InputFile]:
    """Staged files of refused rows, one for each file that they came from."""
    days = _arrival_days(source, work)
    for n, ((path,), part) in enumerate(rows.partition_by("path", as_dict=True, maintain_order=True).items()):
        ordered = part.unique("line", keep="first").sort("line")
        contents = _contents(ordered, path, source, work)
        there = ordered.filter(pl.Series([c is not None for c in contents]))
        if not there.height:
            continue
        name = f"{work.stage}/replay-{source.name}-{n}"
        work.store.documents.write_bytes(f"{name}.ndjson", b"\n".join(c for c in contents if c is not None) + b"\n")
        numbers = write_frame(there.select("line"), work.store.documents.uri(f"{name}-lines.parquet"))
        uri = work.store.documents.uri(f"{name}.ndjson")
        yield InputFile(uri=uri, size=0, modified="", arrival_day=days.get(path), origin=path, numbers=numbers)


def _arrival_days(source: Source, work: Ingestion) -> dict[str, str]:
    from jobs.impressions.inputs import glob_pattern

    if "{day}" not in source.path:
        return {}
    pattern = glob_pattern(filesystem(work.settings.path(source.path))[1])
    paths = work.store.read(TABLE, columns=["path"])["path"].unique().to_list()
    found = {p: pattern.fullmatch(filesystem(p)[1]) for p in paths}
    return {p: m.group("day") for p, m in found.items() if m}


def _contents(rows: pl.DataFrame, path: str, source: Source, work: Ingestion) -> list[bytes | None]:
    """Each row's content in one line; None where it was cut and its source is gone or is no text.

    What quarantine keeps whole and as an object is read from there. Other rows are read from their source again, by
    its columns; a row of a CSV file that still is none stays where it is.
    """
    kept = [_object_of(raw) for raw in rows["raw"]]
    lost = {line for line, content in zip(rows["line"], kept, strict=True) if content is None}
    again = _from_source(path, lost, source, work) if lost and source.format not in ("parquet", "delta") else {}
    found = []
    for raw, line, content in zip(rows["raw"], rows["line"], kept, strict=True):
        content = content or again.get(line)
        if content is None and raw is not None and source.format in ("ubi", "jsonl") and len(raw) < RAW_LIMIT - 3:
            content = raw.encode()
        if content is not None and source.format == "csv" and not content.startswith(b"{"):
            content = None
        found.append(None if content is None else content.replace(b"\n", b" "))
    return found


def _object_of(raw: str | None) -> bytes | None:
    """A kept row if it is a whole object."""
    if raw is None or len(raw.encode()) >= RAW_LIMIT - 3:
        return None
    document, reason = load(Line(1, 0, raw.encode(), False))
    return raw.encode() if reason is None and document is not None else None


def _from_source(path: str, lines: set[int], source: Source, work: Ingestion) -> dict[int, bytes]:
    """Rows of the source file by number, masked as they are kept; nothing if the file is gone."""
    declared = work.settings.corpora
    locales = declared[source.corpus].locales if source.corpus in declared else ()
    fs, inner = filesystem(path)
    if fs.get_file_info(inner).type != FileType.File:
        return {}
    rows = whole_rows(path, layout_of(source, locales=locales), work.salt)
    return {n.number: masker.masked(n.content) for n, masker in rows if n.number in lines and not n.cut}

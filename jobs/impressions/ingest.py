"""One ingestion: list, read, join, restate, commit. Everything is staged first: what fails leaves the tables as they
were."""

from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from jobs.core.errors import InputError
from jobs.core.keys import key_of
from jobs.core.storage import filesystem
from jobs.impressions import quarantine
from jobs.impressions.answers import disk_told
from jobs.impressions.columnar import rows_of_footer
from jobs.impressions.daily import restate
from jobs.impressions.inputs import InputFile, Ledger
from jobs.impressions.layout import layout_of
from jobs.impressions.stages import check_share, join, read, recover_raw
from jobs.impressions.work import Ingestion, Part, Request

BUCKET_ROWS = 1_000_000
"""Impressions that one task joins at a time: up to 1 GiB while they are joined."""

PACKED_BYTES, PLAIN_BYTES = 16, 128
"""Bytes of packed and of plain text logs behind one impression, at the least (simulated UBI: 15 packed; a click log in
CSV: 3 and 29, but there a row is one impression and needs a quarter of the memory)."""

MOST_BUCKETS = 512
"""Each reading task writes a file a bucket: more of them cost more than they save."""

KEEP_DAYS = 14
"""Documents are kept this long after they arrived, so that files read again, and late ones, meet what belongs to
them."""


LOCK_SECONDS = 6 * 3600.0
"""Two ingestions of one store wait for each other: a day's counts are made of all its sources."""


def ingest(requests: list[Request] | Callable[[], list[Request]], *, work: Ingestion) -> dict[str, Any]:
    """Read the requested files into the tables; returns the ingest result of formats.md, with figures by source.

    A function is asked for the requests once no other ingestion runs, so that of two nights at once each reads what
    the other has not.

    Raises InputError, with the tables untouched (refused rows apart), when a file cannot be used, ranks are counted
    from
    two bases, or more rows are refused than the source allows.
    """
    with work.store.documents.lock("impressions", timeout_s=LOCK_SECONDS), disk_told():
        try:
            wanted = requests() if callable(requests) else requests
            return _ingest([_part(r, work) for r in wanted], work)
        finally:
            work.store.documents.delete(work.stage)


def _ingest(parts: list[Part], work: Ingestion) -> dict[str, Any]:
    read(parts, work)
    join(parts, work)
    recover_raw(parts, work)
    resolved = quarantine.write(work.store, _refused(parts), run_id=work.run_id, run_day=_run_day(parts, work))
    for part in parts:
        check_share(part)
    _check_accounts(parts)
    figures = restate(parts, work)
    _settle(parts, work)
    return _summary(parts, figures, resolved)


def _part(request: Request, work: Ingestion) -> Part:
    source, corpora = request.source, work.settings.corpora
    locales = corpora[source.corpus].locales if source.corpus in corpora else ()
    rows = sum(_rows_of(f, source.format) for f in request.files)
    return Part(
        request=request,
        layout=layout_of(source, locales=locales, day=request.day),
        ledger=Ledger(work.store, source.name),
        buckets=min(MOST_BUCKETS, -(-rows // BUCKET_ROWS)) or 1,
        keep=source.format == "ubi",
    )


def _rows_of(file: InputFile, form: str) -> int:
    """Impressions that a file holds, from its footer, or about as many from its size."""
    if form in ("parquet", "delta"):
        fs, path = filesystem(file.uri)
        with fs.open_input_file(path) as stream:
            return rows_of_footer(stream, name=file.uri)
    return file.size // (PACKED_BYTES if file.uri.endswith((".gz", ".gzip")) else PLAIN_BYTES)


def _refused(parts: list[Part]) -> list[quarantine.Refusals]:
    return [
        quarantine.Refusals(
            source=p.source.name,
            corpus=p.source.corpus,
            paths={f.key: f.address for f in p.request.files},
            replayed={f.address: f.numbers for f in p.request.files if f.numbers},
            frames=p.refused,
            fate=[j["fate"] for j in p.joined if j["fate"]],
        )
        for p in parts
    ]


def _run_day(parts: list[Part], work: Ingestion) -> date:
    if work.run_day is not None:
        return work.run_day
    lasts = [p.span()[1] for p in parts if p.span()[1]]
    return date.fromisoformat(max(lasts)) if lasts else work.latest.date()


def _settle(parts: list[Part], work: Ingestion) -> None:
    """Remember what was read, and drop documents that no late row can need any more."""
    root = work.store.documents.root
    for part in parts:
        first, last = part.span()
        documents = [d["uri"].removeprefix(f"{root}/") for r in part.read for d in r["documents"]] if part.keep else []
        body = {"documents": documents, "first_arrival": first, "last_arrival": last, "run_id": work.run_id,
                "source": part.source.name}  # fmt: skip
        if part.request.replay:
            part.ledger.add_documents(f"{work.run_id}-{work.token}", body=body)
        else:
            part.ledger.add(list(part.request.files), body=body, figures=part.file_figures())
        newest = max((e["last_arrival"] for e in part.ledger.entries.values()), default="")
        if newest:
            keep = max(KEEP_DAYS, 2 * part.source.lateness_days)
            part.ledger.drop_before(date.fromisoformat(newest) - timedelta(days=keep))


def _summary(parts: list[Part], figures: list[dict], resolved: int) -> dict[str, Any]:
    rejected: Counter = sum((p.rejected() for p in parts), Counter())
    actions: Counter = Counter()
    for result in (r for p in parts for r in p.read):
        actions.update(result["actions"])
    total = {n: sum(p.total(n) for p in parts) for n in ("rows_in", "accepted", "duplicates", "ignored")}
    return {
        **total,
        "rejected": dict(sorted(rejected.items())),
        "impressions": sum(p.total("impressions") for p in parts),
        "clicks": sum(p.total("clicks") for p in parts),
        "days": [f["day"] for f in figures],
        "changed_days": [f["day"] for f in figures if f["changed"]],
        "excluded": sum(f["excluded"] for f in figures),
        "resolved": resolved,
        "actions": dict(actions.most_common()),
        "warnings": [n for p in parts for n in p.notes],
        "sources": {p.source.name: _source_figures(p) for p in parts},
    }


def _check_accounts(parts: list[Part]) -> None:
    """The invariant of every ingestion: each row that came in is accounted for exactly once."""
    for part in parts:
        rows, told = part.total("rows_in"), part.total("accepted") + part.total("duplicates") + part.total("ignored")
        lost = rows - told - part.rejected().total()
        if lost:
            raise InputError(
                f"source {part.source.name}: {lost} of {rows} rows are unaccounted for: this is a defect, report it"
                " with the files; nothing was published"
            )


def _source_figures(part: Part) -> dict[str, Any]:
    names = ("rows_in", "accepted", "duplicates", "ignored", "impressions", "clicks")
    days = "{day}" in part.source.path or any(f.arrival_day for f in part.request.files)
    guarded = days or ("arrived" in part.source.columns if not part.total("rows_in") else not part.total("undated"))
    return {n: part.total(n) for n in names} | {
        "rejected": dict(part.rejected()), "files": len(part.request.files), "arrival_guarded": guarded
    }  # fmt: skip


def together(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two ingest results of one run as one: counts add up, days unite. A night that is run again tells the whole."""
    summed: dict[str, Any] = {}
    for name in {**first, **second}:
        a, b = first.get(name), second.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            summed[name] = together(a, b)
        elif isinstance(a, list) and isinstance(b, list):
            summed[name] = sorted({*a, *b})
        elif isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
            summed[name] = a if b is None else b
        else:
            summed[name] = a + b
    return summed


def run_id_of(files: list[InputFile]) -> str:
    """A name for an ingestion by hand that is the same whenever the same files are ingested."""
    return f"ingest-{key_of(*sorted(f.uri for f in files)) & 0xFFFFFFFFFFFF:012x}"

"""One ingestion: list, read, join, restate, commit. Everything is staged first; what fails leaves the tables as they were."""

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import polars as pl

from jobs.core.errors import InputError
from jobs.core.keys import key_hex, key_of, range_bounds
from jobs.core.settings import Settings, Source
from jobs.core.spark import SparkProvider, run_tasks
from jobs.core.tables import Store
from jobs.impressions import quarantine
from jobs.impressions.inputs import InputFile, Ledger
from jobs.impressions.layout import Layout, layout_of
from jobs.impressions.privacy import Salt
from jobs.impressions.restate import day_task
from jobs.impressions.tasks import events_task, join_task, raw_task, read_task
from schemas.logs import ITEM_KEYS, QUERIES

TASK_BYTES = {"ubi": 24 << 20, "csv": 24 << 20, "jsonl": 24 << 20, "parquet": 64 << 20, "delta": 64 << 20}
"""Bytes of input a reading task gets: 5 to 15 s of work, so that tasks neither cost more than they do nor pile up."""

BUCKET_BYTES = {"ubi": 48 << 20, "csv": 24 << 20, "jsonl": 24 << 20, "parquet": 24 << 20, "delta": 24 << 20}
"""Bytes of input behind one bucket of searches: about a million documents, some 500 MB while they are joined."""

DAY_ROWS = 4_000_000
"""A day with more impressions is restated in parts by ranges of query keys, so that no task holds more than about this."""

TASK_ROWS = 1_000_000
"""Small days share a task up to this many rows."""

MIXED_BASE = 0.01
"""Share of an application's rows one below its declared rank base that can still be dirt; above, the base is wrong."""

KEEP_DAYS = 14
"""Documents are kept this long after they arrived, so that files read again, and late ones, meet what belongs to them."""


LOCK_SECONDS = 6 * 3600.0
"""Two ingestions of one store wait for each other: a day's counts are made of all its sources."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Files of one source to read. `forced`: they were named by hand and are read again."""

    source: Source
    files: tuple[InputFile, ...]
    day: str = ""


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
class _Part:
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

    def span(self) -> tuple[str, str]:
        firsts = [r["first_arrival"] for r in self.read if r["first_arrival"]]
        lasts = [r["last_arrival"] for r in self.read if r["last_arrival"]]
        return min(firsts, default=""), max(lasts, default="")


def ingest(requests: list[Request], *, work: Ingestion) -> dict[str, Any]:
    """Read the requested files into the tables; returns the ingest result of formats.md, with figures by source.

    Raises InputError, with the tables untouched (refused rows apart), when a file cannot be used, ranks are counted from
    two bases, or more rows are refused than the source allows.
    """
    with work.store.documents.lock("impressions", timeout_s=LOCK_SECONDS):
        try:
            return _ingest([_part(r, work) for r in requests if r.files], work)
        finally:
            work.store.documents.delete(work.stage)


def _ingest(parts: list[_Part], work: Ingestion) -> dict[str, Any]:
    _read(parts, work)
    _join(parts, work)
    _recover_raw(parts, work)
    resolved = quarantine.write(work.store, _refused(parts), run_id=work.run_id, run_day=_run_day(parts, work))
    for part in parts:
        _check_share(part)
    figures = _restate(parts, work)
    _settle(parts, work)
    return _summary(parts, figures, resolved)


def _part(request: Request, work: Ingestion) -> _Part:
    source, corpora = request.source, work.settings.corpora
    locales = corpora[source.corpus].locales if source.corpus in corpora else ()
    size = sum(f.size for f in request.files)
    return _Part(
        request=request,
        layout=layout_of(source, locales=locales, day=request.day),
        ledger=Ledger(work.store, source.name),
        buckets=min(64, -(-size // BUCKET_BYTES[source.format])) or 1,
        keep=source.format == "ubi",
    )


def _read(parts: list[_Part], work: Ingestion) -> None:
    specs, owners = [], []
    for part in parts:
        for i, files in enumerate(_by_size(part.request.files, TASK_BYTES[part.source.format])):
            specs.append(_read_spec(part, files, work, f"{part.source.name}-read-{i}"))
            owners.append(part)
    for part, result in zip(owners, run_tasks(work.spark, read_task, specs, label="impressions: read"), strict=True):
        _raise(result)
        part.read.append(result)
        part.refused += result["refused"]
    for part in parts:
        _check_bases(part)


def _read_spec(part: _Part, files: list[InputFile], work: Ingestion, name: str) -> dict:
    files_key = key_hex(key_of(*sorted(f.uri for f in part.request.files)))
    folder = f"ingested/{part.source.name}/documents/{work.run_id}-{files_key}" if part.keep else work.stage
    return {
        "layout": part.layout.as_dict(),
        "salt": {"secret": work.salt.secret.hex(), "name": work.salt.name},
        "files": [_file_spec(f) for f in files],
        "buckets": part.buckets,
        "out": work.store.documents.uri(f"{folder}/{name}"),
        "scratch": work.out(name),
        "latest": work.latest.isoformat(),
    }


def _file_spec(file: InputFile) -> dict:
    return {"uri": file.uri, "key": file.key, "arrival_day": file.arrival_day}


def _by_size(files: tuple[InputFile, ...], limit: int) -> list[list[InputFile]]:
    groups: list[list[InputFile]] = []
    size = limit
    for file in files:
        if size + file.size > limit or not groups:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def _raise(result: dict) -> None:
    if "error" in result:
        raise InputError(result["error"])


def _check_bases(part: _Part) -> None:
    """Refuse a source whose applications count ranks from another base than declared."""
    totals: dict[str, list[int]] = {}
    for result in part.read:
        for application, (n, below) in result["bases"].items():
            held = totals.setdefault(application, [0, 0])
            totals[application] = [held[0] + n, held[1] + below]
    for application, (n, below) in sorted(totals.items()):
        base = part.layout.base(application)
        if below > MIXED_BASE * n:
            raise InputError(
                f"source {part.source.name}: application {application!r} is declared with rank base {base}, but {below} of"
                f" its {n} ranks are {base - 1}: declare rank_base = {{ {application or 'default'!r} = {base - 1} }}"
            )


def _join(parts: list[_Part], work: Ingestion) -> None:
    _find_doubted(parts, work)
    specs, owners = [], []
    for part in parts:
        context, between = _context(part)
        for bucket in range(part.buckets):
            documents = [d["uri"] for r in part.read for d in r["documents"] if d["bucket"] == bucket]
            if documents:
                specs.append(_join_spec(part, documents, context, between, work.out(f"{part.source.name}-{bucket}")))
                owners.append(part)
    for part, result in zip(owners, run_tasks(work.spark, join_task, specs, label="impressions: join"), strict=True):
        part.joined.append(result)


def _find_doubted(parts: list[_Part], work: Ingestion) -> None:
    """Events whose id stands for two things; with one bucket the join itself sees them."""
    specs, owners = [], []
    for part in parts:
        events = [e for r in part.read for e in r["events"]]
        for bucket in sorted({e["bucket"] for e in events}):
            uris = [e["uri"] for e in events if e["bucket"] == bucket]
            specs.append({"events": uris, "out": work.out(f"{part.source.name}-doubted-{bucket}.parquet")})
            owners.append(part)
    for part, result in zip(
        owners, run_tasks(work.spark, events_task, specs, label="impressions: event ids"), strict=True
    ):
        part.doubted += [result["doubted"]] if result["doubted"] else []


def _join_spec(part: _Part, documents: list[str], context: list[str], between: list[str], out: str) -> dict:
    return {
        "documents": documents,
        "doubted": part.doubted,
        "context": context,
        "between": between,
        "files": [f.key for f in part.request.files],
        "shown": part.source.shown,
        "lateness_days": part.source.lateness_days,
        "out": out,
    }


def _context(part: _Part) -> tuple[list[str], list[str]]:
    """Kept documents that may belong to this ingestion's searches, and the times between which they arrived."""
    first, last = part.span()
    if not part.keep or not first:
        part.replace = part.keep
        return [], ["", ""]
    allowed = timedelta(days=2 * part.source.lateness_days)
    start, end = date.fromisoformat(first) - allowed, date.fromisoformat(last) + allowed
    part.replace = part.ledger.complete(first=start)
    between = [_midnight(start).isoformat(), _midnight(end + timedelta(days=1)).isoformat()]
    return part.ledger.context(first=start, last=end), between


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


def _recover_raw(parts: list[_Part], work: Ingestion) -> None:
    """Fetch the content of documents that were refused when they were joined."""
    specs, owners = [], []
    for part in parts:
        refused = [j["refused"] for j in part.joined if j["refused"]]
        if refused:
            for i, files in enumerate(_by_size(part.request.files, TASK_BYTES[part.source.format])):
                spec = _read_spec(part, files, work, "") | {"refused": refused}
                specs.append(spec | {"out": work.out(f"{part.source.name}-raw-{i}")})
                owners.append(part)
    for part, result in zip(
        owners, run_tasks(work.spark, raw_task, specs, label="impressions: quarantine"), strict=True
    ):
        part.refused.append(result["refused"])


def _refused(parts: list[_Part]) -> list[quarantine.Refusals]:
    return [
        quarantine.Refusals(
            source=p.source.name,
            corpus=p.source.corpus,
            paths={f.key: f.uri for f in p.request.files},
            frames=p.refused,
            resolved=[j["resolved"] for j in p.joined if j["resolved"]],
        )
        for p in parts
    ]


def _run_day(parts: list[_Part], work: Ingestion) -> date:
    if work.run_day is not None:
        return work.run_day
    lasts = [p.span()[1] for p in parts if p.span()[1]]
    return date.fromisoformat(max(lasts)) if lasts else work.latest.date()


def _check_share(part: _Part) -> None:
    rejected, rows = part.rejected(), part.total("rows_in")
    if rows and rejected.total() > part.source.max_rejected * rows:
        top = ", ".join(f"{reason} {n}" for reason, n in rejected.most_common(3))
        raise InputError(
            f"source {part.source.name}: {rejected.total()} of {rows} rows were refused ({top}), more than max_rejected ="
            f" {part.source.max_rejected}: mend them or their declaration (see rejected_impressions); nothing was published"
        )


# --- restating days ---


def _restate(parts: list[_Part], work: Ingestion) -> list[dict]:
    results = run_tasks(work.spark, day_task, _day_specs(parts, work), label="impressions: days")
    for result in results:
        _raise(result)
    for table in ("impressions", "daily_counts", "daily_users"):
        staged = [e for r in results for e in r[table]]
        replaced = list({tuple(e["partition"].items()): e["partition"] for e in staged}.values())
        if replaced:
            work.store.commit_files(table, [f for e in staged for f in e["files"]], replaced=replaced)
    _append_texts("queries", QUERIES, [s["queries"] for r in results for s in r["seen"]], work.store)
    _append_texts("item_keys", ITEM_KEYS, [s["item_keys"] for r in results for s in r["seen"]], work.store)
    return _whole_days(results)


def _whole_days(results: list[dict]) -> list[dict]:
    """Figures by day, summed over the parts of days that were restated in parts."""
    days: dict[str, dict] = {}
    for figures in (d for r in results for d in r["days"]):
        held = days.setdefault(figures["day"], {"day": figures["day"], "changed": False, "impressions": 0, "clicks": 0,
                                                "excluded": 0})  # fmt: skip
        held["changed"] |= figures["changed"]
        for name in ("impressions", "clicks", "excluded"):
            held[name] += figures[name]
    return [days[d] for d in sorted(days)]


def _day_specs(parts: list[_Part], work: Ingestion) -> list[dict]:
    specs: list[dict] = []
    for corpus in sorted({p.source.corpus for p in parts}):
        members = [p for p in parts if p.source.corpus == corpus]
        days = Counter()
        for result in (j for p in members for j in p.joined):
            days.update(result["days"])
            days.update(dict.fromkeys(result["days_before"], 0))
        existing = _existing(work.store, corpus, days)
        for i, (chosen, key_range) in enumerate(_day_groups(days, existing)):
            specs.append(_day_spec(corpus, members, chosen, key_range, existing, work, i))
    return specs


def _existing(store: Store, corpus: str, days: Counter) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for file in store.files("impressions", where={"corpus": corpus, "event_day": list(days)}):
        found.setdefault(file.partition["event_day"], []).append(
            {"uri": file.uri, "partition": file.partition, "rows": file.rows, "size": file.size}
        )
    return found


def _day_groups(days: Counter, existing: dict[str, list[dict]]) -> list[tuple[list[str], list[int] | None]]:
    """Days for each task: small ones together, one beyond DAY_ROWS in parts by key range."""
    groups: list[tuple[list[str], list[int] | None]] = []
    held: list[str] = []
    size = 0
    for day in sorted(days):
        rows = days[day] + sum(f["rows"] for f in existing.get(day, []))
        if rows > DAY_ROWS:
            groups += [([day], list(bounds)) for bounds in range_bounds(ranges=-(-rows // DAY_ROWS))]
            continue
        if held and size + rows > TASK_ROWS:
            groups.append((held, None))
            held, size = [], 0
        held.append(day)
        size += rows
    return [*groups, *([(held, None)] if held else [])]


def _day_spec(
    corpus: str, parts: list[_Part], days: list[str], key_range: list[int] | None, existing: dict[str, list[dict]],
    work: Ingestion, number: int,
) -> dict:  # fmt: skip
    tables = ("impressions", "daily_counts", "daily_users")
    return {
        "corpus": corpus,
        "days": days,
        "range": key_range,
        "existing": {d: existing[d] for d in days if d in existing},
        "sources": {p.source.name: _source_spec(p) for p in parts},
        "tables": {t: work.store.table_uri(t) for t in tables},
        "out": work.out(f"{corpus}-days-{number}"),
    }


def _source_spec(part: _Part) -> dict:
    return {
        "name": part.source.name,
        "rows": [j["rows"] for j in part.joined],
        "touched": [j["touched"] for j in part.joined],
        "replace": part.keep and part.replace,
        "limits": {
            "impressions_per_session_hour": part.source.max_impressions_per_session_hour,
            "queries_per_user_day": part.source.max_queries_per_user_day,
        },
    }


def _append_texts(table: str, spec: Any, uris: list[str], store: Store) -> None:
    """Add the texts of keys that the table does not hold yet, corpus by corpus."""
    if not uris:
        return
    key = "query_key" if table == "queries" else "item_key"
    seen = pl.concat([pl.read_parquet(u) for u in uris]).sort("first_day")
    for (corpus,), rows in seen.partition_by("corpus", as_dict=True).items():
        held = store.read(table, where={"corpus": corpus})
        fresh = rows.unique(spec.key, keep="first", maintain_order=True).join(held, on=spec.key, how="anti")
        if fresh.height:
            store.replace(
                table, pl.concat([held, fresh.select(spec.names)]).sort(key, *spec.key), where={"corpus": corpus}
            )


# --- afterwards ---


def _settle(parts: list[_Part], work: Ingestion) -> None:
    """Remember what was read, and drop documents that no late row can need any more."""
    root = work.store.documents.root
    for part in parts:
        first, last = part.span()
        documents = [d["uri"].removeprefix(f"{root}/") for r in part.read for d in r["documents"]] if part.keep else []
        body = {"documents": documents, "first_arrival": first, "last_arrival": last, "run_id": work.run_id,
                "source": part.source.name}  # fmt: skip
        part.ledger.add(list(part.request.files), body=body)
        newest = max((e["last_arrival"] for e in part.ledger.entries.values()), default="")
        if newest:
            keep = max(KEEP_DAYS, 2 * part.source.lateness_days)
            part.ledger.drop_before(date.fromisoformat(newest) - timedelta(days=keep))


def _summary(parts: list[_Part], figures: list[dict], resolved: int) -> dict[str, Any]:
    rejected: Counter = sum((p.rejected() for p in parts), Counter())
    actions: Counter = Counter()
    for result in (r for p in parts for r in p.read):
        actions.update(result["actions"])
    total = {n: sum(p.total(n) for p in parts) for n in ("rows_in", "accepted", "duplicates", "ignored")}
    lost = total["rows_in"] - total["accepted"] - total["duplicates"] - total["ignored"] - rejected.total()
    if lost:
        raise InputError(
            f"{lost} of {total['rows_in']} rows are unaccounted for: this is a defect, report it with the files"
        )
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
        "sources": {p.source.name: _source_figures(p) for p in parts},
    }


def _source_figures(part: _Part) -> dict[str, Any]:
    names = ("rows_in", "accepted", "duplicates", "ignored", "impressions", "clicks")
    guarded = "arrived" in part.source.columns or any(f.arrival_day for f in part.request.files)
    return {n: part.total(n) for n in names} | {
        "rejected": dict(part.rejected()), "files": len(part.request.files), "arrival_guarded": guarded
    }  # fmt: skip


def run_id_of(files: list[InputFile]) -> str:
    """A name for an ingestion by hand that is the same whenever the same files are ingested."""
    return f"ingest-{key_of(*sorted(f.uri for f in files)) & 0xFFFFFFFFFFFF:012x}"

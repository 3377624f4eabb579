"""Restating event days as Spark tasks, and the one commit of each table that follows."""

from collections import Counter
from typing import Any

import polars as pl

from jobs.core.keys import range_bounds
from jobs.core.settings import Source
from jobs.core.spark import run_tasks
from jobs.core.tables import Store
from jobs.impressions.answers import raise_error
from jobs.impressions.frames import scan_frames
from jobs.impressions.restate import day_task
from jobs.impressions.work import Ingestion, Part
from schemas.logs import ITEM_KEYS, QUERIES

DAY_ROWS = 2_000_000
"""A day with more impressions is restated in parts by ranges of query keys, so that no task holds more than about
this."""

TASK_ROWS = 500_000
"""Small days share a task up to this many rows: a second of work, so that the last task keeps nobody waiting long."""


COMMIT_ORDER = ("daily_counts", "daily_users", "impressions")
"""Impressions last: whether a day changed is told from them, so that a run cut off before them does all of it again."""


def commit(table: str, staged: list[dict], store: Store) -> None:
    """Replace the staged partitions of a table; entries hold a partition and its files, a split day several entries."""
    replaced = list({tuple(e["partition"].items()): e["partition"] for e in staged}.values())
    if replaced:
        store.commit_files(table, [f for e in staged for f in e["files"]], replaced=replaced)


def restate(parts: list[Part], work: Ingestion) -> list[dict]:
    """Restate every event day that the parts' searches touch; figures by day."""
    specs: list[dict] = []
    for corpus in sorted({p.source.corpus for p in parts}):
        members = [p for p in parts if p.source.corpus == corpus]
        days = Counter()
        for result in (j for p in members for j in p.joined):
            days.update(result["days"])
            days.update(dict.fromkeys(result["days_before"], 0))
        specs += day_specs(corpus, days, sources={p.source.name: _source_spec(p) for p in members}, work=work)
    return restate_days(specs, work=work)


def restate_days(specs: list[dict], *, work: Ingestion) -> list[dict]:
    """Run day tasks and commit what they staged; figures by day."""
    results = run_tasks(work.spark, day_task, specs, label="impressions: days")
    for result in results:
        raise_error(result)
    _append_texts("queries", QUERIES, [s["queries"] for r in results for s in r["seen"]], work.store)
    _append_texts("item_keys", ITEM_KEYS, [s["item_keys"] for r in results for s in r["seen"]], work.store)
    for table in COMMIT_ORDER:
        commit(table, [e for r in results for e in r[table]], work.store)
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


def day_specs(
    corpus: str, days: Counter, *, sources: dict[str, dict], work: Ingestion, forgotten: list[int] | None = None
) -> list[dict]:
    """Specs of day tasks: `days` counts new rows by event day, `sources` says what is new of each source (source_spec).

    Rows of the `forgotten` user keys are left out.
    """
    existing = _existing(work.store, corpus, days)
    tables = {t: work.store.table_uri(t) for t in COMMIT_ORDER}
    return [
        {
            "corpus": corpus,
            "days": chosen,
            "range": key_range,
            "size": size,
            "existing": {d: existing[d] for d in chosen if d in existing},
            "sources": sources,
            "tables": tables,
            "forgotten": forgotten or [],
            "out": work.out(f"{corpus}-days-{i}"),
        }
        for i, (chosen, key_range, size) in enumerate(_day_groups(days, existing))
    ]


def _existing(store: Store, corpus: str, days: Counter) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for file in store.files("impressions", where={"corpus": corpus, "event_day": list(days)}):
        found.setdefault(file.partition["event_day"], []).append(
            {"uri": file.uri, "partition": file.partition, "rows": file.rows, "size": file.size}
        )
    return found


def _day_groups(days: Counter, existing: dict[str, list[dict]]) -> list[tuple[list[str], list[int] | None, int]]:
    """Days for each task and their rows: small ones together, one beyond DAY_ROWS in parts by key range."""
    groups: list[tuple[list[str], list[int] | None, int]] = []
    held: list[str] = []
    size = 0
    for day in sorted(days):
        rows = days[day] + sum(f["rows"] for f in existing.get(day, []))
        if rows > DAY_ROWS:
            parts = range_bounds(ranges=-(-rows // DAY_ROWS))
            groups += [([day], list(bounds), rows // len(parts)) for bounds in parts]
            continue
        if held and size + rows > TASK_ROWS:
            groups.append((held, None, size))
            held, size = [], 0
        held.append(day)
        size += rows
    return [*groups, *([(held, None, size)] if held else [])]


def source_spec(source: Source) -> dict:
    """What a day task needs of a source that brings nothing new."""
    limits = {
        "impressions_per_session_hour": source.max_impressions_per_session_hour,
        "queries_per_user_day": source.max_queries_per_user_day,
    }
    return {"name": source.name, "rows": [], "touched": [], "replace": False, "limits": limits}


def _source_spec(part: Part) -> dict:
    rows, touched = ([j[n] for j in part.joined] for n in ("rows", "touched"))
    return {**source_spec(part.source), "rows": rows, "touched": touched, "replace": part.keep and part.replace}


def _append_texts(table: str, spec: Any, uris: list[str], store: Store) -> None:
    """Add the texts of keys that the table does not hold yet, and earlier first days, corpus by corpus."""
    if not uris:
        return
    key = "query_key" if table == "queries" else "item_key"
    seen = scan_frames(uris, schema=spec.polars()).sort("first_day").collect()
    for (corpus,), rows in seen.partition_by("corpus", as_dict=True).items():
        held = store.read(table, where={"corpus": corpus})
        known = pl.concat([held, rows.select(spec.names)]).sort("first_day")
        whole = known.unique(spec.key, keep="first", maintain_order=True).sort(key, *spec.key)
        if not whole.equals(held.sort(key, *spec.key)):
            store.replace(table, whole, where={"corpus": corpus})

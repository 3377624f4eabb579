"""`hindcast impressions forget`: a user, or everything before a day, out of every table, old version and staged
document.

What cannot be reached is named: reports, cards and judgments hold only queries of many users and stay as they were
frozen; refused rows in which no user id could be told from the rest cannot be searched and go by their expiry.
"""

import importlib
from collections import Counter
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl

from jobs.core.context import Context, past
from jobs.core.errors import UsageError
from jobs.core.progress import Progress
from jobs.core.tables import DataFile, scan_uris
from jobs.impressions.daily import day_specs, restate_days, source_spec
from jobs.impressions.frames import write_frame
from jobs.impressions.inputs import Ledger
from jobs.impressions.quarantine import TABLE, drop
from jobs.impressions.values import id_text
from jobs.impressions.work import Ingestion
from schemas.names import run_key

FACTS = ("daily_counts", "daily_users", "impressions")
REWRITTEN = (*FACTS, "queries", "item_keys", TABLE, "evidence")

UNREACHED = (
    "reports, cards and judgments already made: they hold queries of at least min_users users, never a user",
    "refused rows in which no user id could be told from the rest: they expire after rejected_days",
    "the source files themselves, and hashes made with a salt that is no longer known",
)


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is to be forgotten: user ids, or every event day before `before`; of one corpus or all."""

    users: tuple[str, ...] = ()
    before: date | None = None
    corpus: str = ""


def forget(wish: Wish, *, work: Ingestion) -> dict[str, Any]:
    """Carry out the wish; returns and logs what was changed, by table, and what cannot be reached.

    Idempotent: cut off half-way, the same wish finishes the work. UsageError for an empty wish.
    """
    if bool(wish.users) == (wish.before is not None):
        raise UsageError("nothing to forget: pass either --user ID or --before YYYY-MM-DD")
    keys = [work.salt.key(id_text(u) or u) for u in wish.users]
    with work.store.documents.lock("impressions"):
        days = _days_of_users(keys, wish, work) if keys else _days_before(wish, work)
        changed = _rebuild(days, keys, work) if keys else _drop_days(days, work)
        done = {
            "days": sorted({d for d, _ in days}),
            "impressions": changed,
            "documents": _forget_documents(keys, wish, work),
            "rejected": _forget_rejected(wish, work),
            "queries": _forget_texts("queries", "query_key", work),
            "items": _forget_texts("item_keys", "item_key", work),
            "runs": _rebuild_evidence({d for d, _ in days}, wish, work),
            "old_files": sum(work.store.vacuum(t) for t in REWRITTEN),
        }
        _move_references(work)
        body = {"users": [f"{k & 0xFFFFFFFFFFFFFFFF:016x}" for k in keys], "before": wish.before, **done,
                "not_reached": list(UNREACHED)}  # fmt: skip
        work.store.write_json(f"forgotten/{work.run_id}.json", body)
    return body


# --- which days ---


def _files(wish: Wish, work: Ingestion) -> list[DataFile]:
    return work.store.files("impressions", where={"corpus": wish.corpus} if wish.corpus else None)


def _days_of_users(keys: list[int], wish: Wish, work: Ingestion) -> set[tuple[str, str]]:
    """(event day, corpus) on which one of the users was shown anything."""
    found = set()
    for file in _files(wish, work):
        if scan_uris([file.uri]).filter(pl.col("user_key").is_in(keys)).select(pl.len()).collect().item():
            found.add((file.partition["event_day"], file.partition["corpus"]))
    return found


def _days_before(wish: Wish, work: Ingestion) -> set[tuple[str, str]]:
    days = {(f.partition["event_day"], f.partition["corpus"]) for f in _files(wish, work)}
    return {(d, c) for d, c in days if d < wish.before.isoformat()}


# --- facts ---


def _rebuild(days: set[tuple[str, str]], keys: list[int], work: Ingestion) -> int:
    """Restate the days without the users; returns how many impressions went."""
    before = _count(work)
    specs: list[dict] = []
    for corpus in sorted({c for _, c in days}):
        sources = {s.name: source_spec(s) for s in work.settings.sources if s.corpus == corpus}
        mine = Counter({d: 0 for d, c in days if c == corpus})
        specs += day_specs(corpus, mine, sources=sources, work=work, forgotten=keys)
    restate_days(specs, work=work)
    return before - _count(work)


def _count(work: Ingestion) -> int:
    return sum(f.rows for f in work.store.files("impressions"))


def _drop_days(days: set[tuple[str, str]], work: Ingestion) -> int:
    before = _count(work)
    for table in FACTS:
        files = [f for f in work.store.files(table) if (f.partition["event_day"], f.partition["corpus"]) in days]
        gone = list({tuple(f.partition.items()): f.partition for f in files}.values())
        if gone:
            work.store.commit_files(table, [], replaced=gone)
    return before - _count(work)


def _forget_texts(table: str, key: str, work: Ingestion) -> int:
    """Remove texts whose key no day holds any more: a query that only this user typed is personal by itself."""
    files = work.store.files("daily_counts")
    scans = [scan_uris([file.uri]).select(key).unique() for file in files]
    used = pl.concat(scans).unique().collect(engine="streaming") if scans else pl.DataFrame(schema={key: pl.Int64})
    gone = 0
    for (corpus,), rows in work.store.read(table).partition_by("corpus", as_dict=True).items():
        kept = rows.join(used, on=key, how="semi").sort(key)
        if kept.height < rows.height:
            gone += rows.height - kept.height
            work.store.replace(table, kept, where={"corpus": corpus})
    return gone


# --- what stands beside the tables ---


def _forget_documents(keys: list[int], wish: Wish, work: Ingestion) -> int:
    """Kept documents without the users' rows, and without rows before the day; returns how many went."""
    gone = 0
    for source in work.settings.sources:
        if wish.corpus and source.corpus != wish.corpus:
            continue
        for path in Ledger(work.store, source.name).documents():
            frame = scan_uris([path]).collect()
            old = pl.col("at").dt.date() < wish.before if wish.before else pl.col("user_key").is_in(keys)
            kept = frame.filter(~old.fill_null(value=False))
            gone += frame.height - kept.height
            if kept.height < frame.height:
                write_frame(kept, path)
    return gone


def _forget_rejected(wish: Wish, work: Ingestion) -> int:
    corpus = (pl.col("corpus") == wish.corpus) if wish.corpus else pl.lit(value=True)
    if wish.before:
        return drop(work.store, where=corpus & (pl.col("run_day") < wish.before))
    tokens = [*[f'"{u}"' for u in wish.users], *[work.salt.token(id_text(u) or u) for u in wish.users]]
    named = pl.any_horizontal([pl.col("raw").str.contains(t, literal=True) for t in tokens])
    return drop(work.store, where=corpus & named.fill_null(value=False))


def _rebuild_evidence(days: set[str], wish: Wish, work: Ingestion) -> list[str]:
    """Make the evidence of every run anew whose evidence window held a changed day; returns the runs."""
    build = importlib.import_module("jobs.evidence.job").TASKS["build"]
    done = []
    for ctx in _runs(work):
        touched = {d for d in days if date.fromisoformat(d) in ctx.run.evidence}
        if not touched or "evidence" not in ctx.manifest()["tables"]:
            continue
        if wish.before and ctx.run.evidence.end <= wish.before:
            _drop_evidence(ctx, wish)
        else:
            versions = {t: work.store.version(t) for t in FACTS}
            ctx.pin("forget", {"days": sorted(touched)}, versions=versions, keep_head=True)
            build(ctx)
        done.append(ctx.run.key)
    return done


def _drop_evidence(ctx: Context, wish: Wish) -> None:
    files = ctx.store.files("evidence", where={"run": ctx.run.key, **({"corpus": wish.corpus} if wish.corpus else {})})
    gone = list({tuple(f.partition.items()): f.partition for f in files}.values())
    if gone:
        ctx.store.commit_files("evidence", [], replaced=gone)


def _runs(work: Ingestion) -> list[Context]:
    found = []
    for name in work.store.documents.list("runs"):
        if work.store.exists(f"runs/{run_key(name)}/manifest.json"):
            settings, run = past(work.store.read_json(f"runs/{name}/manifest.json"), work.settings)
            found.append(
                Context(settings=settings, store=work.store, run=run, spark=work.spark, progress=Progress(None))
            )
    return found


def _move_references(work: Ingestion) -> None:
    """Let manifests and published.json name the newest versions: the files of older ones are gone."""
    newest = {t: work.store.version(t) for t in REWRITTEN}
    for ctx in _runs(work):
        held = ctx.manifest()["tables"]
        versions = {t: v for t, v in newest.items() if t in held}
        ctx.pin("forget", {"by": work.run_id}, versions=versions, keep_head=True)
    if not work.store.exists("published.json"):
        return
    with work.store.documents.lock("published"):
        body = work.store.read_json("published.json")
        for entry in body["runs"].values():
            entry["tables"].update({t: v for t, v in newest.items() if t in entry["tables"]})
        work.store.write_json("published.json", body)

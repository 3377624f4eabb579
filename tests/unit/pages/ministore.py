"""A small store without Spark: one corpus, planted relevance, daily tables, curve and evidence of one night.

Tests run the pages and cards steps on it with tasks called one after the other in the process (`in_process`).
"""

import shutil
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from jobs.core.context import Context
from jobs.core.keys import item_key, query_key
from jobs.core.progress import Progress
from jobs.core.settings import load_settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.core.windows import Run, evidence_filter
from jobs.evidence.window import sum_window
from schemas.evidence import EVIDENCE, PROPENSITIES
from schemas.logs import DAILY_COUNTS, DAILY_USERS

DAY = date(2024, 3, 20)  # the evidence window of this night holds a leap day and a change to daylight-saving time
CORPUS = "tracks"
RANKS = 10
WINDOWS = {"evaluation_days": 6, "gap_days": 2, "evidence_days": 12, "min_evidence_days": 3}
QUERIES = [
    "basketball warmup music", "basketball warmup playlist", "basketball training music", "sad piano",
    "sad violin music",
    "running songs", "songs for a morning run", "lofi beats to study", "study music without words", "carols",
]  # fmt: skip
ITEMS = 12


@dataclass(frozen=True)
class Mini:
    """The night's context and what was planted: relevance[query, item]."""

    ctx: Context
    relevance: np.ndarray


def in_process(spark, function, specs, *, label=""):
    """Stands in for run_tasks: the same functions on the same specs, one after the other."""
    return [function(spec) for spec in specs]


def mini_store(folder: Path, *, seed: int = 0, pages_a_day: int = 40, late: float = 0.1, **overrides) -> Mini:
    """Write 21 days of daily tables up to DAY, that night's curve and evidence; a share `late` arrives 3 days on."""
    rng = np.random.default_rng(seed)
    relevance = rng.beta(2, 1.6, (len(QUERIES), ITEMS))
    ctx = _context(folder, DAY, overrides)
    for back in range(20, -1, -1):
        _write_day(ctx.store, DAY - timedelta(days=back), relevance, pages_a_day, late, rng)
    _write_texts(ctx.store)
    ctx.record("impressions", {}, tables=("daily_counts", "daily_users", "queries", "item_keys", "items"))
    _write_curve(ctx)
    write_evidence(ctx)
    return Mini(ctx=ctx, relevance=relevance)


def copy_of(mini: Mini, folder: Path, **overrides) -> Mini:
    """The same store under another folder, opened with other settings: cheaper than writing it again."""
    shutil.copytree(mini.ctx.settings.root, folder, dirs_exist_ok=True)
    return Mini(ctx=_context(folder, DAY, overrides), relevance=mini.relevance)


def write_evidence(ctx: Context, *, keep: pl.Expr | None = None) -> None:
    """The evidence table of the run, by the pure window sum; `keep` plants counts that the run must not see."""
    counts = ctx.store.read("daily_counts").filter(evidence_filter(ctx.run) if keep is None else keep)
    users = ctx.store.read("daily_users").filter(evidence_filter(ctx.run))
    curve = {(None, rank): 1 / rank for rank in range(1, RANKS + 1)}
    rows = sum_window(counts, users, curve=curve, min_users=ctx.settings.evidence.min_users)
    named = rows.join(ctx.store.read("queries").select("query_key", "query", "locale"), on="query_key").join(
        ctx.store.read("item_keys").select("item_key", "item_id"), on="item_key"
    )
    frame = named.with_columns(
        corpus=pl.lit(CORPUS), run=pl.lit(ctx.run.key), curve_id=pl.lit("declared"),
        window_start=pl.lit(ctx.run.evidence.start), window_end=pl.lit(ctx.run.evidence.end),
    ).select(pl.col(name).cast(kind) for name, kind in EVIDENCE.polars().items())  # fmt: skip
    ctx.store.replace("evidence", frame, where={"run": ctx.run.key, "corpus": CORPUS})
    ctx.record("evidence", {}, tables=("evidence",))


def key_of_query(text: str) -> int:
    """Key of one of QUERIES."""
    return query_key(CORPUS, "en", text)


def _context(folder: Path, night: date, overrides: dict) -> Context:
    body = {
        "root": str(folder),
        "corpora": {CORPUS: {"locales": ["en"]}},
        "windows": WINDOWS,
        "evidence": {"min_users": 5},
        "pages": {"users": [5, 400], "min_item_impressions": 10, "degraded_share": 1.0},
    }
    settings = load_settings(None, environment={}, **{**body, **overrides})
    store = Store(settings.store_uri)
    return Context(
        settings=settings,
        store=store,
        run=Run.night(night, lengths=settings.windows.lengths),
        spark=SparkProvider(settings.spark, store_uri=settings.store_uri),
        progress=Progress(None),
    )


def _write_day(
    store: Store, day: date, relevance: np.ndarray, pages: int, late_share: float, rng: np.random.Generator
) -> None:
    q = rng.integers(0, len(QUERIES), pages * len(QUERIES))
    order = np.argsort(rng.standard_normal((len(q), ITEMS)) - relevance[q], axis=1)[:, :RANKS]
    clicked = rng.random(order.shape) < relevance[q[:, None], order] / np.arange(1, RANKS + 1)
    keys = np.array([key_of_query(text) for text in QUERIES])
    items = np.array([item_key(CORPUS, f"item-{i}") for i in range(ITEMS)])
    late = rng.random(len(q)) < late_share
    rows = pl.DataFrame(
        {
            "query_key": np.repeat(keys[q], RANKS),
            "item_key": items[order].ravel(),
            "rank": np.tile(np.arange(1, RANKS + 1, dtype=np.int32), len(q)),
            "arrival_day": np.repeat(np.where(late, np.datetime64(day) + 3, np.datetime64(day)), RANKS),
            "clicks": clicked.ravel().astype(np.int64),
        }
    ).with_columns(pl.col("arrival_day").cast(pl.Date))
    counts = rows.group_by("query_key", "item_key", "rank", "arrival_day").agg(
        impressions=pl.len().cast(pl.Int64), clicks=pl.col("clicks").sum()
    )
    fixed = {"event_day": day, "corpus": CORPUS, "locale": "en", "randomised": False, "interaction": 0}
    full = counts.with_columns(
        *(pl.lit(value).alias(name) for name, value in fixed.items()),
        segment=pl.lit(None, pl.String),
        ranker=pl.lit("noisy"),
    )
    _put(store, "daily_counts", DAILY_COUNTS, full, day)
    users = pl.DataFrame({"query_key": keys[q], "user_hash": rng.integers(-(2**62), 2**62, len(q)) // 2**55 * 2**55})
    named = users.unique().with_columns(
        event_day=pl.lit(day), corpus=pl.lit(CORPUS), locale=pl.lit("en"), arrival_day=pl.lit(day), salt_id=pl.lit("s1")
    )
    _put(store, "daily_users", DAILY_USERS, named, day)


def _put(store: Store, name: str, table, frame: pl.DataFrame, day: date) -> None:
    ready = frame.select(pl.col(n).cast(kind) for n, kind in table.polars().items()).sort(table.sorted_by)
    store.replace(name, ready, where={"event_day": day.isoformat(), "corpus": CORPUS})


def _write_texts(store: Store) -> None:
    first = date(2024, 1, 1)
    queries = pl.DataFrame(
        {"corpus": CORPUS, "locale": "en", "query_key": [key_of_query(q) for q in QUERIES], "query": QUERIES}
    ).with_columns(first_day=pl.lit(first))
    ids = [f"item-{i}" for i in range(ITEMS)]
    keyed = pl.DataFrame({"corpus": CORPUS, "item_key": [item_key(CORPUS, i) for i in ids], "item_id": ids})
    items = pl.DataFrame({"corpus": CORPUS, "item_id": ids, "title": [f"Song number {i}" for i in range(ITEMS)]})
    store.replace("queries", queries.sort("query_key"), where={"corpus": CORPUS})
    store.replace("item_keys", keyed.with_columns(first_day=pl.lit(first)).sort("item_key"), where={"corpus": CORPUS})
    described = items.with_columns(valid_from=pl.lit(first), type=pl.lit("track"), metadata=pl.lit("{}"))
    store.replace(
        "items",
        described.select("corpus", "item_id", "valid_from", "title", "type", "metadata"),
        where={"corpus": CORPUS},
    )


def _write_curve(ctx: Context) -> None:
    rows = [
        {
            "run": ctx.run.key, "corpus": CORPUS, "curve_id": "declared", "segment": None, "rank": rank,
            "estimator": "declared", "window_start": ctx.run.evidence.start, "window_end": ctx.run.evidence.end,
            "propensity": 1 / rank, "standard_error": 0.0, "raw": 1 / rank, "isotonic": 1 / rank, "pairs": 0,
            "impressions": 0, "clicks": 0, "identified": False, "reason": "planted", "source": "declared",
        }
        for rank in range(1, RANKS + 1)
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=PROPENSITIES.polars(), orient="row")
    ctx.store.replace("propensities", frame, where={"run": ctx.run.key, "corpus": CORPUS})
    ctx.record("propensity", {}, tables=("propensities",))

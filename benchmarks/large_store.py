"""Stores of a large night for benchmarks: many daily counts, or much evidence, written without Spark."""

import json
import time
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from jobs.core.context import Context
from jobs.core.keys import item_key, key_hex, range_bounds
from jobs.core.progress import Progress
from jobs.core.settings import load_settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store, stage
from jobs.core.windows import Run
from schemas.evidence import EVIDENCE, PROPENSITIES
from schemas.logs import DAILY_COUNTS, DAILY_USERS, ITEM_KEYS
from schemas.logs import ITEMS as CATALOGUE
from schemas.logs import QUERIES as QUERY_TEXTS
from schemas.pages import PAGES

NIGHT = date(2026, 11, 20)
CORPUS = "tracks"
DAYS, RANKS, ITEMS = 10, 10, 20
QUERIES = 20_000
ROWS_A_DAY = 2_000_000


class RandomEncoder:
    """Random vectors of length 1 in place of a model's; `seconds` is what they took."""

    name, revision, embedded = "random", "1", 0

    def __init__(self) -> None:
        self.seconds = 0.0

    def encode(self, texts: list[str], *, kind: str = "plain") -> np.ndarray:
        """float32[n, 384]."""
        begun = time.perf_counter()
        vectors = np.random.default_rng(0).standard_normal((len(texts), 384), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        self.seconds += time.perf_counter() - begun
        return vectors


def large_night(room: Path) -> tuple[Context, int]:
    """A night whose evaluation window holds 20 million rows of daily counts; returns it and the number of rows."""
    rng = np.random.default_rng(0)
    ctx = _context(room)
    keys = np.sort(rng.integers(-(2**63), 2**63 - 1, QUERIES))
    items = np.array([item_key(CORPUS, f"i{n}") for n in range(QUERIES)])
    relevance = rng.beta(1.5, 2.0, (QUERIES, ITEMS))
    days = [NIGHT - timedelta(days=back) for back in range(DAYS)]
    staged = [_day(ctx.store, day, keys, items, relevance, rng) for day in days]
    replaced = [{"event_day": day.isoformat(), "corpus": CORPUS} for day in days]
    for table, index in (("daily_counts", 0), ("daily_users", 1)):
        ctx.store.commit_files(table, [files[index] for files in staged], replaced=replaced)
    _texts(ctx.store, keys, items)
    ctx.record("impressions", {}, tables=("daily_counts", "daily_users", "queries", "item_keys", "items"))
    _curve(ctx)
    return ctx, sum(files[0].rows for files in staged)


def card_night(room: Path, *, pages: int, items: int, per_item: int) -> Context:
    """A night with `pages` pages of `items` items and `per_item` evidence rows for each of them."""
    ctx = _context(room)
    count, history = pages * items, 200_000
    rng = np.random.default_rng(1)
    rows = count * per_item
    keys = np.array([item_key(CORPUS, f"i{n}") for n in range(count)])
    owner, query = np.repeat(np.arange(count), per_item), rng.integers(0, history, rows)
    shown = rng.integers(1, 1000, rows)
    base = {"item_key": keys[owner], "query_key": query.astype(np.int64), "impressions": shown}
    frame = pl.DataFrame(base).with_columns(
        item_id=pl.concat_str(pl.lit("i"), pl.Series(owner)), query=pl.concat_str(pl.lit("query "), "query_key"),
        corpus=pl.lit(CORPUS), run=pl.lit(ctx.run.key), locale=pl.lit("en"), segment=pl.lit(None, pl.String),
        window_start=pl.lit(ctx.run.evidence.start), window_end=pl.lit(ctx.run.evidence.end), curve_id=pl.lit("c"),
        clicks=pl.col("impressions") // 5, interaction=pl.lit(0), examined=pl.col("impressions") * 0.4,
        examined_squared=pl.col("impressions") * 0.3, ctr=pl.lit(0.2), relevance=pl.lit(0.5), relevance_low=pl.lit(0.4),
        relevance_high=pl.lit(0.6), relevance_shrunk=pl.lit(0.5), users=pl.lit(50), users_exact=pl.lit(value=True),
        last_shown_day=pl.lit(ctx.run.evidence.start), ranks=pl.lit([1], pl.List(pl.Int64)),
        rank_impressions=pl.concat_list("impressions"), rank_clicks=pl.concat_list(pl.col("impressions") // 5),
    ).unique(["item_key", "query_key"]).sort("query_key", "item_key")  # fmt: skip
    typed = frame.select(pl.col(name).cast(kind) for name, kind in EVIDENCE.polars().items())
    parts = [typed[start : start + 500_000] for start in range(0, typed.height, 500_000)]
    where = {"run": ctx.run.key, "corpus": CORPUS}
    files = [stage(ctx.store.table_uri("evidence"), EVIDENCE, part, partition=where) for part in parts]
    ctx.store.commit_files("evidence", files, replaced=[where])
    ctx.store.replace("pages", _card_pages(ctx, pages, items), where={"run": ctx.run.key, "set": "logs"})
    ctx.record("evidence", {}, tables=("evidence", "pages"))
    return ctx


def _context(room: Path) -> Context:
    settings = load_settings(
        None, environment={}, root=str(room), corpora={CORPUS: {"locales": ["en"]}}, spark={"master": "local[2]"}
    )
    store = Store(settings.store_uri)
    return Context(
        settings=settings,
        store=store,
        run=Run.night(NIGHT, lengths=settings.windows.lengths),
        spark=SparkProvider(settings.spark, store_uri=settings.store_uri),
        progress=Progress(None),
    )


def _day(store: Store, day: date, keys: np.ndarray, items: np.ndarray, relevance: np.ndarray, rng: np.random.Generator):
    """Staged files (counts, users) of one day: each query's items at several ranks."""
    q = np.repeat(np.arange(QUERIES), ROWS_A_DAY // QUERIES)
    place = rng.integers(0, ITEMS, len(q))
    shown = rng.integers(1, 4, len(q))
    rank = rng.integers(1, RANKS + 1, len(q))
    clicks = rng.binomial(shown, np.minimum(1, relevance[q, place] / rank))
    frame = pl.DataFrame(
        {
            "query_key": keys[q],
            "item_key": items[(q * 7 + place) % QUERIES],
            "rank": rank,
            "impressions": shown,
            "clicks": clicks,
        }
    ).with_row_index("n")
    counts = frame.with_columns(
        event_day=pl.lit(day), arrival_day=pl.lit(day), corpus=pl.lit(CORPUS), locale=pl.lit("en"),
        segment=pl.lit(None, pl.String), ranker=pl.concat_str(pl.lit("r"), pl.col("n")), randomised=pl.lit(value=False),
        interaction=pl.lit(0),
    )  # fmt: skip
    who = np.repeat(np.arange(QUERIES), 12)
    users = pl.DataFrame(
        {"query_key": keys[who], "user_hash": rng.integers(-(2**63), 2**63 - 1, len(who))}
    ).with_columns(
        event_day=pl.lit(day), arrival_day=pl.lit(day), corpus=pl.lit(CORPUS), locale=pl.lit("en"), salt_id=pl.lit("s")
    )
    where = {"event_day": day.isoformat(), "corpus": CORPUS}
    return tuple(_staged(store, table, rows, where) for table, rows in ((DAILY_COUNTS, counts), (DAILY_USERS, users)))


def _staged(store: Store, table, frame: pl.DataFrame, where: dict[str, str]):
    ready = frame.select(pl.col(n).cast(kind) for n, kind in table.polars().items()).sort(table.sorted_by)
    highs = [high for _, high in range_bounds()][:-1]
    cuts = sorted(set(np.searchsorted(ready["query_key"].to_numpy(), highs, side="right").tolist()) - {0})
    return stage(store.table_uri(table.name), table, ready, partition=where, cuts=cuts)


def _texts(store: Store, keys: np.ndarray, items: np.ndarray) -> None:
    first = date(2026, 1, 1)
    queries = pl.DataFrame({"query_key": keys}).with_columns(
        query=pl.concat_str(pl.lit("query "), pl.col("query_key")),
        corpus=pl.lit(CORPUS),
        locale=pl.lit("en"),
        first_day=first,
    )
    ids = pl.DataFrame({"item_key": items, "item_id": [f"i{n}" for n in range(len(items))]}).with_columns(
        corpus=pl.lit(CORPUS), first_day=first
    )
    titled = ids.select("corpus", "item_id", valid_from="first_day").with_columns(
        title=pl.concat_str(pl.lit("song of "), "item_id"), type=pl.lit("track"), metadata=pl.lit("{}")
    )
    for spec, frame in ((QUERY_TEXTS, queries), (ITEM_KEYS, ids), (CATALOGUE, titled)):
        ready = frame.select(pl.col(n).cast(kind) for n, kind in spec.polars().items())
        store.replace(spec.name, ready.sort(spec.sorted_by or "item_id"), where={"corpus": CORPUS})


def _curve(ctx: Context) -> None:
    start, end = ctx.run.evidence.start, ctx.run.evidence.end
    rows = [
        {"run": ctx.run.key, "corpus": CORPUS, "curve_id": "c", "segment": None, "rank": rank, "estimator": "declared",
         "window_start": start, "window_end": end, "propensity": 1 / rank, "standard_error": 0.01, "raw": 1 / rank,
         "isotonic": 1 / rank, "pairs": 0, "impressions": 0, "clicks": 0, "identified": False, "reason": "planted",
         "source": "declared"}
        for rank in range(1, RANKS + 1)
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=PROPENSITIES.polars(), orient="row")
    ctx.store.replace("propensities", frame, where={"run": ctx.run.key, "corpus": CORPUS})
    ctx.record("propensity", {}, tables=("propensities",))


def _card_pages(ctx: Context, pages: int, items: int) -> pl.DataFrame:
    rows = [
        {"run": ctx.run.key, "set": "logs", "page_id": f"p{page}", "corpus": CORPUS, "locale": "en", "query_key": page,
         "query": f"page {key_hex(page)}", "context": None, "system": None, "instance": 0, "configuration": "good",
         "items": json.dumps([{"item_id": f"i{page * items + n}", "rank": n + 1} for n in range(items)]), "truth": None,
         "truth_standard_error": None, "human_label": None, "human_label_source": None, "made": "{}"}
        for page in range(pages)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=PAGES.polars(), orient="row")

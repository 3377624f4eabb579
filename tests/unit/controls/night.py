"""A whole night on a simulated world in memory: the pipeline's own pure functions one after the other, no Spark, no
store.
"""

import math
from dataclasses import dataclass

import numpy as np
import orjson
import polars as pl

from jobs.cards.build import select_rows
from jobs.cards.thresholds import SHIPPED
from jobs.core.embedding import PACKAGED, Encoder
from jobs.core.keys import key_from_hex
from jobs.core.windows import Run, WindowLengths, composes_filter, evaluation_filter, evidence_filter
from jobs.evidence.users import distinct_users
from jobs.evidence.window import sum_window
from jobs.judging import baseline
from jobs.judging.inputs import page_from
from jobs.pages.compose import Composition, compose_pages
from jobs.pages.measure import item_relevance
from jobs.pages.truth import page_truth
from jobs.propensity.curve import Curve
from jobs.propensity.estimate import Options, fit
from jobs.simulate.counts import daily_counts, daily_users
from jobs.simulate.files import planted_relevance
from jobs.simulate.planted import SYSTEMS, human_pages, make_launch, page_rows, rater_labels
from jobs.simulate.sizes import CORPORA, LAST_DAY
from jobs.simulate.world import World

NEAR_DUPLICATE = SHIPPED[PACKAGED]
TOP_K = 10


@dataclass(frozen=True, kw_only=True)
class Night:
    """pages: page_id, corpus, set, query_key, query, locale, items (JSON), configuration, system, instance, truth,
    planted, human_label. cards: rows as in the cards table. items: the judge's item frame. outcomes: query_key,
    planted b - a.
    """

    pages: pl.DataFrame
    cards: pl.DataFrame
    items: pl.DataFrame
    outcomes: pl.DataFrame
    curves: dict[str, Curve]

    def grades(self, variant: str, *, cards: pl.DataFrame | None = None) -> pl.DataFrame:
        """page_id, score, grade of all pages under a variant; `cards` stands in for the night's own."""
        rows = (self.cards if cards is None else cards).select(list(baseline.ROW_SCHEMA)).cast(baseline.ROW_SCHEMA)
        return baseline.score_pages(self.items, rows, variant=variant)


def make_night(world: World, *, embedder: Encoder) -> Night:
    """Logs, human and launch pages of the world's last night with cards and everything that a judge needs."""
    size = world.size
    lengths = WindowLengths(
        evaluation_days=size.evaluation_days, gap_days=size.gap_days, evidence_days=size.evidence_days,
        min_evidence_days=7,
    )  # fmt: skip
    run = Run.night(LAST_DAY, lengths=lengths)
    parts = [_corpus_night(world, corpus, run, embedder) for corpus in CORPORA]
    return Night(
        pages=pl.concat([p.pages for p in parts]),
        cards=pl.concat([p.cards for p in parts]),
        items=pl.concat([p.items for p in parts]),
        outcomes=pl.concat([p.outcomes for p in parts]),
        curves={c: p.curves[c] for c, p in zip(CORPORA, parts, strict=True)},
    )


def _corpus_night(world: World, corpus: str, run: Run, embedder: Encoder) -> Night:
    days = list(run.history.each_day())
    counts, users = daily_counts(world, corpus=corpus, days=days), daily_users(world, corpus=corpus, days=days)
    curve = fit(counts.filter(evidence_filter(run)), options=Options(max_rank=world.size.hits, replicates=50))
    evidence = sum_window(
        counts.filter(evidence_filter(run)), users.filter(evidence_filter(run)), curve=curve.lookup(max_rank=100),
        min_users=world.size.min_users,
    )  # fmt: skip
    logs = _logs_pages(
        world, corpus, counts.filter(evaluation_filter(run)), users.filter(evaluation_filter(run)), curve
    )
    launch, outcomes = _launch_pages(world, corpus)
    pages = pl.concat([logs, _human_pages(world, corpus), launch], how="diagonal_relaxed")
    cards = _cards(world, corpus, pages, evidence, embedder)
    judged = [
        page_from(row) for row in pages.select("page_id", "query", "items", "set", "corpus").iter_rows(named=True)
    ]
    items = baseline.item_frame(judged, embedder=embedder)
    return Night(pages=pages, cards=cards, items=items, outcomes=outcomes, curves={corpus: curve})


def _curve_frame(curve: Curve) -> pl.DataFrame:
    rows = [(None, r.rank, r.propensity, r.standard_error) for r in curve.ranks]
    schema = {"segment": pl.String, "rank": pl.Int32, "propensity": pl.Float64, "standard_error": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _logs_pages(world: World, corpus: str, counts: pl.DataFrame, users: pl.DataFrame, curve: Curve) -> pl.DataFrame:
    low, high = world.size.page_users
    least = math.ceil(world.size.min_item_impressions / 2)
    issuers = distinct_users(users).filter((pl.col("users_least") >= low) & (pl.col("users") <= high))
    keys = ["query_key", "item_key", "segment", "rank", "composes"]
    sides = counts.join(issuers, on="query_key", how="semi").with_columns(composes=composes_filter())
    sides = sides.group_by(keys, maintain_order=True).agg(pl.col("impressions", "clicks").sum())
    frame = _curve_frame(curve)
    enough = sides.group_by("query_key", "item_key").agg(
        even=pl.col("impressions").filter("composes").sum(), odd=pl.col("impressions").filter(~pl.col("composes")).sum()
    ).filter((pl.col("even") >= least) & (pl.col("odd") >= least))  # fmt: skip
    seen = sides.join(enough, on=["query_key", "item_key"], how="semi")
    part = world.corpora[corpus]
    titles = part.items.select("item_key", "title")
    composition = Composition(
        min_item_impressions=least,
        min_item_relevance=world.size.min_item_relevance,
        degraded_share=world.size.degraded_share,
    )
    composed = compose_pages(
        item_relevance(seen.filter("composes"), curve=frame), titles=titles, composition=composition
    )
    name = pl.concat_str(pl.lit(f"logs-{corpus}-"), pl.col("query_key").cast(pl.String), pl.lit("-"), "configuration")
    layout = composed.layout.with_columns(page=name)
    truth = page_truth(layout, counts=seen, curve=frame)
    return _described(world, corpus, layout).join(truth.select(page_id="page", truth="truth"), on="page_id", how="left")


def _described(world: World, corpus: str, layout: pl.DataFrame) -> pl.DataFrame:
    """Pages of a layout with texts and planted relevance."""
    part = world.corpora[corpus]
    planted = _planted(world, corpus)
    items = part.items.select("item_key", "item_id", "title", "type")
    shown = layout.join(items, on="item_key", how="left").join(planted, on=["query_key", "item_key"], how="left")
    shown = shown.sort("page", "rank").with_columns(weight=1 / (pl.col("rank") + 1).log(2))
    pages = shown.group_by("page", "query_key", "configuration", maintain_order=True).agg(
        items=pl.struct("item_id", "rank", "title", "type"),
        planted=(pl.col("weight") * pl.col("relevance_right")).sum() / pl.col("weight").sum(),
    )
    texts = part.queries.select("query_key", "query", "locale", "kind")
    return pages.join(texts, on="query_key", how="left").select(
        pl.col("page").alias("page_id"), pl.lit(corpus).alias("corpus"), pl.lit("logs").alias("set"), "query_key",
        "query", "locale", "kind", "configuration", _json("items"), "planted",
    )  # fmt: skip


def _json(name: str) -> pl.Expr:
    return pl.col(name).map_elements(lambda items: orjson.dumps(items.to_list()).decode(), return_dtype=pl.String)


def _planted(world: World, corpus: str) -> pl.DataFrame:
    frame = planted_relevance(world, corpus=corpus)
    return frame.select("query_key", "item_key", pl.col("relevance").alias("relevance_right"))


def _human_pages(world: World, corpus: str) -> pl.DataFrame:
    pages = human_pages(world, corpus=corpus, count=round(world.size.labels * CORPORA[corpus]))
    labels, _ = rater_labels(world, pages)
    rows = page_rows(world, pages, set_="human", prefix="human", system=None, instance=0)
    frame = _frame(rows).with_columns(
        pl.Series("planted", pages.relevance), pl.Series("human_label", labels.mean(axis=1))
    )
    return _with_kind(world, corpus, frame)


def _launch_pages(world: World, corpus: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    test = make_launch(world, corpus=corpus, queries=round(world.size.launch_queries * CORPORA[corpus]))
    frames = []
    for (system, instance), pages in test.pages.items():
        rows = page_rows(world, pages, set_="launch", prefix=f"launch-{system}", system=system, instance=instance)
        frames.append(_frame(rows).with_columns(pl.Series("planted", pages.relevance)))
    keys = world.corpora[corpus].queries["query_key"].gather(test.query)
    outcomes = pl.DataFrame({"query_key": keys, **{f"system_{s}": test.planted[s] for s in SYSTEMS}})
    return _with_kind(world, corpus, pl.concat(frames)), outcomes


def _frame(rows: list[dict]) -> pl.DataFrame:
    flat = [{**r, "query_key": key_from_hex(r["query_key"]), "items": orjson.dumps(r["items"]).decode()} for r in rows]
    return pl.DataFrame(flat, schema_overrides={"query_key": pl.Int64, "system": pl.String})


def _with_kind(world: World, corpus: str, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.join(world.corpora[corpus].queries.select("query_key", "kind"), on="query_key", how="left")


def _cards(world: World, corpus: str, pages: pl.DataFrame, evidence: pl.DataFrame, embedder: Encoder) -> pl.DataFrame:
    """Card rows as jobs/cards makes them, from every historical query of each item in the page's own locale."""
    part = world.corpora[corpus]
    texts = part.queries.select("query_key", "query", "locale", n=pl.int_range(pl.len()))
    vectors = embedder.encode(texts["query"].to_list())
    exploded = pages.select("page_id", "query_key", "items").with_columns(
        pl.col("items").str.json_decode(pl.List(pl.Struct({"item_id": pl.String}))).alias("items")
    ).explode("items").unnest("items")  # fmt: skip
    shown = exploded.join(part.items.select("item_id", "item_key"), on="item_id", how="left")
    shown = shown.join(texts.select("query_key", page_n="n", page_locale="locale"), on="query_key", how="left")
    history = evidence.join(texts, on="query_key", how="left")
    found = (
        shown.rename({"query_key": "page_query"})
        .join(history, on="item_key")
        .filter(pl.col("page_locale") == pl.col("locale"))
    )
    cosine = np.round((vectors @ vectors.T).astype(np.float64), 6)
    found = found.with_columns(similarity=pl.Series(cosine[found["page_n"].to_numpy(), found["n"].to_numpy()]))
    candidates = found.with_columns(
        exact=pl.col("query_key") == pl.col("page_query"), near=pl.col("similarity") > NEAR_DUPLICATE
    )
    return select_rows(candidates, top_k=TOP_K).with_columns(corpus=pl.lit(corpus))

"""Nights of many seeds graded and laid side by side: what the control tests measure."""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from jobs.core.embedding import Encoder
from jobs.judging import baseline
from jobs.reports.alignment import credits, preferences, sign
from jobs.reports.association import association
from jobs.reports.controls import shuffled_cards
from jobs.reports.resample import Subset, bootstrap, interval, mean_samples
from jobs.simulate.sizes import DEMO
from jobs.simulate.world import make_world
from tests.unit.controls.night import Night, make_night

SIZE = replace(DEMO, labels=300, launch_queries=320)
SAMPLES = 1000
SHUFFLED = "shuffled"


@dataclass(frozen=True, kw_only=True)
class Graded:
    """Pages of one seed with a column of grades per variant, those under shuffled cards, outcomes of the A/B test; and
    per corpus the fitted and the planted examination by rank.
    """

    pages: pl.DataFrame
    examination: dict[str, tuple[list[float], list[float]]]


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A difference of two judges with its 95% interval, by bootstrap over queries."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}] n={self.n}"


def graded_night(
    seed: int, *, embedder: Encoder, variants: tuple[str, ...], poor_share: float | None = None
) -> Graded:
    """One night of one seed, graded under `variants` and with shuffled cards."""
    world = make_world(seed=seed, size=SIZE, poor_share=poor_share)
    night = make_night(world, embedder=embedder)
    pages = night.pages.with_columns(pl.lit(seed).alias("seed"))
    for variant in variants:
        pages = _with_grades(pages, night.grades(variant), variant)
    pages = _with_grades(pages, night.grades("qri", cards=_shuffled(night, seed)), SHUFFLED)
    curves = {c: [r.propensity for r in curve.ranks] for c, curve in night.curves.items()}
    return Graded(
        pages=pages.join(night.outcomes, on="query_key", how="left"),
        examination={c: (fitted, world.corpora[c].examination[0].tolist()) for c, fitted in curves.items()},
    )


def _with_grades(pages: pl.DataFrame, graded: pl.DataFrame, name: str) -> pl.DataFrame:
    return pages.join(graded.select("page_id", pl.col("grade").cast(pl.Float64).alias(name)), on="page_id", how="left")


def _shuffled(night: Night, seed: int) -> pl.DataFrame:
    logs = night.pages.filter(pl.col("set") == "logs")
    cards = night.cards.filter(pl.col("page_id").is_in(logs["page_id"].implode()))
    dealt = shuffled_cards(logs, cards, seed=seed)
    return baseline.row_frame((page, row) for page, rows in dealt.items() for row in rows)


def query_ids(pages: pl.DataFrame) -> np.ndarray:
    """One number per seed and query: what is resampled. Two seeds may share a query's text, not its world."""
    return pages.select(pl.struct("seed", "query_key").rank("dense")).to_series().to_numpy().astype(np.int64)


def spearman_gain(pages: pl.DataFrame, *, better: str, base: str, truth: str) -> Gain:
    """Spearman of `better` minus that of `base` with `truth`, over all pages that have it."""
    pages = pages.drop_nulls(truth)
    labels = {v: pages[v].to_numpy() for v in (better, base)}
    against, query = pages[truth].to_numpy(), query_ids(pages)
    subset = Subset(name="all", rows=np.arange(pages.height), labels=labels)
    drawn = bootstrap(truth=against, query=query, subsets=[subset], samples=SAMPLES, seed=1)
    ends = interval(drawn["all", better][:, 0] - drawn["all", base][:, 0])
    value = association(labels[better], against)["spearman"] - association(labels[base], against)["spearman"]
    return Gain(value=value, low=ends[0], high=ends[1], n=pages.height)


def clearly_different(pages: pl.DataFrame) -> pl.DataFrame:
    """Launch pages of the queries whose planted systems differ by a standard deviation of that difference or more."""
    apart = pl.col("system_b") - pl.col("system_a")
    tests = pages.filter(pl.col("set") == "launch").with_columns(apart=apart)
    spread = tests.unique(["seed", "query_key"]).group_by("seed").agg(spread=pl.col("apart").std())
    return tests.join(spread, on="seed").filter(pl.col("apart").abs() >= pl.col("spread"))


def alignment_gain(pages: pl.DataFrame, *, better: str, base: str) -> Gain:
    """Half-credit sign alignment of `better` minus that of `base` with the planted signs."""
    tests = pages.with_columns(pl.Series("query_key", query_ids(pages)))
    first = tests.unique("query_key").sort("query_key")
    online = {k: sign(a - b) for k, a, b in first.select("query_key", "system_a", "system_b").iter_rows()}
    halves = [_half_credits(tests, variant, online) for variant in (better, base)]
    difference = (halves[0] - halves[1])[:, None]
    drawn = mean_samples(difference, first["query_key"].to_numpy(), samples=SAMPLES, seed=1)[:, 0]
    low, high = interval(drawn)
    return Gain(value=float(difference.mean()), low=low, high=high, n=len(difference))


def _half_credits(tests: pl.DataFrame, variant: str, online: dict[int, int]) -> np.ndarray:
    judged = {key: found.sign for key, found in preferences(tests, value=variant).items()}
    return credits(judged, online)[:, 1]

"""`python -m benchmarks.pages`: how true the truth of Logs pages is on simulated logs, with the planted curve.

Per configuration: bias against planted page relevance, coverage of the 95% intervals, mean drop against the planted
one; and the rank correlation beside the ceiling that the truth's own errors set. Seeds 100 to 107 of the demo's world.
"""

import sys

import numpy as np
import polars as pl
from scipy.stats import spearmanr

from benchmarks.lines import Line, at_most, emit, holds, within
from jobs.core.windows import Run, WindowLengths, composes_filter, evaluation_filter
from jobs.pages.compose import Composition, compose_pages
from jobs.pages.measure import PAIR, item_relevance
from jobs.pages.truth import dcg_weight, page_truth
from jobs.simulate.counts import daily_counts
from jobs.simulate.files import planted_relevance
from jobs.simulate.sizes import CORPORA, LAST_DAY
from jobs.simulate.world import World, examination_curve, make_world

SEEDS = range(100, 108)
LEAST = 10  # impressions of an item on each side, as the default settings ask for
KINDS = ("good", "omitted", "low", "substitute")


def main() -> int:
    """Measure, print, keep under out/bench; returns the exit code."""
    pages = pl.concat([scored(make_world(seed=seed, size="demo"), corpus) for seed in SEEDS for corpus in CORPORA])
    lines = [line for kind in KINDS for line in _lines(pages.filter(pl.col("configuration") == kind), kind)]
    lines += [line for kind in KINDS[1:] for line in _drop(pages, kind)] + _ceiling(pages)
    return emit(lines, name="pages")


def scored(world: World, corpus: str) -> pl.DataFrame:
    """Pages of one corpus: page, query, configuration, truth, truth_standard_error, same (truth, were it scored on the
    composing days), planted; ids carry the seed.
    """
    size = world.size
    lengths = WindowLengths(
        evaluation_days=size.evaluation_days, gap_days=size.gap_days, evidence_days=size.evidence_days
    )
    run = Run.night(LAST_DAY, lengths=lengths)
    days = daily_counts(world, corpus=corpus, days=list(run.evaluation.each_day())).filter(evaluation_filter(run))
    keys = [*PAIR, "segment", "rank", "composes"]
    counts = days.with_columns(composes=composes_filter()).group_by(keys).agg(pl.col("impressions", "clicks").sum())
    counts = counts.join(_seen(counts), on=PAIR, how="semi").sort(keys)
    curve = _planted_curve(corpus, size.hits)
    composed = compose_pages(
        item_relevance(counts.filter("composes"), curve=curve),
        titles=world.corpora[corpus].items.select("item_key", "title"),
        composition=Composition(min_item_impressions=LEAST, degraded_share=1.0),
    )
    page = pl.concat_str(pl.lit(f"{world.seed}-"), "query_key", pl.lit("-"), "configuration")
    layout = composed.layout.with_columns(page=page)
    truth = page_truth(layout, counts=counts, curve=curve)
    flipped = page_truth(layout, counts=counts.with_columns(composes=~pl.col("composes")), curve=curve)
    named = layout.select("page", "configuration", query=pl.format("{}-{}", pl.lit(world.seed), "query_key")).unique()
    return (
        truth.join(flipped.select("page", same="truth"), on="page")
        .join(_planted_truth(world, corpus, layout), on="page")
        .join(named, on="page")
    )


def _seen(counts: pl.DataFrame) -> pl.DataFrame:
    sides = counts.group_by(PAIR).agg(
        even=pl.col("impressions").filter("composes").sum(), odd=pl.col("impressions").filter(~pl.col("composes")).sum()
    )
    return sides.filter((pl.col("even") >= LEAST) & (pl.col("odd") >= LEAST))


def _planted_curve(corpus: str, hits: int) -> pl.DataFrame:
    p = examination_curve(corpus, hits=hits)
    frame = pl.DataFrame({"rank": np.arange(1, hits + 1, dtype=np.int32), "propensity": p / p[0]})
    return frame.with_columns(segment=pl.lit(None, pl.String), standard_error=pl.lit(0.0))


def _planted_truth(world: World, corpus: str, layout: pl.DataFrame) -> pl.DataFrame:
    relevance = planted_relevance(world, corpus=corpus).select(*PAIR, relevance_planted="relevance")
    items = layout.join(relevance, on=PAIR, how="left")
    weight = dcg_weight()
    return items.group_by("page").agg(planted=(weight * pl.col("relevance_planted")).sum() / weight.sum())


def _lines(pages: pl.DataFrame, kind: str) -> list[Line]:
    error = (pages["truth"] - pages["planted"]).to_numpy()
    covered = np.abs(error) <= 1.96 * pages["truth_standard_error"].to_numpy()
    same = float((pages["same"] - pages["planted"]).mean())
    note = f"{len(error):,} pages, standard error {error.std() / np.sqrt(len(error)):.4f}"
    return [
        at_most(f"{kind}: absolute bias of truth", abs(float(error.mean())), 0.01, note=note),
        within(f"{kind}: coverage of the 95% interval", float(covered.mean()), 0.92, 0.985),
        Line(f"{kind}: bias, were it scored on the days that composed it", f"{same:.4f}"),
    ]


def _drop(pages: pl.DataFrame, kind: str) -> list[Line]:
    good = pages.filter(pl.col("configuration") == "good")
    pairs = pages.filter(pl.col("configuration") == kind).join(good, on="query", suffix="_good")
    drop = (pairs["truth_good"] - pairs["truth"]).to_numpy()
    planted = float((pairs["planted_good"] - pairs["planted"]).mean())
    half = 1.96 * drop.std(ddof=1) / np.sqrt(len(drop))
    inside = abs(float(drop.mean()) - planted) <= half
    figure = f"{drop.mean():.4f} +- {half:.4f}"
    return [holds(f"{kind}: mean drop from its good page, planted {planted:.4f}", truth=inside, figure=figure)]


def _ceiling(pages: pl.DataFrame) -> list[Line]:
    good = pages.filter(pl.col("configuration") == "good")
    rho = float(spearmanr(good["truth"], good["planted"])[0])
    ceiling = float(np.sqrt(max(0.0, 1 - good["truth_variance"].mean() / good["truth"].var())))
    name = "good: Spearman with planted relevance, share of its predicted ceiling"
    return [within(name, rho / ceiling, 0.95, 1.05, note=f"{rho:.3f} of {ceiling:.3f}")]


if __name__ == "__main__":
    sys.exit(main())

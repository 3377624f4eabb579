"""One curve from counts: the asked estimator, or the best that the data identify, with the reason for the choice."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date

import polars as pl

from jobs.core.errors import UsageError
from jobs.propensity import declared, estimators
from jobs.propensity.assemble import curve_of, declared_curve
from jobs.propensity.curve import Curve
from jobs.propensity.estimators import Estimate, PairCounts
from jobs.propensity.identify import EM_MIN_IMPRESSIONS, MIN_PAIRS, WIDE, Verdict, judge, needed_ranks, worst_error
from jobs.propensity.summary import Summary, summarise

ESTIMATORS = ("auto", "randomised", "allpairs", "pbm_em", "declared")
LOOSER = 2.0  # so many times the error of allpairs is too high a price for ranks made by chance alone
MIN_QUERIES = 20  # fewer units than that do not show their own spread: pairs are resampled instead


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to fit: the tuning numbers of [propensity] in hindcast.toml.

    `floor` is the smallest propensity ever used; `adjacent` restricts allpairs to neighbouring ranks; `start` is the
    examination that pbm_em begins with (its result does not depend on it).
    """

    estimator: str = "auto"
    eta: float = 1.0
    table: tuple[tuple[str, float], ...] = ()
    max_rank: int = 10
    replicates: int = 200
    max_queries: int = 20_000
    floor: float = 0.01
    adjacent: bool = False
    start: float = 0.5

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise UsageError(f"estimator {self.estimator!r} is none of {', '.join(ESTIMATORS)}: choose one of them")


def fit(counts: pl.DataFrame, *, options: Options | None = None, previous: Curve | None = None) -> Curve:
    """Fit a frame with query_key, item_key, rank, ranker, randomised, impressions, clicks (one row a cell or more).

    `previous` is the last good curve, used and marked where tonight's data identify none; without it the declared
    curve.
    """
    options = options or Options()
    unit = "query" if counts["query_key"].n_unique() >= MIN_QUERIES else "pair"
    summary = summarise(counts, max_rank=options.max_rank, replicates=options.replicates, unit=unit)
    return fit_summary(summary, pairs=lambda: pairs_for(counts, options), options=options, previous=previous)


def pairs_for(counts: pl.DataFrame, options: Options) -> PairCounts:
    """The counts of pbm_em under these options."""
    return estimators.pair_counts(counts, max_rank=options.max_rank, max_queries=options.max_queries)


def fit_summary(
    summary: Summary, *, pairs: Callable[[], PairCounts], options: Options, previous: Curve | None = None
) -> Curve:
    """Fit from a summary; `pairs` is called only if pbm_em is tried, so that big data need not keep pairs apart."""
    considered, whole = [], summary
    summary = summary.trimmed()
    for estimate in _candidates(summary, pairs, options):
        verdict = judge(estimate, summary)
        if options.estimator == "auto" and estimate.estimator == "randomised" and verdict.identified:
            verdict = _against_all_traffic(verdict, estimate, summary, options)
        considered.append(_entry(estimate, verdict))
        if verdict.identified:
            curve = curve_of(
                estimate, _with_choice(verdict, considered, summary, options), summary, floor=options.floor
            )
            return replace(curve, considered=tuple(considered))
    return replace(_fallback(whole, considered, options, previous), considered=tuple(considered))


def with_window(curve: Curve, *, start: date, end: date, segment: str | None) -> Curve:
    """The curve with the window and segment that it was fitted on."""
    return replace(curve, window=(start, end), segment=segment)


def _candidates(summary: Summary, pairs: Callable[[], PairCounts], options: Options) -> Iterable[Estimate]:
    """Estimators in the order of trust: chance made the ranks; rankers differ; ranks changed; one relevance a pair."""
    wanted = options.estimator
    if wanted in ("auto", "randomised"):
        yield estimators.randomised(summary)
    if wanted in ("auto", "allpairs"):
        yield estimators.all_pairs(summary, variation="rankers", adjacent=options.adjacent)
        yield estimators.all_pairs(summary, variation="changes", adjacent=options.adjacent)
    if wanted in ("auto", "pbm_em"):
        yield _em(summary, pairs, options)


def _against_all_traffic(verdict: Verdict, estimate: Estimate, summary: Summary, options: Options) -> Verdict:
    """Randomised traffic is preferred, unless all traffic identifies the curve with errors less than half as large."""
    other = estimators.all_pairs(summary, variation="rankers", adjacent=options.adjacent)
    own, others = worst_error(estimate, summary), worst_error(other, summary)
    if own <= WIDE or not judge(other, summary).identified or own <= LOOSER * others:
        return verdict
    reason = f"identified, but its errors (up to {own:.0%}) are more than twice those of allpairs (up to {others:.0%})"
    return replace(verdict, identified=False, reason=reason)


def _em(summary: Summary, pairs: Callable[[], PairCounts], options: Options) -> Estimate:
    """pbm_em, but not run where its own rules refuse it anyway (too few pairs, or too few impressions each)."""
    _, _, moved, impressions = summary["sizes"]
    few = (summary["moved_pairs"][1 : needed_ranks(summary)] < MIN_PAIRS).any()
    if few or impressions / moved < EM_MIN_IMPRESSIONS:
        return estimators.refused_em(summary)
    return estimators.pbm_em(pairs(), max_rank=summary.ranks, replicates=options.replicates, start=options.start)


def _entry(estimate: Estimate, verdict: Verdict) -> dict:
    name = estimate.estimator + (f" ({estimate.variation})" if estimate.variation else "")
    return {"estimator": name, "identified": verdict.identified, "reason": verdict.reason}


def _with_choice(verdict: Verdict, considered: list[dict], summary: Summary, options: Options) -> Verdict:
    """The verdict with what was passed over before it, and why pbm_em was not taken."""
    if options.estimator != "auto":
        return verdict
    passed = [f"{c['estimator']} not taken: {c['reason']}" for c in considered if not c["identified"]]
    passed += [] if considered[-1]["estimator"] == "pbm_em" else [f"pbm_em not taken: {_em_reason(summary)}"]
    return replace(verdict, reason="; ".join([verdict.reason, *passed]))


def _em_reason(summary: Summary) -> str:
    _, _, moved, impressions = summary["sizes"]
    each = impressions / moved if moved else 0.0
    if each < EM_MIN_IMPRESSIONS:
        return f"{each:.1f} impressions a pair at two ranks are too few for one relevance a pair"
    return "it needs one relevance a pair and an estimator that needs none is identified"


def _fallback(summary: Summary, considered: list[dict], options: Options, previous: Curve | None) -> Curve:
    why = "; ".join(f"{c['estimator']}: {c['reason']}" for c in considered)
    if options.estimator != "declared" and previous is not None:
        return _kept(previous, why)
    reason = (
        "declared, not estimated" if options.estimator == "declared" else f"not identified ({why}); declared curve used"
    )
    values, kind = _declared(options)
    return declared_curve(values, summary, estimator="declared", reason=reason, kind=kind)


def _declared(options: Options) -> tuple[list[float], str]:
    if options.table:
        return declared.from_table(dict(options.table), ranks=options.max_rank, eta=options.eta), "table"
    return declared.power_law(eta=options.eta, ranks=options.max_rank), f"power{options.eta:g}"


def _kept(previous: Curve, why: str) -> Curve:
    """The last good curve with its own errors, marked as not identified by these data."""
    window = f" of {previous.window[0]} to {previous.window[1]}" if previous.window else ""
    return replace(
        previous,
        estimator="last_good",
        identified=False,
        reason=f"not identified ({why}); last good curve{window} kept ({previous.curve_id}, {previous.estimator})",
    )

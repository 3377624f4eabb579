"""The launch part of report.json: the frozen forecast and, once the outcome is known, who pointed the right way."""

import itertools
from typing import Any

import polars as pl

from jobs.pages.exclusions import cautions
from jobs.reports import curve as curves
from jobs.reports.alignment import (
    Outcome,
    Preference,
    alignment,
    compare_judges,
    credits,
    decided_keys,
    online_noise,
    outcomes,
    preferences,
    sign,
)
from jobs.reports.cautions import short_evidence
from jobs.reports.data import Options, ReportData
from jobs.reports.judged import BASELINE, MAIN, ordered_variants, with_value
from jobs.reports.resample import interval, mean_samples

NOT_JUDGED = "no page of system a or b of this launch has been judged: run `hindcast judging run`"
NO_LAUNCH = "no launch has been forecast: run `hindcast launch forecast`"


def empty_launch(reason: str = NO_LAUNCH) -> dict[str, Any]:
    """The part where there is no launch, with every key and the reason."""
    return {
        "launch_id": None,
        "run": None,
        "n_queries": 0,
        "variants": {},
        "mcnemar": {},
        "forecast": None,
        "evidence_curve": {},
        "evidence_curve_by_item": {},
        "cautions": [],
        "reason": reason,
    }


def launch_section(data: ReportData, options: Options) -> dict[str, Any]:
    """Forecast (frozen one if `data.launch` holds it), evidence curves, and alignment where there are outcomes."""
    judged = data.judgments.filter(pl.col("set") == "launch") if "set" in data.judgments.columns else data.judgments
    judged = judged.filter(pl.col("system").is_in(["a", "b"]))
    if not judged.height:
        return empty_launch() if data.launch is None else empty_launch(NOT_JUDGED)
    parameters = data.launch or {}
    found = outcomes(data.outcomes.iter_rows(named=True)) if data.outcomes is not None else []
    with_minimum = judged.join(item_minimum(data), on="page_id", how="left").with_columns(
        pl.col("qri_min").fill_null(0)
    )
    section = {
        "launch_id": parameters.get("launch_id"),
        "run": data.run.get("run"),
        "start": parameters.get("start"),
        "n_queries": judged["query_key"].n_unique(),
        "pages": judged["page_id"].n_unique(),
        "forecast": _shown_forecast(parameters.get("forecast")),
        "evidence_curve": curves.curves(judged, evidence="qri_count", samples=options.samples, seed=options.seed),
        "evidence_curve_by_item": curves.curves(
            with_minimum, evidence="qri_min", samples=options.samples, seed=options.seed
        ),
        "cautions": [*short_evidence(data.steps), *cautions(data.steps.get("pages"))],
        "reason": None,
    }
    return {**section, **aligned(judged, found, options), **_thresholds(section, found)}


def item_minimum(data: ReportData) -> pl.DataFrame:
    """Per page with cards: the smallest number of filtered card rows over its items (0 for an item without a card)."""
    counts = data.cards.filter(pl.col("row").is_not_null()).group_by("page_id", "item_id").len()
    per_page = counts.group_by("page_id").agg(least=pl.col("len").min(), items=pl.len())
    sizes = data.pages.select(
        "page_id", n=pl.col("items").str.json_decode(pl.List(pl.Struct({"rank": pl.Int64}))).list.len()
    )
    joined = per_page.join(sizes, on="page_id", how="left")
    return joined.select("page_id", qri_min=pl.when(pl.col("items") < pl.col("n")).then(0).otherwise("least"))


def aligned(judged: pl.DataFrame, found: list[Outcome], options: Options) -> dict[str, Any]:
    """variants, mcnemar, online and excluded: sign alignment with the outcomes; signs only where there are none."""
    signs = {v: preferences(_of(judged, v), value="value") for v in _variants(judged)}
    online = {o.query_key: sign(o.difference) for o in found}
    sure = decided_keys(found)
    variants = {v: _variant(p, online, sure, judged, v, options) for v, p in signs.items()}
    plain = {k: p.sign for k, p in signs.get(BASELINE, {}).items()}
    against = {
        v: compare_judges(plain, {k: p.sign for k, p in s.items()}, online) for v, s in signs.items() if v != BASELINE
    }
    mean = sum(o.difference for o in found) / len(found) if found else None
    keys = set(judged["query_key"].to_list())
    return {
        "variants": variants,
        "mcnemar": against if found and plain else {},
        "online_difference": mean,
        "online": online_noise(found),
        "outcomes": {
            "n": len(found),
            "both": len(keys & online.keys()),
            "judged_only": len(keys - online.keys()),
            "outcome_only": len(online.keys() - keys),
        },
        "calibration": _calibration(signs.get(MAIN) or next(iter(signs.values()), {}), online),
        "outcome_reason": None if found else "the outcome is not known yet: run `hindcast launch outcome`",
    }


def _variants(judged: pl.DataFrame) -> list[str]:
    return ordered_variants(judged["variant"].unique().to_list())


def _of(judged: pl.DataFrame, variant: str) -> pl.DataFrame:
    """All instances of one variant with their value (one row a page)."""
    return with_value(judged.filter(pl.col("variant") == variant))


def _variant(
    found: dict[int, Preference],
    online: dict[int, int],
    sure: set[int],
    judged: pl.DataFrame,
    variant: str,
    options: Options,
) -> dict[str, Any]:
    signs = {k: p.sign for k, p in found.items()}
    queries = judged.filter(pl.col("variant") == variant)["query_key"].n_unique()
    body = {
        **alignment(signs, online),
        **_ends(signs, online, options),
        "among_decided_online": alignment({k: s for k, s in signs.items() if k in sure}, online) if sure else None,
        "queries_left_out_unscored": queries - len(found),
        "queries_partly_unscored": sum(p.unscored > 0 for p in found.values()),
        "prefers_a": sum(s > 0 for s in signs.values()),
        "prefers_b": sum(s < 0 for s in signs.values()),
        "ties": sum(s == 0 for s in signs.values()),
    }
    return body if online else {**body, "reason": "the outcome is not known yet"}


def _ends(signs: dict[int, int], online: dict[int, int], options: Options) -> dict[str, Any]:
    values = credits(signs, online)
    if len(values) < 2:
        return dict.fromkeys(("low", "high", "half_credit_low", "half_credit_high"))
    drawn = mean_samples(
        values, pl.int_range(len(values), eager=True).to_numpy(), samples=options.samples, seed=options.seed
    )
    exact, half = interval(drawn[:, 0]), interval(drawn[:, 1])
    return {"low": exact[0], "high": exact[1], "half_credit_low": half[0], "half_credit_high": half[1]}


def _thresholds(section: dict[str, Any], found: list[Outcome]) -> dict[str, Any]:
    mean = sum(o.difference for o in found) / len(found) if found else None
    points = section["evidence_curve"]
    main = MAIN if MAIN in points else next(iter(points), None)
    return {
        "thresholds": {v: curves.found_thresholds(p, mean) for v, p in points.items()},
        "automation": {"variant": main, **curves.recommendation(points.get(main, []), mean)},
    }


def _shown_forecast(frozen: dict[str, Any] | None) -> dict[str, Any] | None:
    """The forecast without its per-query rows, which stand in launches/ID/forecast.json."""
    return None if frozen is None else {k: v for k, v in frozen.items() if k != "per_query"}


def _calibration(found: dict[int, Preference], online: dict[int, int]) -> list[dict[str, Any]]:
    """By size of the judged difference: on how many of the outcome's decided queries the judged side won."""
    rows = [(abs(p.difference), p.sign == online[k]) for k, p in found.items() if p.sign and online.get(k)]
    edges = (0.0, 0.25, 0.5, 0.75, 1.0001)
    bins = []
    for low, high in itertools.pairwise(edges):
        there = [right for size, right in rows if low <= size < high]
        bins.append({"from": low, "to": min(high, 1.0), "n": len(there), "right": sum(there)})
    return bins

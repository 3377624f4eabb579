"""Agreement of each variant with a truth: values, flipped and equal pages, paired comparisons, ceilings."""

import math
from itertools import combinations
from typing import Any

import numpy as np

from jobs.reports.association import STATISTICS, association
from jobs.reports.ceilings import label_ceiling, noise_ceiling
from jobs.reports.data import Options, known
from jobs.reports.judged import JudgedSet
from jobs.reports.paired import MANY_LEVELS, holm, swap_test, williams_t, zou_interval
from jobs.reports.resample import Subset, bootstrap, interval

PERMUTATIONS = 2_000
"""Swap permutations at most: the smallest p is then .0005, far below any threshold that a reader applies."""

UNDEFINED = "fewer than two distinct labels or truths"


class Scores:
    """All resampled statistics of one set, computed once; the sections read from here."""

    def __init__(self, judged: JudgedSet, options: Options) -> None:
        self.judged, self.options = judged, options
        self._where: dict[tuple[str, str], tuple[str, np.ndarray]] = {}
        subsets = [*self._own(), *self._pairs(), *self._flips()]
        self.samples = bootstrap(
            truth=judged.truth,
            query=judged.query,
            subsets=subsets,
            samples=options.samples,
            seed=options.seed,
            workers=options.workers,
        )

    def rows(self, subset: str, variant: str) -> np.ndarray:
        """Indices of the pages behind a subset's figures of a variant."""
        return self._where[subset, variant][1]

    def values(self, subset: str, variant: str) -> dict[str, Any]:
        """{n, statistic: {value, low, high[, reason]}} of a variant on a subset."""
        key, rows = self._where[subset, variant]
        labels = self.judged.labels[variant][rows]
        found = association(labels, self.judged.truth[rows])
        samples = self.samples.get((key, variant), self._equal_samples(key))
        why = undefined_why(labels, self.judged.truth[rows])
        stats = {
            s: _with_interval(found[s], None if samples is None else samples[:, i], why)
            for i, s in enumerate(STATISTICS)
        }
        return {"n": len(rows), **stats}

    def _equal_samples(self, key: str) -> np.ndarray | None:
        """On equal pages both labels are one, so they were resampled once, under the other variant's name."""
        part, _, variant = key.partition(":")
        return self.samples.get((key, variant)) if part == "equal" else None

    def difference(self, subset: str, a: str, b: str) -> dict[str, dict[str, Any]]:
        """Per statistic: values of both, difference b - a and its paired interval; all on the pages of the subset."""
        key, rows = self._where[subset, a]
        truth = self.judged.truth[rows]
        left, right = (association(self.judged.labels[v][rows], truth) for v in (a, b))
        drawn = self.samples[key, b] - self.samples[key, a] if (key, a) in self.samples else None
        causes = [undefined_why(self.judged.labels[v][rows], truth, name=v) for v in (a, b)]
        why = "; ".join(dict.fromkeys(c for c in causes if c != UNDEFINED)) or UNDEFINED
        return {
            s: _difference(left[s], right[s], None if drawn is None else drawn[:, i], why)
            for i, s in enumerate(STATISTICS)
        }

    def _subset(self, key: str, mask: np.ndarray, variants: list[str]) -> Subset:
        rows = np.flatnonzero(mask)
        return Subset(name=key, rows=rows, labels={v: self.judged.labels[v][rows] for v in variants})

    def _own(self) -> list[Subset]:
        groups: dict[bytes, list[str]] = {}
        for v in self.judged.variants:
            groups.setdefault(self.judged.scored(v).tobytes(), []).append(v)
        found = []
        for i, variants in enumerate(groups.values()):
            subset = self._subset(f"own:{i}", self.judged.scored(*variants), variants)
            found.append(subset)
            self._where.update({("all", v): (subset.name, subset.rows) for v in variants})
        return found

    def _pairs(self) -> list[Subset]:
        found = []
        for a, b in combinations(self.judged.variants, 2):
            (key_a, rows), (key_b, _) = self._where["all", a], self._where["all", b]
            if key_a != key_b:
                subset = self._subset(f"pair:{a}:{b}", self.judged.scored(a, b), [a, b])
                key_a, rows = subset.name, subset.rows
                found.append(subset)
            self._where[f"all:{b}", a] = self._where[f"all:{a}", b] = (key_a, rows)
        return found

    def _flips(self) -> list[Subset]:
        base, found = self.judged.baseline, []
        for v in (x for x in self.judged.graded if x != base):
            flipped = self.judged.flipped(base, v)
            equal = self.judged.scored(base, v) & ~flipped
            found += [self._subset(f"flipped:{v}", flipped, [base, v]), self._subset(f"equal:{v}", equal, [v])]
            for subset in found[-2:]:
                self._where.update({(subset.name, name): (subset.name, subset.rows) for name in (base, v)})
        return found


def set_section(judged: JudgedSet, options: Options) -> dict[str, Any]:
    """The `logs` or `human` part of report.json (formats.md); n_pages 0 and a reason where there is nothing."""
    if not judged.pages.height or not judged.variants:
        return empty_section(judged, "no page of this set has both a truth and a judgment")
    scores = Scores(judged, options)
    base, main = judged.baseline, judged.main
    return {
        "n_pages": judged.pages.height,
        "n_queries": int(judged.pages["query_key"].n_unique()),
        "reason": None,
        "baseline": base,
        "main": main,
        "unscored": _merged(judged.unscored),
        "unscored_by_variant": judged.unscored,
        **flip_rates(judged),
        "variants": {v: _variant(scores, v) for v in judged.variants},
        "comparisons": comparisons(scores),
        "ceilings": ceilings(judged),
        "excluded": judged.excluded,
    }


def empty_section(judged: JudgedSet, reason: str) -> dict[str, Any]:
    """A section without pages, with the reason, so that consumers find every key."""
    return {
        "n_pages": judged.pages.height,
        "n_queries": 0,
        "reason": reason,
        "baseline": None,
        "main": None,
        "unscored": {},
        "unscored_by_variant": {},
        "flip_rate": None,
        "flip_rate_with_evidence": None,
        "variants": {},
        "comparisons": [],
        "ceilings": {"labels": {}, "truth_noise": None, "both": None, "errors_unbiased": None, "reason": reason},
        "excluded": judged.excluded,
    }


def flip_rates(judged: JudgedSet) -> dict[str, float | None]:
    """Share of pages whose label differs between baseline and main variant, over all and over pages with evidence."""
    base, main = judged.baseline, judged.main
    if main is None:
        return {"flip_rate": None, "flip_rate_with_evidence": None}
    with_evidence = judged.pages["qri_count"].to_numpy() > 0
    return {
        "flip_rate": flip_rate(judged, base, main),
        "flip_rate_with_evidence": flip_rate(judged, base, main, among=with_evidence),
    }


def flip_rate(judged: JudgedSet, a: str, b: str, *, among: np.ndarray | None = None) -> float | None:
    """Flipped pages / pages on which both variants have labels; None if there are none."""
    both = judged.scored(a, b) if among is None else judged.scored(a, b) & among
    return float((judged.flipped(a, b) & both).sum() / both.sum()) if both.any() else None


def comparisons(scores: Scores) -> list[dict[str, Any]]:
    """Every pair of variants on the pages that both scored, and baseline against each on its flipped pages.

    p is Holm-adjusted (`p_holm`) within subset and statistic.
    """
    judged = scores.judged
    found = []
    for a, b in combinations(judged.variants, 2):
        found += _comparison(scores, "all", f"all:{b}", a, b)
    for v in judged.graded:
        if v != judged.baseline and len(scores.rows(f"flipped:{v}", v)) > 2:
            found += _comparison(scores, "flipped", f"flipped:{v}", judged.baseline, v)
    for family in {(c["subset"], c["statistic"]) for c in found}:
        members = [c for c in found if (c["subset"], c["statistic"]) == family]
        for c, p in zip(members, holm([c["p"] for c in members]), strict=True):
            c["p_holm"] = p
    return found


def _comparison(scores: Scores, subset: str, key: str, a: str, b: str) -> list[dict[str, Any]]:
    judged, rows = scores.judged, scores.rows(key, a)
    x, y, truth = judged.labels[a][rows], judged.labels[b][rows], judged.truth[rows]
    one_scale = {a, b} <= set(judged.graded)
    p = _swap(scores.options, x, y, truth, judged.query[rows]) if one_scale else None
    found = []
    for statistic, d in scores.difference(key, a, b).items():
        value = None if p is None else known(p[statistic])
        row = {"a": a, "b": b, "subset": subset, "statistic": statistic, "n": len(rows), **d, "p": value}
        row["p_reason"] = MANY_LEVELS if p is None and len(rows) else None
        row["within_noise"] = d["low"] is None or d["low"] <= 0 <= d["high"]
        found.append({**row, **(_classical(x, y, d, len(rows)) if statistic == "spearman" else {})})
    return found


def _swap(options: Options, a: np.ndarray, b: np.ndarray, truth: np.ndarray, query: np.ndarray) -> dict | None:
    if not len(a):
        return None
    samples = min(options.samples, PERMUTATIONS)
    return swap_test(a=a, b=b, truth=truth, query=query, samples=samples, seed=options.seed)


def _classical(a: np.ndarray, b: np.ndarray, d: dict[str, Any], n: int) -> dict[str, Any]:
    """Williams' t and Zou's interval as checks; they take pages as independent, the bootstrap does not."""
    between = association(a, b)["spearman"]
    if d["value_a"] is None or d["value_b"] is None or math.isnan(between):
        return {"williams": None, "zou": None}
    t = williams_t(r_a=d["value_b"], r_b=d["value_a"], r_ab=between, n=n)
    zou = zou_interval(r_a=d["value_b"], r_b=d["value_a"], r_ab=between, n=n)
    return {"williams": t and {"t": t[0], "p": t[1]}, "zou": zou and {"low": zou[0], "high": zou[1]}}


def ceilings(judged: JudgedSet) -> dict[str, Any]:
    """Per variant the cap that its own labels set; for the set the cap of the truth's noise, alone and with labels."""
    found: dict[str, Any] = {"labels": {}, "truth_noise": None, "both": None, "errors_unbiased": None, "reason": None}
    for v in judged.variants:
        rows = judged.scored(v)
        caps = label_ceiling(judged.labels[v][rows], judged.truth[rows])
        found["labels"][v] = {s: known(x) for s, x in caps.items()}
    errors, unbiased = judged.errors
    main = judged.main or judged.baseline
    rows = judged.scored(main) & ~np.isnan(errors)
    if rows.sum() < 3:
        return {**found, "reason": "the truth carries no standard errors"}
    alone, both = (
        noise_ceiling(judged.truth[rows], errors[rows], labels=x, unbiased=unbiased)
        for x in (None, judged.labels[main][rows])
    )
    reason = None if alone else "the truth's errors explain all of its variance: these pages cannot tell judges apart"
    return {
        **found,
        "truth_noise": _finite(alone),
        "both": _finite(both),
        "errors_unbiased": unbiased,
        "reason": reason,
    }


def _variant(scores: Scores, variant: str) -> dict[str, Any]:
    judged = scores.judged
    other = judged.main if variant == judged.baseline else variant
    flips = other in judged.graded and other != judged.baseline
    rate = flip_rate(judged, judged.baseline, variant) if flips and variant == other else None
    parts = {p: scores.values(f"{p}:{other}", variant) if flips else _no_flips() for p in ("flipped", "equal")}
    return {"flip_rate": rate, "all": scores.values("all", variant), **parts}


def _no_flips() -> dict[str, Any]:
    reason = "this variant has no labels that could flip"
    return {"n": 0, **{s: {"value": None, "low": None, "high": None, "reason": reason} for s in STATISTICS}}


def undefined_why(labels: np.ndarray, truth: np.ndarray, *, name: str = "") -> str:
    """Why a correlation on these pages is undefined: too few of them, or constant labels or truths."""
    if len(labels) < 2:
        return f"{len(labels)} page{'' if len(labels) == 1 else 's'} with a label: two at least are needed"
    if (labels == labels[0]).all():
        return f"all {len(labels):,} labels{f' of {name}' if name else ''} are {labels[0]:g}"
    return f"all {len(truth):,} truths are equal" if (truth == truth[0]).all() else UNDEFINED


def _with_interval(value: float, samples: np.ndarray | None, why: str = UNDEFINED) -> dict[str, Any]:
    if math.isnan(value):
        return {"value": None, "low": None, "high": None, "reason": why}
    ends = None if samples is None else interval(samples)
    found = {"value": value, "low": ends and ends[0], "high": ends and ends[1]}
    return found if ends else {**found, "reason": "too many resamples are undefined for an interval"}


def _difference(a: float, b: float, samples: np.ndarray | None, why: str) -> dict[str, Any]:
    ends = None if samples is None else interval(samples)
    value = known(b - a)
    return {
        "value_a": known(a),
        "value_b": known(b),
        "difference": value,
        "low": ends[0] if ends and value is not None else None,
        "high": ends[1] if ends and value is not None else None,
        "reason": why if value is None else None,
    }


def _merged(unscored: dict[str, dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for variant, reasons in unscored.items():
        for reason, n in reasons.items():
            if variant != "evidence_only":
                total[reason] = total.get(reason, 0) + n
    return dict(sorted(total.items()))


def _finite(values: dict[str, float] | None) -> dict[str, float | None] | None:
    return None if values is None else {s: known(v) for s, v in values.items()}

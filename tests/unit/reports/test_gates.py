"""Gates and the verdict where figures are undefined: a constant judge does not pass; the reason is the real one."""

import pytest

from jobs.reports.data import Options
from jobs.reports.verdict import gates, verdict


def section(*, value=None, pages=10, reason=None, comparisons=()):
    return {
        "variants": {"qri": {"all": {"spearman": {"value": value}}}} if pages else {},
        "main": "qri" if pages else None,
        "baseline": "plain" if pages else None,
        "n_pages": pages,
        "unscored": {},
        "comparisons": list(comparisons),
        "reason": reason,
    }


EMPTY = section(pages=0, reason="no page of this set has both a truth and a judgment")


@pytest.mark.parametrize(
    ("logs", "failed", "why"),
    [
        (section(value=0.5), False, "a defined figure above the limit"),
        (section(value=0.1), True, "a defined figure below the limit"),
        (section(value=None), True, "constant labels: undefined although pages were judged"),
        (EMPTY, False, "nothing was judged, as on a backfilled night"),
    ],
)
def test_a_gate(logs, failed, why):
    found = gates({"logs": logs, "human": EMPTY, "slices": {}}, Options(min_spearman=0.2, max_unscored=0.02))
    assert bool(found["failed"]) is failed, why
    assert found["min_spearman"]["passed"] is not failed


def test_the_verdict_names_the_reason_of_the_comparison():
    undefined = {"a": "plain", "b": "qri", "subset": "all", "statistic": "spearman", "difference": None, "low": None,
                 "reason": "fewer than two distinct labels or truths"}  # fmt: skip
    found = verdict({"logs": section(comparisons=[undefined]), "human": EMPTY})
    assert found["form"] == "cannot_say"
    assert "fewer than two distinct labels" in found["sentence"] and "only one variant" not in found["sentence"]

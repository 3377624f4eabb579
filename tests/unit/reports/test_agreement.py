"""Agreement coefficients against scikit-learn and a published example; files of marks."""

import json

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from jobs.core.errors import InputError
from jobs.reports.agreement import agree, cohen_kappa, krippendorff_alpha

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: four observers, twelve units
OBSERVERS = ["1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."]


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_own_example(level, alpha):
    columns = zip(*(line.split() for line in OBSERVERS), strict=True)
    units = [[int(v) for v in column if v != "."] for column in columns]
    assert krippendorff_alpha(units, level=level) == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_cohen_equals_sklearn(weights):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 80)
    b = np.where(rng.random(80) < 0.6, a, rng.integers(0, 3, 80))
    assert cohen_kappa(list(a), list(b), weights=weights) == pytest.approx(cohen_kappa_score(a, b, weights=weights))


@pytest.mark.parametrize(("why", "a", "b"), [("no pairs", [], []), ("one value only", [1, 1], [1, 1])])
def test_undefined_kappa(why, a, b):
    assert cohen_kappa(a, b) is None, why


def marks(path, **pages):
    body = {"format": 1, "run": "night-2026-11-20", "marks": {p: {"mark": m} for p, m in pages.items()}}
    path.write_text(json.dumps(body))
    return path


def test_marks_of_two_reviewers(tmp_path):
    files = [
        marks(tmp_path / "anna.json", p1="agree", p2="disagree", p3="agree", p4="unsure"),
        marks(tmp_path / "ben.json", p1="agree", p2="agree", p3="agree", p5="disagree"),
    ]
    found = agree(files)
    assert (found["pages"], found["pages_by_two_or_more"]) == (5, 3)
    assert found["agree_share"] == pytest.approx(5 / 7)
    assert found["cohen_kappa"][0]["n"] == 3
    assert found["cohen_kappa"][0]["kappa"] == pytest.approx(0.0)
    assert found["krippendorff_alpha"] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("why", "content", "message"),
    [
        ("no JSON", "agree", "is no file of marks"),
        ("another JSON", '{"a": 1}', "is no file of marks"),
        ("an unknown mark", '{"marks": {"p": {"mark": "maybe"}}}', "'maybe'"),
    ],
)
def test_bad_marks_are_named(tmp_path, why, content, message):
    path = tmp_path / "marks.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        agree([path])

"""Sections of report.json on sets small enough to count by hand."""

import numpy as np
import polars as pl
import pytest

from jobs.reports.controls import shuffled_cards
from jobs.reports.data import Options
from jobs.reports.distributions import distributions
from jobs.reports.effects import flips_by_effect, label_drops, midranks
from jobs.reports.judged import judged_set
from jobs.reports.scores import set_section
from jobs.reports.slices import dimensions, fairness, merged_small, slices
from jobs.reports.verdict import gates, short, unscored_share, verdict
from schemas.cards import CARDS
from tests.unit.reports.frames import judged, judgments, pages

FEW = Options(samples=200, min_slice=3)
LABELS = {
    "plain": [0, 0.5, 1, 1, 0, None],
    "qri": [0, 1, 1, 0.5, None, 1],
    "evidence_only": [0.1, 0.9, 0.8, 0.4, None, 0.6],
}
TRUTH = [0.1, 0.8, 0.9, 0.3, 0.2, None]


def section(labels=LABELS, truths=TRUTH, **columns):
    table, answers = judged(labels, truths, **columns)
    return set_section(judged_set("logs", pages=table, judgments=answers), FEW)


def test_counts_and_flips():
    found = section()
    assert (found["n_pages"], found["n_queries"]) == (5, 5)
    assert found["excluded"] == {"pages without truth": 1}
    assert found["unscored"] == {"refusal": 1}
    assert found["flip_rate"] == pytest.approx(2 / 4)
    assert found["variants"]["qri"]["all"]["n"] == 4
    assert found["variants"]["qri"]["flipped"]["n"] == 2
    assert found["variants"]["qri"]["equal"]["n"] == 2
    assert found["variants"]["plain"]["flipped"]["n"] == 2


def test_evidence_only_is_correlated_on_its_values_and_never_flips():
    found = section()["variants"]["evidence_only"]
    assert found["all"]["n"] == 4
    assert found["all"]["spearman"]["value"] == pytest.approx(0.8)
    assert found["flip_rate"] is None
    assert found["flipped"]["spearman"]["reason"]


def test_flip_rate_with_evidence_leaves_out_pages_without_a_card():
    found = section(qri_count=[0, 0, 4, 4, 4, 4])
    assert found["flip_rate"] == pytest.approx(1 / 2)
    assert found["flip_rate_with_evidence"] == pytest.approx(1 / 2)
    found = section(qri_count=[0, 4, 0, 4, 4, 4])
    assert found["flip_rate_with_evidence"] == 1.0


def test_comparisons_stand_on_common_pages():
    found = [c for c in section()["comparisons"] if c["statistic"] == "spearman" and c["subset"] == "all"]
    pairs = {(c["a"], c["b"]): c for c in found}
    assert set(pairs) == {("plain", "qri"), ("plain", "evidence_only"), ("qri", "evidence_only")}
    assert pairs["plain", "qri"]["n"] == 4
    assert pairs["plain", "qri"]["difference"] == pytest.approx(
        pairs["plain", "qri"]["value_b"] - pairs["plain", "qri"]["value_a"]
    )
    assert pairs["plain", "evidence_only"]["p"] is None
    assert "different scales" in pairs["plain", "evidence_only"]["p_reason"]


@pytest.mark.parametrize(
    ("why", "labels"),
    [
        ("constant labels", {"plain": [1, 1, 1, 1], "qri": [1, 1, 1, 1]}),
        ("nothing scored", {"plain": [None] * 4, "qri": [None] * 4}),
    ],
)
def test_undefined_is_null_with_a_reason(why, labels):
    found = section(labels, [0.1, 0.2, 0.3, 0.4])
    cell = found["variants"]["qri"]["all"]["spearman"]
    assert cell["value"] is None, why
    assert cell["reason"], why
    assert verdict({"logs": found, "human": section({}, [])})["form"] == "cannot_say"


def test_no_pages_say_why():
    found = section({}, [])
    assert found["reason"]
    assert found["comparisons"] == []


def test_several_models_and_samples_count_once():
    table = pages({"truth": 0.5}, {"truth": 0.7})
    rows = judgments(
        {"page_id": "p0", "model": "big", "label": 1.0}, {"page_id": "p1", "model": "big", "label": 0.0},
        {"page_id": "p0", "model": "big", "sample": 1, "label": 0.5}, {"page_id": "p0", "model": "small", "label": 0.0},
    )  # fmt: skip
    found = judged_set("logs", pages=table, judgments=rows)
    assert list(found.labels["plain"]) == [1.0, 0.0]


def test_label_drops_are_paired_by_query():
    rows = [
        ("g", 1, 0.9, "good"),
        ("d", 1, 0.5, "low"),
        ("h", 2, 0.8, "good"),
        ("e", 2, 0.6, "low"),
        ("x", 3, 0.4, "omitted"),
    ]
    names = ("page_id", "query_key", "truth", "configuration")
    table = pages(*(dict(zip(names, row, strict=True)) for row in rows))
    values = {"g": 1.0, "d": 0.0, "h": 1.0, "e": 0.5, "x": 0.0}
    rows = judgments(*({"page_id": p, "label": v} for p, v in values.items()))
    found = label_drops(judged_set("logs", pages=table, judgments=rows), FEW)
    assert set(found) == {"low"}
    assert found["low"]["plain"]["value"] == pytest.approx(0.75)
    assert found["low"]["truth"]["value"] == pytest.approx(0.3)
    assert found["low"]["plain"]["n"] == 2


def test_flips_by_effect():
    table, rows = judged(
        {"plain": [0, 1, 1, 0], "qri": [1, 1, 0, 0.5]},
        [0.9, 0.8, 0.1, 0.2],
        configuration=["good", "low", "omitted", "low"],
    )
    found = flips_by_effect(judged_set("logs", pages=table, judgments=rows))
    assert (found["ambiguity"]["flipped"], found["ambiguity"]["up"], found["ambiguity"]["towards_truth"]) == (1, 1, 1)
    assert (found["severity"]["flipped"], found["severity"]["down"]) == (1, 1)
    assert (found["ranking"]["n"], found["ranking"]["flipped"]) == (2, 1)


def test_midranks():
    assert list(midranks(np.array([5.0, 1.0, 5.0, 9.0]))) == pytest.approx([0.5, 0.125, 0.5, 0.875])


def test_distributions_count_every_scored_page():
    table, rows = judged({"plain": [0, 0.5, 1, 1], "qri": [0, 1, 1, 0.5]}, [0.1, 0.5, 0.9, 0.4])
    found = distributions(judged_set("logs", pages=table, judgments=rows))
    assert sum(b["n"] for b in found["truth_by_label"]["all"]["plain"]) == 4
    assert sum(b["n"] for b in found["truth_by_label"]["flipped"]["qri"]) == 2
    assert all(sum(b["shares"].values()) == pytest.approx(1) for b in found["label_share"]["plain"])


@pytest.mark.parametrize(
    ("why", "column", "merged"),
    [
        ("large enough", ["a"] * 3 + ["b"] * 3, ["a"] * 3 + ["b"] * 3),
        ("small ones together", ["a"] * 3 + ["b", "c", "d"], ["a"] * 3 + ["others (3)"] * 3),
        ("too few even together", ["a"] * 3 + ["b", "c"], ["a"] * 3 + [None] * 2),
        ("unknown stays out", ["a"] * 3 + [None], ["a"] * 3 + [None]),
    ],
)
def test_small_slices(why, column, merged):
    assert merged_small(column, smallest=3) == merged, why


def test_slices_and_fairness_by_locale():
    rng = np.random.default_rng(0)
    truth = list(rng.random(60))
    plain = [float(round(2 * t) / 2) for t in truth]
    locale = ["en"] * 30 + ["de"] * 30
    qri = [min(1.0, x + 0.5) if where == "en" else x for x, where in zip(plain, locale, strict=True)]
    table, rows = judged({"plain": plain, "qri": qri}, truth, locale=locale)
    one = judged_set("logs", pages=table, judgments=rows)
    dims = dimensions(one.pages, pl.DataFrame(schema=CARDS.polars()))
    found = {s["slice"]: s for s in slices(one, dims, FEW) if s["dimension"] == "locale"}
    assert {k: s["n"] for k, s in found.items()} == {"en": 30, "de": 30}
    assert found["de"]["difference"] == pytest.approx(0)
    fair = {f["slice"]: f for f in fairness(one, dims, FEW)}
    assert fair["en"]["favoured"]
    assert not fair["de"]["favoured"]


def test_shuffled_cards_come_from_other_queries_of_the_corpus():
    table = pages(*({"page_id": f"p{i}", "query_key": i // 2, "corpus": "ab"[i % 2]} for i in range(12)))
    rows = [
        {**{c.name: None if c.nullable else {"string": "", "date": None}.get(c.type, 0) for c in CARDS.columns},
         "page_id": f"p{i}", "item_id": "i1", "corpus": "ab"[i % 2], "query": f"of p{i}", "row": r, "query_key": i}
        for i in range(12) for r in (1, 2)
    ]  # fmt: skip
    cards = pl.DataFrame(rows, schema=CARDS.polars(), orient="row")
    found = shuffled_cards(table, cards, seed=1)
    for i in range(12):
        donors = {int(r["query"].removeprefix("of p")) for r in found[f"p{i}"]}
        assert len(donors) == 1
        donor = donors.pop()
        assert donor // 2 != i // 2
        assert donor % 2 == i % 2
        assert [r["row"] for r in found[f"p{i}"]] == [1, 2]
        assert {r["item_id"] for r in found[f"p{i}"]} == {"i1"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.4381, ".438"), (-0.012, "-.012"), (None, "–"), (0, "0"), (12.345, "12.3"), (1.0, "1.00"), (2431, "2,431"),
     (0.00004, "0"), (-0.5, "-.500"), (0.9999, "1.000")],
)  # fmt: skip
def test_three_significant_digits(value, text):
    assert short(value) == text


@pytest.mark.parametrize(
    ("why", "low", "high", "form"),
    [("above 0", 0.01, 0.2, "helps"), ("below 0", -0.2, -0.01, "hurts"), ("around 0", -0.1, 0.1, "no_difference")],
)
def test_verdicts(why, low, high, form):
    one = {"a": "plain", "b": "qri", "subset": "all", "statistic": "spearman", "n": 2431, "value_a": 0.416,
           "value_b": 0.438, "difference": 0.022, "low": low, "high": high}  # fmt: skip
    part = {"baseline": "plain", "main": "qri", "comparisons": [one], "reason": None}
    found = verdict({"logs": part, "human": part})
    assert found["form"] == form, why
    assert "2,431 pages" in found["sentence"]
    assert ".438 against .416" in found["sentence"]


def test_gates_name_the_worst_slices():
    part = section()
    report = {"logs": part, "human": part, "slices": {"logs": [
        {"dimension": "locale", "slice": s, "n": 9, "variants": {"plain": 0.1, "qri": v}}
        for s, v in (("en", 0.9), ("de", 0.1), ("es", 0.2), ("fr", 0.3))]}}  # fmt: skip
    found = gates(report, Options(min_spearman=0.99, max_unscored=0.01))
    assert len(found["failed"]) == 2
    assert "worst slices: locale de (.100), locale es (.200), locale fr (.300)" in found["failed"][0]
    assert gates(report, Options())["failed"] == []


def test_unscored_share_counts_judged_variants():
    assert unscored_share(section()) == pytest.approx(1 / 10)

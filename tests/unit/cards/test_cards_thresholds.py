"""Near-duplicate thresholds: which one counts for which locale, and how one is calibrated."""

import json
from datetime import date

import numpy as np
import polars as pl
import pytest

from jobs.cards import job
from jobs.cards import thresholds as module
from jobs.cards.calibrate import MIN_PAIRS, Pair, best_threshold, calibrate, planted_pairs, read_pairs
from jobs.cards.from_files import build_from_files
from jobs.cards.thresholds import keep_calibration, model_languages, thresholds
from jobs.core.embedding import PACKAGED
from jobs.core.errors import InputError
from jobs.core.keys import key_of
from jobs.core.settings import Evidence
from jobs.core.tables import Store
from schemas.logs import QUERIES
from tests.unit.cards.fakes import PlantedEncoder


def limits(store=None, *, model=PACKAGED, revision="1", **settings):
    return thresholds(store, model=model, revision=revision, settings=Evidence(**settings))


@pytest.mark.parametrize(
    ("settings", "model", "want", "source", "why"),
    [
        ({}, PACKAGED, module.SHIPPED[PACKAGED], "shipped", "the packaged model's own calibration"),
        (
            {"near_duplicate_cosine": 0.9},
            PACKAGED,
            0.9,
            "settings",
            "a stated value goes before it, even the default's",
        ),
    ],
)
def test_without_a_calibration_in_the_store(settings, model, want, source, why):
    found = limits(model=model, **settings)
    assert found.of("en") == want, why
    assert found.summary(["en"])["near_duplicate_source"] == {"en": source}


def test_calibrations_are_kept_per_model_revision_and_locale(tmp_path):
    store = Store(str(tmp_path))
    for locale, value in (("", 0.8), ("de", 0.7)):
        keep_calibration(store, model=PACKAGED, revision="1", locale=locale, result={"threshold": value})
    found = limits(store)
    assert (found.of("de"), found.of("en")) == (0.7, 0.8), "its own, else that of all locales"
    assert limits(store, revision="2").of("de") == module.SHIPPED[PACKAGED], "another revision is another model"
    keep_calibration(store, model=PACKAGED, revision="2", locale="en", result={"threshold": 0.6})
    again = limits(store, revision="2")
    assert (again.of("en"), again.of("de")) == (0.6, module.SHIPPED[PACKAGED]), (
        "old ones are dropped with their revision"
    )


def test_locales_that_the_model_does_not_know_are_reported(tmp_path):
    assert limits().unknown(["en", "en-GB", "de", "es", ""]) == ["de", "es"]
    store = Store(str(tmp_path))
    keep_calibration(store, model=PACKAGED, revision="1", locale="de", result={"threshold": 0.7})
    assert limits(store).unknown(["en", "de", "es"]) == ["es"], "a calibrated locale is known by what was measured"


@pytest.mark.parametrize(
    ("card", "want", "why"),
    [
        ("---\nlanguage: en\n---\n", {"en"}, "one"),
        ("---\ntags: [x]\nlanguage:\n- en\n- DE\nlicense: mit\n---\n", {"en", "de"}, "a list"),
        ("---\nlanguage: [en, fr]\n---\n", {"en", "fr"}, "an inline list"),
        ("---\nlicense: mit\n---\nlanguage: en\n", None, "not named in the front matter"),
        ("no front matter", None, "no card to speak of"),
        (None, None, "no file"),
    ],
)
def test_languages_of_a_model_card(tmp_path, card, want, why):
    (tmp_path / "config.json").write_text("{}")
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert model_languages(str(tmp_path)) == (None if want is None else frozenset(want)), why


@pytest.mark.parametrize(
    ("near", "different", "low", "high", "why"),
    [
        ([0.9, 0.95], [0.5, 0.6], 0.6, 0.9, "a clean gap: in its middle"),
        ([0.4, 0.9, 0.9, 0.9], [0.5, 0.5, 0.5, 0.6], 0.6, 0.9, "one missed rather than all dropped"),
        ([0.9], [0.95, 0.1], 0.1, 0.9, "of equal errors the one that leaks less"),
    ],
)
def test_best_threshold(near, different, low, high, why):
    cosine = np.array(near + different)
    label = np.array([True] * len(near) + [False] * len(different))
    assert low < best_threshold(cosine, label) < high, why


def test_calibration_reports_its_errors():
    near = [
        Pair(a="basketball warmup music", b="basketball warmup playlist", locale="en", near_duplicate=True)
    ] * MIN_PAIRS
    other = [Pair(a=f"query {i}", b=f"other {i}", locale="en", near_duplicate=False) for i in range(MIN_PAIRS)]
    odd = [Pair(a="x y", b="z", locale="en", near_duplicate=True)]
    got = calibrate([*near, *other, *odd], encoder=PlantedEncoder())
    assert 0.5 < got["threshold"] < 0.95
    assert got["missed"]["rate"] == pytest.approx(1 / (MIN_PAIRS + 1), abs=1e-4)
    assert got["wrongly_dropped"]["rate"] == 0
    assert got["wrongly_dropped"]["high"] > 0.1, "twenty pairs do not prove a rate of nothing"
    with pytest.raises(InputError, match="too few"):
        calibrate(near, encoder=PlantedEncoder())


def test_planted_pairs_are_rewordings_and_exchanges():
    queries = [f"blue {word} song" for word in ("mountain", "river", "café", "winter")]
    pairs = planted_pairs(queries, locale="en")
    assert pairs == planted_pairs(queries[::-1], locale="en"), "the order of the queries does not matter"
    same = {(p.a, p.b) for p in pairs if p.near_duplicate}
    assert ("blue mountain song", "mountain song blue") in same
    assert ("blue mountain song", "blue mounain song") in same
    assert ("blue café song", "blue cafe song") in same
    assert all(len(set(p.a.split()) - set(p.b.split())) == 1 for p in pairs if not p.near_duplicate)
    assert planted_pairs(["one"], locale="en") == [], "single words cannot be reworded"


def test_pairs_that_say_too_little_are_refused(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"a": "x", "b": "y", "near_duplicate": True}) + "\n" + json.dumps({"a": "x", "b": "y"}))
    with pytest.raises(InputError, match="line 2"):
        read_pairs(path)


def test_cards_from_files_hide_rare_and_sensitive_queries(tmp_path, monkeypatch):
    monkeypatch.setattr("jobs.cards.from_files.Embedder", lambda model: PlantedEncoder())
    monkeypatch.setattr(module, "model_languages", lambda model: None)
    pages, evidence, out = (tmp_path / f"{name}.jsonl" for name in ("pages", "evidence", "cards"))
    pages.write_text(json.dumps({"page_id": "p", "query": "Basketball warmup music", "items": [{"item_id": 7}]}))
    rows = [
        ("basketball warmup playlist", None),
        ("basketball training music", 50),
        ("secret", 3),
        ("Basketball  warmup MUSIC", 99),
    ]
    lines = [
        {"item_id": "7", "query": q, "impressions": 10, "clicks": 2, "relevance": 0.4, "users": u} for q, u in rows
    ]
    evidence.write_text("\n".join(map(json.dumps, lines)))
    summary = build_from_files(pages, evidence, out, settings=None)
    (card,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(r["query"], r["near_duplicate"]) for r in card["rows"]] == [
        ("basketball warmup music", True), ("basketball warmup playlist", True), ("basketball training music", False),
    ]  # fmt: skip
    assert (summary["rare"], summary["near_duplicate"], summary["exact_match"], summary["rows"]) == (1, 1, 1, 1)
    evidence.write_text(json.dumps({"item_id": "7", "query": "x"}))
    with pytest.raises(InputError, match="line 1: has no impressions, relevance"):
        build_from_files(pages, evidence, out, settings=None)


def test_locales_with_too_few_pairs_are_named_and_count_only_together(tmp_path):
    near = [(f"basketball warmup {n}", f"basketball warmup {n} x", "en") for n in range(MIN_PAIRS)]
    rows = [(a, b, locale, True) for a, b, locale in near]
    rows += [(f"a {n}", f"piano {n}", "en", False) for n in range(MIN_PAIRS)] + [("eins", "zwei", "de", False)]
    path = tmp_path / "pairs.csv"
    pl.DataFrame(rows, schema=["a", "b", "locale", "near_duplicate"], orient="row").write_csv(path)
    found, few = job._calibrations(path, None, PlantedEncoder())
    assert sorted(found) == ["", "en"]
    assert few == ["de"]
    assert found[""]["wrongly_dropped"]["n"] == found["en"]["wrongly_dropped"]["n"] + 1


def test_pairs_are_planted_in_a_bounded_stable_sample_of_queries(tmp_path, monkeypatch):
    store = Store(str(tmp_path))
    keys = [key_of(str(n)) for n in range(2000)]
    rows = pl.DataFrame({"query_key": keys, "query": [f"q {n}" for n in range(2000)]}).with_columns(
        corpus=pl.lit("c"), locale=pl.lit("en"), first_day=pl.lit(date(2026, 1, 1))
    )
    store.replace("queries", rows.select(QUERIES.names), where={"corpus": "c"})
    assert job._some_queries(store).height == 2000
    monkeypatch.setattr(job, "MOST_QUERIES", 200)
    some = job._some_queries(store)
    assert 140 < some.height < 260
    assert some.equals(job._some_queries(store))

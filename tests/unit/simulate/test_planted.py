"""Graded pages, the A/B test and the documents: what they plant, and that their files say it."""

import json
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from jobs.simulate.documents import make_library
from jobs.simulate.files import planted_relevance, write_labels, write_launch
from jobs.simulate.planted import (
    INSTANCES,
    PAGE_ITEMS,
    RATERS_PER_PAGE,
    discounts,
    human_pages,
    make_launch,
    page_relevance,
    rater_labels,
)
from jobs.simulate.world import make_world


@pytest.fixture(scope="module")
def world():
    return make_world(seed=11, size="demo")


def test_page_relevance_is_the_discounted_mean(world):
    """Against the definition, item by item."""
    part = world.corpora["tracks"]
    places = np.array([[3, 0, 7]])
    r = part.relevance[4]
    weights = [1 / np.log2(2), 1 / np.log2(3), 1 / np.log2(4)]
    by_hand = (weights[0] * r[3] + weights[1] * r[0] + weights[2] * r[7]) / sum(weights)
    assert page_relevance(part, np.array([4]), places)[0] == pytest.approx(by_hand, rel=1e-6)
    assert discounts(5).sum() == pytest.approx(1)


def test_raters_follow_the_page_and_err(world):
    pages = human_pages(world, corpus="tracks", count=250)
    labels, raters = rater_labels(world, pages)
    assert set(np.unique(labels)) == {0, 0.5, 1}
    assert 0.7 < spearmanr(labels.mean(axis=1), pages.relevance)[0] < 0.98
    agree = (labels[:, 0] == labels[:, 1]).mean()
    assert 0.5 < agree < 0.95
    assert (raters[:, 0] != raters[:, 1]).all()
    assert np.bincount((labels.mean(axis=1) * 4).astype(int)).min() > 3


def test_the_better_system_wins_overall_and_loses_on_some_queries(world):
    test = make_launch(world, corpus="tracks", queries=300)
    better = test.planted["b"] > test.planted["a"]
    assert test.planted["b"].mean() > test.planted["a"].mean() + 0.03
    assert 0.1 < 1 - better.mean() < 0.45


def test_outcomes_are_as_noisy_as_their_counts_say(world):
    """Measured minus planted, in standard errors, has a spread of one."""
    test = make_launch(world, corpus="tracks", queries=400)
    for system in ("a", "b"):
        p = test.planted[system]
        z = (test.measured[system] - p) / np.sqrt(p * (1 - p) / test.views)
        assert abs(z.mean()) < 0.25
        assert 0.85 < z.std() < 1.15


def test_launch_files_hold_three_instances_of_both_systems(world, tmp_path):
    summary = write_launch(world, tmp_path)
    rows = {s: [json.loads(x) for x in (tmp_path / "launch" / f"pages-{s}.jsonl").open()] for s in ("a", "b")}
    truth = json.loads((tmp_path / "truth" / "launch.json").read_text())
    assert summary["winner"] == truth["winner"] == "b"
    for system, pages in rows.items():
        assert len(pages) == summary["queries"] * INSTANCES
        assert len({p["page_id"] for p in pages}) == len(pages)
        assert {p["system"] for p in pages} == {system}
        assert all([i["rank"] for i in p["items"]] == list(range(1, PAGE_ITEMS + 1)) for p in pages)
        assert all(len({i["item_id"] for i in p["items"]}) == PAGE_ITEMS for p in pages)
    outcomes = [json.loads(x) for x in (tmp_path / "launch" / "outcomes.jsonl").open()]
    assert {o["query_key"] for o in outcomes} == {p["query_key"] for p in rows["a"]}
    assert all(0 <= o["system_a"] <= 1 and o["standard_error_a"] > 0 for o in outcomes)


def test_label_files_hold_every_rater_of_every_page(world, tmp_path):
    pages = write_labels(world, tmp_path)
    rows = [json.loads(x) for c in ("tracks", "podcasts") for x in (tmp_path / "labels" / f"{c}.jsonl").open()]
    assert len(rows) == pages * RATERS_PER_PAGE
    assert {r["locale"] for r in rows} == {"en", "de", "es"}
    assert {r["label"] for r in rows} == {0, 0.5, 1}


def test_planted_relevance_covers_every_query_and_candidate(world):
    frame = planted_relevance(world, corpus="podcasts")
    part = world.corpora["podcasts"]
    assert frame.height == part.queries.height * part.pool.shape[1]
    assert frame.select("query_key", "item_key").is_duplicated().sum() == 0
    row = frame.row(33, named=True)
    query = part.queries["query_key"].to_list().index(row["query_key"])
    item = part.items["item_key"].to_list().index(row["item_key"])
    place = part.pool[part.intent_of[query]].tolist().index(item)
    assert row["relevance"] == pytest.approx(float(part.relevance[query, place]))


@pytest.mark.parametrize("corpus", ["tracks", "podcasts"])
def test_documents_tell_their_domain_in_words_alone(corpus):
    """No id, title or metadata gives the domain away, and every scene stands in every domain."""
    library = make_library(seed=4, corpus=corpus, documents=300)
    domains = set(library.domain_of.values())
    assert len(domains) == 5
    for document in library.documents:
        told = document["id"] + json.dumps(document["metadata"]) + document["title"]
        assert not any(domain in told.lower() for domain in domains)
    scenes = pl.DataFrame([(d["title"], library.domain_of[d["id"]]) for d in library.documents], orient="row")
    assert set(scenes.group_by("column_0").agg(pl.col("column_1").n_unique())["column_1"]) == {5}
    order = [library.domain_of[d["id"]] for d in library.documents]
    assert sum(a == b for a, b in pairwise(order)) < 0.35 * len(order)


def test_a_need_and_its_documents_share_the_scene_and_no_word_of_the_domain():
    library = make_library(seed=4, corpus="tracks", documents=300)
    texts = {d["id"]: d for d in library.documents}
    by_query = {q["id"]: q["text"] for q in library.queries}
    assert {q["query_id"] for q in library.qrels} == set(by_query)
    for row in library.qrels:
        assert texts[row["document_id"]]["title"].lower() in by_query[row["query_id"]].lower()

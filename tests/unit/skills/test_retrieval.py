"""Retrieval, clusters, terms and metrics: exactness, excluded ids, recall, NIST's own numbers."""

import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.core.errors import InputError
from jobs.skills.clusters import cluster_count, cluster_views, fit_clusters, nearest
from jobs.skills.documents import Document
from jobs.skills.labels import Qrels, read_qrels
from jobs.skills.metrics import holm, ndcg_by_query, paired, subject_mean
from jobs.skills.retrieval import Hit, Retriever
from jobs.skills.terms import Lexicon, cluster_terms, words
from tests.unit.skills.fakes import WordEncoder

SHARED = Path(__file__).parents[3].parent / "shared" / "data"


class Given:
    """An encoder that gives the vectors it was made with, by text."""

    name, revision = "given", "1"

    def __init__(self, vectors):
        self.vectors = vectors

    def encode(self, texts, *, kind="plain"):
        return np.stack([self.vectors[int(one)] for one in texts])


def unit(rng, n, d=16):
    rows = rng.standard_normal((n, d)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def documents(n):
    return [Document(id=f"d{k}", text=str(k)) for k in range(n)]


def test_exact_search_equals_numpy_and_excluded_ids_are_taken_out():
    vectors = unit(np.random.default_rng(0), 300)
    index = Retriever(documents(300), Given(vectors))
    hits = index.search_vectors(vectors[:5], depth=10)
    for row, found in enumerate(hits):
        order = np.argsort(-(vectors @ vectors[row]), kind="stable")[:10]
        assert [one.document_id for one in found] == [f"d{k}" for k in order]
    barred = [[one.document_id for one in found[:3]] for found in hits]
    again = index.search_vectors(vectors[:5], depth=10, excluded=barred)
    assert [one.document_id for one in again[0][:7]] == [one.document_id for one in hits[0][3:]]
    assert all(len(one) == 10 for one in again)
    assert index.recall is None


def test_above_the_exact_size_recall_is_measured():
    index = Retriever(documents(3000), Given(unit(np.random.default_rng(1), 3000)), exact_up_to=1000)
    assert not index.exact
    assert 0.3 < index.recall <= 1


@pytest.mark.parametrize("n", [1, 2, 15, 40, 200])
def test_inverted_lists_serve_corpora_of_any_size(n):
    index = Retriever(documents(n), Given(unit(np.random.default_rng(3), n)), exact_up_to=0)
    assert not index.exact
    assert index.recall == 1
    assert [len(one) for one in index.search(["0"], depth=10)] == [min(n, 10)]


def test_small_and_empty_corpora():
    index = Retriever(documents(3), Given(unit(np.random.default_rng(2), 3)))
    assert [len(one) for one in index.search(["0"], depth=10)] == [3]
    assert index.search([], depth=10) == []
    with pytest.raises(InputError, match="no document"):
        Retriever([], WordEncoder())


@pytest.mark.parametrize(("n", "factor", "want"), [(1, 1, 1), (100, 1, 10), (100, 0.5, 5), (100, 2, 20), (2, 2, 2)])
def test_about_the_root_of_the_documents(n, factor, want):
    assert cluster_count(n, factor=factor) == want


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 120), st.integers(1, 30), st.integers(0, 5))
def test_clusters_are_dense_repeatable_and_never_empty(n, count, seed):
    vectors = unit(np.random.default_rng(seed), n)
    one, other = (fit_clusters(vectors, count=count, seed=seed) for _ in range(2))
    assert np.array_equal(one.labels, other.labels)
    assert one.sizes.min() >= 1
    assert one.sizes.sum() == n
    assert len(one.centroids) <= count
    assert np.allclose(np.linalg.norm(one.centroids, axis=1), 1, atol=1e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kinds", [1, 3])
def test_documents_that_say_the_same_are_few_clusters_without_a_warning(kinds):
    vectors = unit(np.random.default_rng(4), kinds)[np.arange(100) % kinds]
    made = fit_clusters(vectors, count=10, seed=0)
    assert made.sizes.sum() == 100
    assert len(made.centroids) <= 10
    assert np.allclose(made.centroids[made.labels], vectors, atol=1e-5)


def test_nearest_is_the_same_in_blocks():
    rng = np.random.default_rng(0)
    vectors, centroids = unit(rng, 100), unit(rng, 7)
    labels, cosine = nearest(vectors, centroids, block=9)
    assert np.array_equal(labels, (vectors @ centroids.T).argmax(axis=1))
    assert np.allclose(cosine, (vectors @ centroids.T).max(axis=1))


def test_a_view_shows_the_nearest_texts_and_others_to_the_judge():
    encoder = WordEncoder()
    texts = [f"music sound number {n}" for n in range(20)] + [f"law court case {n}" for n in range(20)]
    held = [Document(id=str(n), text=text) for n, text in enumerate(texts)]
    vectors = encoder.encode([one.content for one in held])
    clustering = fit_clusters(vectors, count=2, seed=0)
    views = cluster_views(held, vectors, clustering)
    assert {one.size for one in views} == {20}
    for view in views:
        assert not set(view.representatives) & set(view.samples)
        assert len(view.representatives) == len(view.samples) == 6
    assert {view.terms[0] for view in views} <= {"music", "sound", "number", "law", "court", "case"}


@pytest.mark.parametrize(
    ("groups", "want", "why"),
    [
        ([["the cat sat"] * 5, ["the dog ran"] * 5], [("cat", "sat"), ("dog", "ran")], "shared words tell nothing"),
        ([["der hund lief"] * 5, ["der ball rollt"] * 5], [("hund", "lief"), ("ball", "rollt")], "in any language"),
        ([["alone here"] * 5], [("alone", "here")], "a single group keeps its words"),
        ([["1 2 3"], ["?"]], [(), ()], "no words at all"),
        ([[], ["word"]], [(), ("word",)], "an empty group"),
    ],
)
def test_terms_tell_groups_apart(groups, want, why):
    assert cluster_terms(groups, top=2) == want, why


def test_words_and_their_weight():
    assert words("It's AC/DC's naïve_song 42 x") == ["it's", "ac", "dc's", "naïve", "song"]
    lexicon = Lexicon.of(["a word here", "another word"])
    assert lexicon.weight("word") == 0
    assert lexicon.weight("here") > 0
    assert lexicon.weight("unknown") == 0


def hits(*names):
    return [Hit(name, 1.0 - k / 100) for k, name in enumerate(names)]


def test_ndcg_by_hand():
    qrels = Qrels({"q": {"a": 1, "b": 2}, "none": {"a": 0}})
    found = ndcg_by_query({"q": hits("b", "x", "a"), "none": hits("a"), "unlabelled": hits("a"), "q2": []}, qrels)
    assert found == {"q": pytest.approx((2 + 1 / 2) / (2 + 1 / np.log2(3)))}
    assert ndcg_by_query({"q": []}, qrels) == {"q": 0.0}
    assert ndcg_by_query({}, qrels) == {}


@pytest.mark.skipif(
    not (SHARED / "trec_eval_oracle").is_dir(), reason="the oracle's files are not beside this checkout"
)
def test_ndcg_agrees_with_nist_to_four_digits():
    folder = SHARED / "trec_eval_oracle"
    want = {}
    for line in (folder / "out.test.aq").read_text().splitlines():
        measure, query, value = line.split()
        if measure == "ndcg_cut_10" and query != "all":
            want[query] = float(value)
    run = {}
    for line in (folder / "results.test").read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        run.setdefault(query, []).append(Hit(document, float(score)))
    found = ndcg_by_query(run, read_qrels(folder / "qrels.test"))
    assert len(want) >= 3
    assert {query: round(found[query], 4) for query in want} == want


def test_means_are_equal_over_subjects():
    values, subjects = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}, {"a": "x", "b": "y", "c": "y", "d": "y"}
    assert subject_mean(values, subjects) == 0.5
    assert subject_mean({}, {}) is None


def test_paired_differences_and_their_p():
    rng = np.random.default_rng(0)
    base = {str(n): float(x) for n, x in enumerate(rng.random(60))}
    better = {name: value + 0.1 for name, value in base.items()}
    noisy = {name: value + float(rng.normal(0, 0.1)) for name, value in base.items()}
    assert paired(better, base).p < 0.001
    assert paired(better, base).difference == pytest.approx(0.1)
    assert paired(base, base).p == 1
    assert paired(noisy, base).p > 0.01
    assert paired({"x": 1.0}, {"y": 1.0}) is None


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_between_the_raw_value_and_bonferroni(values):
    adjusted = holm(values)
    for raw, new in zip(values, adjusted, strict=True):
        assert raw - 1e-9 <= new <= min(1.0, raw * len(values)) + 1e-9
    order = np.argsort(values, kind="stable")
    assert all(adjusted[a] <= adjusted[b] + 1e-9 for a, b in itertools.pairwise(order))


@pytest.mark.skipif(not (SHARED / "vaswani_npl").is_dir(), reason="the collection is not beside this checkout")
def test_trec_labels_of_a_real_collection_are_read():
    qrels = read_qrels(SHARED / "vaswani_npl" / "qrels")
    assert len(qrels.grades) == 93
    assert sum(len(one) for one in qrels.grades.values()) == 2083
    with gzip.open(SHARED / "vaswani_npl" / "doc-text.trec.gz", "rt") as file:
        assert "<DOCNO>1</DOCNO>" in file.read(100)

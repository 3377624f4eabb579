"""The offline baseline judge: it sees a page and what a card shows, nothing else."""

import numpy as np
import pytest

from jobs.judging import baseline


class Axes:
    """A deterministic stand-in for the embedding model: each known word is an axis."""

    name, revision = "axes", "test"
    words = ("rain", "sun", "dance", "slow")

    def encode(self, texts, *, kind="plain"):
        rows = [[float(w in t.split()) for w in self.words] + [0.01] for t in texts]
        vectors = np.array(rows, np.float32).reshape(-1, len(self.words) + 1)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def page(page_id="p1", query="rain", titles=("rain", "sun")):
    items = [{"item_id": f"i{n}", "rank": n, "title": t} for n, t in enumerate(titles, start=1)]
    return {"page_id": page_id, "query": query, "items": items}


def row(item_id="i1", **values):
    places = {"row": 1, "row_unfiltered": 1}
    numbers = {"similarity": 0.9, "impressions": 1000, "ctr": 0.1, "relevance": 0.5}
    return {"item_id": item_id, "query": "q"} | numbers | places | values


def only(pages, cards, variant):
    return baseline.judge(pages, cards, variant, Axes())[0]


def test_plain_follows_the_cosine_and_the_rank():
    high = only([page(titles=("rain", "sun"))], {}, "plain")
    low = only([page(titles=("sun", "rain"))], {}, "plain")
    none = only([page(titles=("sun", "sun dance"))], {}, "plain")
    assert high["expected_label"] > low["expected_label"] > none["expected_label"]
    assert (high["label"], none["label"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("variant", "number"),
    [("popularity", "impressions"), ("ctr", "ctr"), ("qri", "relevance"), ("qri_unfiltered", "relevance")],
)
def test_a_variant_reads_its_own_number_only(variant, number):
    poor = {"impressions": 10, "ctr": 0.01, "relevance": 0.01}
    good = {"impressions": 10**6, "ctr": 0.9, "relevance": 0.9}
    scores = []
    for name in ("impressions", "ctr", "relevance"):
        card = {"p1": [row(**(poor | {name: good[name]}))]}
        scores.append((only([page()], card, variant)["expected_label"], name))
    best = max(scores)
    assert best[1] == number


def test_shown_rows_decide_by_variant():
    """A near-duplicate stands in the unfiltered card only."""
    card = {"p1": [row(relevance=0.9, row=None, row_unfiltered=1, similarity=0.97)]}
    given = page(query="slow")
    assert only([given], card, "qri")["reused_from_plain"]
    grounded = only([given], card, "qri_unfiltered")
    assert not grounded["reused_from_plain"]
    assert grounded["expected_label"] > only([given], {}, "plain")["expected_label"]


def test_no_card_gives_plains_label_and_says_so():
    plain, grounded = only([page()], {}, "plain"), only([page()], {}, "qri")
    assert grounded["label"] == plain["label"]
    assert grounded["reused_from_plain"]
    assert not plain["reused_from_plain"]


def test_evidence_only_is_the_cards_value():
    """Two items at ranks 1 and 2, one with a card: its relevance, whatever the titles say; without cards null."""
    judged = only([page()], {"p1": [row(relevance=0.4)]}, "evidence_only")
    assert judged["label"] is None
    assert judged["reason"] is None
    assert judged["expected_label"] == pytest.approx(0.4)
    both = only([page()], {"p1": [row(relevance=0.4), row("i2", relevance=0.1)]}, "evidence_only")
    second = 1 / np.log2(3)
    assert both["expected_label"] == pytest.approx((0.4 + second * 0.1) / (1 + second))
    assert only([page()], {}, "evidence_only")["expected_label"] is None


def test_close_and_sure_rows_outvote_distant_and_rare_ones():
    close = row(relevance=0.6, similarity=0.9, impressions=5000)
    far = row(relevance=0.0, similarity=0.3, impressions=5000, row=2)
    rare = row(relevance=0.0, similarity=0.9, impressions=1, row=2)
    alone = only([page()], {"p1": [close]}, "qri")["expected_label"]
    for other in (far, rare):
        both = only([page()], {"p1": [close, other]}, "qri")["expected_label"]
        assert alone * 0.85 < both < alone


def test_rows_name_the_judge_and_repeat_the_page():
    given = page() | {"set": "launch", "system": "b", "instance": 2, "corpus": "tracks", "query_key": "00" * 8}
    judged = only([given], {"p1": [row(), row("i2", row=None)]}, "qri")
    assert judged["model"] == "offline-baseline"
    assert (judged["set"], judged["system"], judged["instance"], judged["qri_count"]) == ("launch", "b", 2, 1)
    assert (judged["tokens_in"], judged["prompt_sha256"]) == (0, None)


def test_order_of_pages_is_kept():
    pages = [page(f"p{n}", query=q) for n, q in enumerate(["sun", "rain", "slow", "dance"])]
    assert [r["page_id"] for r in baseline.judge(pages, {}, "plain", Axes())] == ["p0", "p1", "p2", "p3"]
    assert baseline.judge([], {}, "qri", Axes()) == []

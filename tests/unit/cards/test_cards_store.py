"""Cards of a night on a store: what stands in the table, and what every variant may show."""

import numpy as np
import polars as pl
import pytest

from jobs.cards import audit, share
from jobs.cards.explain import explain, explained_text
from jobs.cards.share import pooled
from jobs.core.errors import NotThereError
from schemas.cards import CARDS
from tests.unit.pages.ministore import CORPUS, QUERIES


def cards_of(night):
    return night.ctx.read("cards", run=night.ctx.run.key).sort("page_id", "item_id", "query_key")


def test_every_page_item_has_its_card(night):
    cards = cards_of(night)
    assert CARDS.problems(cards) == []
    pages = night.ctx.read("pages", run=night.ctx.run.key)
    assert cards.select("page_id", "item_id").n_unique() == night.summary["page_items"]
    own = cards.join(pages.select("page_id", page_query="query"), on="page_id")
    exact = own.filter(pl.col("query") == pl.col("page_query"))
    assert set(exact["dropped"]) == {"exact_match"}
    assert exact["row"].null_count() == exact.height
    assert exact["row_unfiltered"].null_count() == 0, "the unfiltered card keeps it: it is the most similar"


@pytest.mark.parametrize(
    ("page", "history", "reason", "why"),
    [
        ("basketball warmup music", "basketball warmup playlist", "near_duplicate", "the same need in other words"),
        ("basketball warmup music", "basketball training music", None, "related, not the same"),
    ],
)
def test_near_duplicates_go_and_related_queries_stay(night, page, history, reason, why):
    pages = night.ctx.read("pages", run=night.ctx.run.key).filter(pl.col("query") == page)
    rows = cards_of(night).join(pages.select("page_id"), on="page_id").filter(pl.col("query") == history)
    assert rows.height > 0
    assert set(rows["dropped"]) == {reason}, why
    assert (rows["row"].null_count() == rows.height) == (reason is not None)


def test_numbers_are_those_of_evidence(night):
    evidence = night.ctx.read("evidence", run=night.ctx.run.key)
    columns = ["impressions", "clicks", "relevance", "relevance_low", "relevance_high", "users", "last_shown_day"]
    both = cards_of(night).join(evidence, on=["item_id", "query_key"], suffix="_evidence")
    assert both.height == cards_of(night).height
    assert all((both[name] == both[f"{name}_evidence"]).all() for name in columns)


def test_building_again_gives_the_same_cards(night):
    first = cards_of(night)
    night.build()
    assert cards_of(night).equals(first)


def test_shares_of_items_give_the_same_cards(night, monkeypatch):
    first = cards_of(night)
    monkeypatch.setattr("jobs.cards.inputs.ROWS_A_TASK", 20)
    night.build()
    assert cards_of(night).equals(first)


def test_rows_beyond_k_are_kept_up_to_a_bound_and_counted(night, monkeypatch):
    small = night.ctx.settings.evidence.model_copy(update={"top_k": 2})
    object.__setattr__(night.ctx, "settings", night.ctx.settings.model_copy(update={"evidence": small}))
    counts = night.build()
    cards = cards_of(night)
    beyond = cards.filter(pl.col("dropped") == "beyond_k").group_by("page_id", "item_id").len()
    assert beyond["len"].max() == 2
    assert counts["beyond_k"] > beyond["len"].sum()
    assert counts["rows"] + counts["near_duplicate"] + counts["exact_match"] + counts["beyond_k"] == counts["compared"]
    assert cards["row"].max() == cards["row_unfiltered"].max() == 2


@pytest.mark.parametrize(("table", "why"), [("evidence", "a first night"), ("pages", "no eligible query")])
def test_a_night_without_evidence_or_pages_has_empty_cards(night, table, why):
    where = {"run": night.ctx.run.key, **({"corpus": CORPUS} if table == "evidence" else {"set": "logs"})}
    empty = night.ctx.read(table, run=night.ctx.run.key).clear()
    night.ctx.store.replace(table, empty, where=where)
    night.ctx.record(table, {}, tables=(table,))
    counts = night.build()
    assert counts.get("rows", 0) == 0, why
    assert cards_of(night).height == 0
    assert audit.run(night.ctx)["violations"] == 0


def test_explain_says_where_each_number_comes_from(night):
    page = night.ctx.read("pages", run=night.ctx.run.key).filter(pl.col("query") == QUERIES[0]).row(0, named=True)
    item = cards_of(night).filter(pl.col("page_id") == page["page_id"])["item_id"][0]
    card = explain(night.ctx, corpus=CORPUS, locale="en", item_id=item, query=f" {QUERIES[0].upper()} ")
    stored = cards_of(night).filter((pl.col("page_id") == page["page_id"]) & (pl.col("item_id") == item))
    want = stored.filter(pl.col("row").is_not_null()).sort("row")["query"].to_list()
    assert [row["query"] for row in card["rows"]] == want
    assert {row["dropped"] for row in card["dropped"]} == {"exact_match", "near_duplicate"}
    for row in card["rows"]:
        assert sum(row["rank_impressions"]) == row["impressions"]
        assert sum(row["rank_clicks"]) == row["clicks"]
        examined = sum(n / rank for rank, n in zip(row["ranks"], row["rank_impressions"], strict=True))
        assert row["relevance"] == pytest.approx(row["clicks"] / examined)
    text = explained_text(card)
    assert "rank 1:" in text
    assert "near_duplicate: basketball warmup playlist" in text


def test_explain_counts_rare_and_sensitive_queries_and_never_names_them(night, tmp_path):
    (tmp_path / "sensitive.txt").write_text("violin")
    evidence = night.ctx.settings.evidence
    changed = {
        "evidence": evidence.model_copy(update={"min_users": 10**6}),
        "privacy": night.ctx.settings.privacy.model_copy(update={"sensitive_queries": "sensitive.txt"}),
    }
    object.__setattr__(night.ctx, "settings", night.ctx.settings.model_copy(update=changed))
    with pytest.raises(NotThereError, match="'rare': 9, 'sensitive': 1") as error:
        explain(night.ctx, corpus=CORPUS, locale="en", item_id="item-1", query="sad piano")
    assert "violin" not in str(error.value)


def test_other_locales_are_used_only_where_asked_for():
    items = pl.DataFrame({"set": "other", "page_id": ["p", "p"], "corpus": "c", "locale": "de", "item_id": ["i", "j"],
                          "item_key": [1, 2], "page_vector": [0, 0], "threshold": 0.9})  # fmt: skip
    history = pl.DataFrame({"locale": ["de", "en", "en"], "item_key": [1, 1, 2], "query_key": [5, 6, 7],
                            "impressions": [1, 1, 1], "vector": [1, 1, 1],
                            "examined_squared": [1.0, 1.0, 1.0]})  # fmt: skip
    texts = pl.DataFrame({"query_key": [5, 6, 7], "query": ["a", "b", "c"]})
    vectors = np.eye(2, dtype=np.float32)
    for other, want in ((False, [5]), (True, [5, 6, 7])):
        spec = {"top_k": 5, "other_locales": other}
        rows, counts = share.card_rows(items, history, vectors, texts=texts, spec=spec)
        assert sorted(rows["query_key"]) == want
        assert counts["compared"] == len(want)


def test_segments_are_added_up():
    rows = pl.DataFrame({
        "locale": "en", "item_key": 1, "query_key": 2, "segment": ["phone", "desk"],
        "impressions": [10, 30], "clicks": [5, 3], "examined": [5.0, 20.0], "examined_squared": [4.0, 15.0],
        "ctr": [0.5, 0.1], "relevance": [1.0, 0.15], "relevance_low": 0.0, "relevance_high": 1.0,
        "relevance_shrunk": [0.8, 0.2], "users": [7, 9], "last_shown_day": None,
    })  # fmt: skip
    (one,) = pooled(rows).to_dicts()
    assert (one["impressions"], one["clicks"], one["users"]) == (40, 8, 9)
    assert one["relevance"] == pytest.approx(8 / 25)
    assert one["relevance_low"] < 8 / 25 < one["relevance_high"]
    assert one["relevance_shrunk"] == pytest.approx((0.8 * 5 + 0.2 * 20) / 25)

"""Bounds of the driver, the edge of k-anonymity, and what `explain` takes for granted."""

import polars as pl
import pytest

from jobs.cards import audit
from jobs.cards.explain import _over_segments, explain, possible_locales
from jobs.core.errors import InputError, LeakageError
from tests.unit.pages.ministore import CORPUS, QUERIES


def change(night, section, **values):
    part = getattr(night.ctx.settings, section)
    new = part.model_copy(update=values) if values else part
    object.__setattr__(night.ctx, "settings", night.ctx.settings.model_copy(update={section: new}))


@pytest.mark.parametrize("step", ["build", "audit"])
def test_no_step_gathers_more_rows_than_the_settings_allow(night, step):
    change(night, "spark", max_collected_rows=3)
    with pytest.raises(InputError, match=r"spark\.max_collected_rows = 3"):
        night.build() if step == "build" else audit.run(night.ctx)


def test_the_audit_counts_people_to_the_very_threshold(night):
    counted = night.ctx.read("cards", run=night.ctx.run.key)
    fewest = counted["users"].min()
    change(night, "evidence", min_users=fewest)
    assert audit.run(night.ctx)["violations"] == 0
    change(night, "evidence", min_users=fewest + 1)
    with pytest.raises(LeakageError, match="rare"):
        audit.run(night.ctx)
    result = night.ctx.store.read_json(f"{night.ctx.folder}/cards/audit.json")
    assert result["kinds"]["rare"] == counted.filter(pl.col("users") == fewest).height


@pytest.mark.parametrize(
    ("declared", "item", "want", "why"),
    [
        (["en"], "item-1", ["en"], "one is declared"),
        (["de", "en", "es"], "item-1", ["en"], "the item has evidence in one"),
        (["de", "en"], "no-such-item", ["de"], "an unknown item is said to be unknown, not asked a locale for"),
        ([], "item-1", [""], "a corpus without locales"),
    ],
)
def test_a_locale_is_asked_for_only_where_several_are_possible(night, declared, item, want, why):
    corpora = {CORPUS: night.ctx.settings.corpora[CORPUS].model_copy(update={"locales": tuple(declared)})}
    object.__setattr__(night.ctx, "settings", night.ctx.settings.model_copy(update={"corpora": corpora}))
    assert possible_locales(night.ctx, corpus=CORPUS, item_id=item, query=QUERIES[0]) == want, why


def test_of_several_locales_the_one_in_which_the_query_was_issued_is_meant(night):
    corpora = {CORPUS: night.ctx.settings.corpora[CORPUS].model_copy(update={"locales": ("de", "en")})}
    object.__setattr__(night.ctx, "settings", night.ctx.settings.model_copy(update={"corpora": corpora}))
    rows = night.ctx.read("evidence", run=night.ctx.run.key)
    other = rows.with_columns(locale=pl.lit("de"), query_key=pl.col("query_key") + 1)
    night.ctx.store.replace("evidence", pl.concat([rows, other]), where={"run": night.ctx.run.key, "corpus": CORPUS})
    night.ctx.record("evidence", {}, tables=("evidence",))
    assert possible_locales(night.ctx, corpus=CORPUS, item_id="item-1", query=QUERIES[0]) == ["en"]
    assert possible_locales(night.ctx, corpus=CORPUS, item_id="item-1", query="never issued") == ["de", "en"]


def test_explain_adds_segments_up_rank_by_rank(night):
    whole = explain(night.ctx, corpus=CORPUS, locale="en", item_id="item-1", query=QUERIES[0])
    rows = night.ctx.read("evidence", run=night.ctx.run.key)
    numbers = ["impressions", "clicks", "examined", "examined_squared"]
    parts = [rows.with_columns(pl.lit(name).alias("segment")) for name in ("desk", "phone")]
    night.ctx.store.replace("evidence", pl.concat(parts), where={"run": night.ctx.run.key, "corpus": CORPUS})
    night.ctx.record("evidence", {}, tables=("evidence",))
    both = explain(night.ctx, corpus=CORPUS, locale="en", item_id="item-1", query=QUERIES[0])
    assert [r["query"] for r in both["rows"]] == [r["query"] for r in whole["rows"]]
    for one, two in zip(whole["rows"], both["rows"], strict=True):
        assert two["ranks"] == one["ranks"]
        assert two["rank_clicks"] == [2 * n for n in one["rank_clicks"]]
        assert all(two[name] == pytest.approx(2 * one[name]) for name in numbers if name in one)
        assert two["relevance"] == pytest.approx(one["relevance"])


def test_rows_without_segments_are_left_as_they_are():
    rows = pl.DataFrame({"segment": pl.Series([None, None], dtype=pl.String), "query_key": [1, 2]})
    assert _over_segments(rows).equals(rows)

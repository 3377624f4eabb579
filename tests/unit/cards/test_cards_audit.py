"""The leakage audit: a leak of each kind is planted and must be found, as that kind; clean cards have none."""

import ast
import inspect
from datetime import timedelta

import polars as pl
import pytest

from jobs.cards import audit
from jobs.core.errors import LeakageError
from tests.unit.pages.ministore import write_evidence


def setting(night, section, **values):
    """Change settings of the context after the cards were built: what the audit goes by."""
    part = getattr(night.ctx.settings, section).model_copy(update=values)
    object.__setattr__(night.ctx, "settings", night.ctx.settings.model_copy(update={section: part}))


def evidence_of(night, keep):
    """Build cards from evidence that holds the rows of `keep`."""
    write_evidence(night.ctx, keep=keep)
    night.build()


def cards_with(night, change):
    """Write the cards back with a change that the builder would not make."""
    cards = night.ctx.read("cards", run=night.ctx.run.key)
    night.ctx.store.replace("cards", change(cards), where={"run": night.ctx.run.key, "set": "logs"})
    night.ctx.record("cards", night.summary, tables=("cards",))


def of_evidence(run):
    return (pl.col("event_day") >= run.evidence.start) & (pl.col("event_day") < run.evidence.end)


def before_the_window(night):
    run = night.ctx.run
    early = run.evidence.start - timedelta(days=1)
    evidence_of(
        night,
        (pl.col("event_day") >= early) & (pl.col("event_day") < run.evidence.end) & (pl.col("arrival_day") < run.cut),
    )


def in_the_gap(night):
    run = night.ctx.run
    arrived = pl.col("arrival_day") < run.cut
    evidence_of(night, (pl.col("event_day") >= run.evidence.start) & (pl.col("event_day") < run.cut) & arrived)


def shown_outside(night):
    late = night.ctx.run.evidence.end
    cards_with(night, lambda c: c.with_columns(last_shown_day=pl.lit(late)))


def arrived_after_the_cut(night):
    evidence_of(night, of_evidence(night.ctx.run))


def judged_impressions(night):
    run = night.ctx.run
    evidence_of(night, (pl.col("event_day") >= run.evidence.start) & (pl.col("arrival_day") <= run.as_of))


def threshold_too_high(night):
    # the cards were built as if the model's threshold were .99
    setting(night, "evidence", near_duplicate_cosine=0.99)
    night.build()
    setting(night, "evidence", near_duplicate_cosine=0.84)


def the_pages_own_query(night):
    exact = pl.col("dropped") == "exact_match"
    cards_with(night, lambda c: c.with_columns(row=pl.when(exact).then(1).otherwise("row").cast(pl.Int32)))


def a_sensitive_query(night):
    folder = night.ctx.settings.root
    with open(f"{folder}/sensitive.txt", "w") as file:
        file.write("^sad")
    setting(night, "privacy", sensitive_queries="sensitive.txt")


def too_few_people(night):
    setting(night, "evidence", min_users=1000)


def counts_too_low(night):
    cards_with(night, lambda c: c.with_columns(clicks=pl.lit(0, pl.Int64)))


def another_similarity(night):
    cards_with(night, lambda c: c.with_columns(similarity=pl.col("similarity") - 0.1))


def a_page_that_does_not_exist(night):
    cards_with(night, lambda c: c.with_columns(page_id=pl.concat_str(pl.lit("x"), "page_id")))


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (before_the_window, "time"),
        (in_the_gap, "time"),
        (shown_outside, "time"),
        (arrived_after_the_cut, "arrival"),
        (judged_impressions, "shared_impression"),
        (threshold_too_high, "near_duplicate"),
        (the_pages_own_query, "exact_match"),
        (a_sensitive_query, "sensitive"),
        (too_few_people, "rare"),
        (counts_too_low, "unexplained"),
        (another_similarity, "unexplained"),
        (a_page_that_does_not_exist, "unexplained"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_planted_leak_is_found(night, plant, kind):
    plant(night)
    with pytest.raises(LeakageError, match=kind) as error:
        audit.run(night.ctx)
    assert error.value.exit_code == 1
    result = night.ctx.store.read_json(f"{night.ctx.folder}/cards/audit.json")
    assert result["kinds"][kind] > 0
    assert {name for name, n in result["kinds"].items() if n} == {kind}, "and as nothing else"
    assert result["violations"] > 0


def test_clean_cards_pass_and_say_what_was_checked(night):
    result = audit.run(night.ctx)
    assert result["violations"] == 0
    assert result["checked"] == night.ctx.read("cards", run=night.ctx.run.key).height > 0
    assert result["dropped_near_duplicates"] == night.summary["near_duplicate"] > 0
    assert night.ctx.manifest()["steps"]["cards.audit"]["violations"] == 0


def test_one_leaking_row_is_enough(night):
    first = pl.int_range(pl.len()) == 0
    cards_with(night, lambda c: c.with_columns(impressions=pl.when(first).then(10**6).otherwise("impressions")))
    with pytest.raises(LeakageError, match="1 of"):
        audit.run(night.ctx)


@pytest.mark.parametrize("kind", ["rare", "unexplained", "time"])
def test_a_leak_in_a_row_that_no_card_shows_is_found_too(night, kind):
    dropped = pl.col("dropped").is_not_null()
    late = night.ctx.run.evidence.end
    changed = {
        "rare": pl.when(dropped).then(1).otherwise("query_key").alias("query_key"),
        "unexplained": pl.when(dropped).then(0).otherwise("impressions").alias("impressions"),
        "time": pl.when(dropped).then(pl.lit(late)).otherwise("last_shown_day").alias("last_shown_day"),
    }[kind]
    hide = pl.when(dropped).then(None).otherwise("row_unfiltered").alias("row_unfiltered")
    cards_with(night, lambda c: c.with_columns(changed, hide).unique(["page_id", "item_id", "query_key"]))
    with pytest.raises(LeakageError, match=kind):
        audit.run(night.ctx)


def test_examples_name_keys_and_never_texts(night):
    a_sensitive_query(night)
    with pytest.raises(LeakageError):
        audit.run(night.ctx)
    text = str(night.ctx.store.read_json(f"{night.ctx.folder}/cards/audit.json"))
    assert "sad" not in text


def test_the_audit_shares_no_code_with_the_builder():
    tree = ast.parse(inspect.getsource(audit))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    shared = {"jobs.cards.build", "jobs.cards.share", "jobs.cards.inputs", "jobs.cards.job", "jobs.core.windows"}
    assert not modules & shared
    assert not {name for name in modules if name.startswith(("jobs.evidence", "jobs.pages", "jobs.core.spark"))}

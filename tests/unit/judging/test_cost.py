"""Prices, the budget, and ensembles."""

import pytest

from jobs.core.errors import UsageError
from jobs.judging.cost import Budget, price_of
from jobs.judging.ensemble import combined


def test_prices_by_model_and_half_for_batches(tmp_path):
    table = tmp_path / "prices.toml"
    table.write_text('batch = 0.5\n[models]\n"m" = { input = 2.0, output = 8.0 }\n')
    assert price_of("m", table=str(table)).usd(tokens_in=1_000_000, tokens_out=500_000) == pytest.approx(6.0)
    assert price_of("m", table=str(table), batch=True).usd(tokens_in=1_000_000, tokens_out=0) == pytest.approx(1.0)
    assert price_of("other", table=str(table)) is None
    assert price_of("gpt-4.1-mini") is not None


@pytest.mark.parametrize("content", ["", "[models]\nm = 3", "not toml ["])
def test_a_price_table_that_cannot_be_read_is_named(tmp_path, content):
    table = tmp_path / "mine.toml"
    table.write_text(content)
    with pytest.raises(UsageError, match=r"mine\.toml"):
        price_of("m", table=str(table))


def test_the_budget_reserves_before_it_spends():
    budget = Budget(limit_usd=1.0)
    assert budget.take(0.6)
    assert not budget.take(0.6)  # two calls in flight could pass the limit together
    budget.settle(0.6, 0.1)
    assert budget.take(0.6)
    assert (budget.spent_usd, budget.refused) == (0.1, 1)
    assert Budget(limit_usd=None).take(1e9)
    assert Budget(limit_usd=0.0).take(0.0)  # what costs nothing is never held back


def row(label, *, model="m", reason=None, tokens=10, cached=False):
    return {
        "model": model, "sample": 3, "label": label, "reason": reason, "expected_label": label,
        "rationale": f"r{label}", "tokens_in": tokens, "tokens_out": 1, "cached": cached,
        "possibly_billed_twice": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "label", "spread"),
    [
        ([1.0, 1.0, 0.0], 1.0, 1.0),
        ([1.0, 0.5], 0.5, 0.5),  # a tie: the lower of the middle two
        ([0.0, 0.5, 1.0], 0.5, 1.0),
        ([None, 0.5, None], 0.5, 0.0),
        ([None, None], None, None),
    ],
)
def test_majority_and_spread(labels, label, spread):
    found = combined([row(x, reason=None if x is not None else "refusal") for x in labels])
    assert (found["label"], found["spread"], found["members"]) == (label, spread, labels)
    assert found["reason"] == (None if label is not None else "refusal")
    assert found["rationale"] == f"r{label}"
    assert found["sample"] == 0


def test_one_member_is_left_as_it_is():
    one = row(0.5)
    assert combined([one]) is one


def test_an_ensembles_bill_leaves_out_what_was_cached():
    found = combined([row(0.5, model="a", cached=True), row(0.5, model="b")])
    assert (found["model"], found["tokens_in"], found["cached"]) == ("a+b", 10, False)

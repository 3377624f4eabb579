"""Sums that are added over parts of the data, and the bootstrap that agrees between parts."""

import numpy as np
import polars as pl
import pytest

from benchmarks.planted_counts import two_rankers
from jobs.core.errors import InputError
from jobs.propensity.bootstrap import Resample, weights
from jobs.propensity.summary import Summary, summarise


def test_parts_add_up_to_the_whole():
    counts = two_rankers(1, queries=60, pages=20)
    cut = counts["query_key"].median()
    parts = [summarise(counts.filter(side), max_rank=10, replicates=7) for side in
             (pl.col("query_key") <= cut, pl.col("query_key") > cut)]  # fmt: skip
    whole, joined = summarise(counts, max_rank=10, replicates=7), parts[0] + parts[1]
    for name, values in whole.arrays.items():
        np.testing.assert_allclose(joined[name], values, rtol=1e-12, err_msg=name)


def test_text_form_keeps_everything_in_single_precision():
    summary = summarise(two_rankers(1, queries=30, pages=20), max_rank=10, replicates=5)
    back = Summary.from_text(summary.to_text())
    assert back.unit == "query"
    for name, values in summary.arrays.items():
        np.testing.assert_allclose(back[name], values, rtol=1e-6, err_msg=name)


def test_rows_of_one_cell_may_repeat():
    counts = two_rankers(2, queries=30, pages=40)
    half = counts.with_columns(pl.col("impressions") // 2, pl.col("clicks") // 2)
    rest = counts.with_columns(pl.col("impressions") - half["impressions"], pl.col("clicks") - half["clicks"])
    one = summarise(counts, max_rank=10, replicates=3)
    two = summarise(pl.concat([half, rest]), max_rank=10, replicates=3)
    for name, values in one.arrays.items():
        np.testing.assert_allclose(two[name], values, rtol=1e-12, err_msg=name)


def test_units_cannot_be_mixed():
    counts = two_rankers(1, queries=30, pages=20)
    with pytest.raises(InputError, match="query and by pair"):
        summarise(counts, max_rank=10, replicates=2) + summarise(counts, max_rank=10, replicates=2, unit="pair")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("rank"), "lack the columns rank"),
        (lambda f: f.with_columns(pl.col("rank") - 1), "ranks start at 1"),
        (lambda f: f.with_columns(-pl.col("clicks")), "counts at 0"),
    ],
)
def test_wrong_counts_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        summarise(change(two_rankers(1, queries=30, pages=60)), max_rank=10, replicates=0)


def test_trimmed_keeps_the_ranks_that_were_shown_and_the_deeper_ones():
    counts = two_rankers(1, queries=30, pages=20).filter(pl.col("rank") <= 4)
    deep = counts.head(1).with_columns(rank=pl.lit(50, pl.Int32))
    summary = summarise(pl.concat([counts, deep]), max_rank=10, replicates=2).trimmed()
    assert summary.ranks == 4
    assert summary["impressions"][-1] == deep["impressions"][0]
    assert summary["shown_rankers"].shape == (3, 4, 4)


def test_weights_depend_on_the_key_alone_and_look_like_poisson_counts():
    keys = np.arange(20_000)
    found = weights(keys, replicates=3)
    np.testing.assert_array_equal(weights(keys[::-1], replicates=3)[:, ::-1], found)
    assert (found[0] == 1).all()
    assert found[1:].mean() == pytest.approx(1, abs=0.02)
    assert found[1:].var() == pytest.approx(1, abs=0.03)
    assert abs(np.corrcoef(found[1], found[2])[0, 1]) < 0.03


def test_sums_are_weighted_by_the_copies_of_their_unit():
    keys, cell, values = np.array([5, 5, 9, 7]), np.array([0, 1, 1, 0]), np.array([1.0, 2, 4, 8])
    copies = weights(np.array([5, 7, 9]), replicates=4)
    found = Resample(keys, replicates=4).sums(keys, cell, values, cells=2)
    expected = np.stack([copies[:, 0] + 8 * copies[:, 1], 2 * copies[:, 0] + 4 * copies[:, 2]], axis=1)
    np.testing.assert_allclose(found, expected)

"""Counting issuers: exact below 1,024, an estimate above, per salt, and never wrong about the threshold."""

import numpy as np
import polars as pl
import pytest

from jobs.evidence.users import SMALLEST, distinct_users


def users(hashes, *, query=1, salt="a"):
    hashes = np.asarray(hashes, np.int64)
    return pl.DataFrame(
        {"query_key": np.full(len(hashes), query), "salt_id": [salt] * len(hashes), "user_hash": hashes}
    )


def random_hashes(n, *, seed=0):
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, n, dtype=np.int64)


def smallest_per_day(hashes, *, days=5):
    """What daily_users keeps: every day its 1,024 smallest."""
    parts = np.array_split(np.random.default_rng(9).permutation(hashes), days)
    return np.concatenate([np.sort(part)[:SMALLEST] for part in parts])


def row(frame, query=1):
    return frame.filter(pl.col("query_key") == query).row(0, named=True)


@pytest.mark.parametrize("n", [1, 19, 20, 1023])
def test_exact_below_the_limit_however_often_a_user_comes_back(n):
    hashes = random_hashes(n)
    found = row(distinct_users(users(np.concatenate([hashes, hashes[: n // 2 + 1], hashes]))))
    assert (found["users"], found["users_exact"], found["users_least"]) == (n, True, n)


@pytest.mark.parametrize("n", [1024, 3000, 50_000])
def test_an_estimate_above_it_within_four_standard_errors(n):
    found = row(distinct_users(users(smallest_per_day(random_hashes(n, seed=n)))))
    assert not found["users_exact"]
    assert found["users"] == pytest.approx(n, rel=0.125)
    assert SMALLEST <= found["users_least"] <= max(n, SMALLEST)


def test_the_estimates_relative_error_is_three_percent():
    found = [row(distinct_users(users(np.sort(random_hashes(20_000, seed=s))[:SMALLEST])))["users"] for s in range(60)]
    assert np.mean(found) == pytest.approx(20_000, rel=0.015)
    assert np.std(found) / 20_000 == pytest.approx(0.031, abs=0.012)


def test_a_rotated_salt_counts_each_salt_apart_and_takes_the_larger():
    frame = pl.concat([users(random_hashes(12)), users(random_hashes(15, seed=1), salt="b")])
    assert row(distinct_users(frame))["users"] == 15


def test_queries_are_counted_apart():
    frame = pl.concat([users(random_hashes(5)), users(random_hashes(7, seed=2), query=2)])
    found = distinct_users(frame)
    assert (row(found, 1)["users"], row(found, 2)["users"]) == (5, 7)


def test_no_rows_give_no_rows():
    assert distinct_users(users([])).height == 0

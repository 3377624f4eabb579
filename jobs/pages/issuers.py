"""How many distinct users issued a query: exact below 1,024, an estimate from the smallest above."""

import polars as pl

KEPT = 1024
"""Hashes that daily_users keeps per query, event day and arrival day (formats.md)."""


def distinct_issuers(users: pl.DataFrame, *, by: str = "query_key") -> pl.DataFrame:
    """One row per query: columns `by` and users (int64).

    users: `by`, salt_id, user_hash, in any order and with repeats over days. Where a window spans salts, the largest
    count of one salt stands, never their sum: the same person has another hash under another salt.
    """
    distinct = users.select(by, "salt_id", "user_hash").unique()
    per_salt = distinct.group_by(by, "salt_id").agg(
        n=pl.len(), last=pl.col("user_hash").bottom_k(KEPT).max().cast(pl.Float64)
    )
    share = (pl.col("last") + 2.0**63) / 2.0**64
    estimate = ((KEPT - 1) / share).round()
    counted = per_salt.with_columns(users=pl.when(pl.col("n") < KEPT).then("n").otherwise(estimate).cast(pl.Int64))
    return counted.group_by(by).agg(pl.col("users").max())

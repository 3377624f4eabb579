"""Distinct issuers of a query from per-day sets of the smallest user hashes: exact below 1,024, an estimate above."""

import polars as pl

SMALLEST = 1024
"""Hashes kept per query, event day and arrival day (formats.md, "k-anonymity")."""

_ERROR = 0.0313  # standard error of the estimate, relative: 1 / sqrt(1024 - 2)
_SURE = 4.0  # standard errors that an estimate must stand above a threshold: wrong once in 30,000


def distinct_users(users: pl.DataFrame) -> pl.DataFrame:
    """(query_key, users, users_exact, users_least) of a frame with query_key, salt_id, user_hash, rows in any order.

    A window that spans a rotation of the salt counts each salt apart and takes the largest count, never the sum.
    `users_least` is what a threshold may rely on: the count where exact, four standard errors below the estimate else.
    """
    sets = users.group_by("query_key", "salt_id").agg(pl.col("user_hash").n_unique().alias("n"))
    small = sets.filter(pl.col("n") < SMALLEST).select(
        "query_key", pl.col("n").cast(pl.Int64).alias("users"), users_exact=True
    )
    big = sets.filter(pl.col("n") >= SMALLEST).select("query_key", "salt_id")
    found = pl.concat([small, _estimated(users.join(big, on=["query_key", "salt_id"], how="semi"))])
    found = found.sort("users", descending=True).unique("query_key", keep="first")
    return found.with_columns(_least().alias("users_least"))


def _estimated(users: pl.DataFrame) -> pl.DataFrame:
    """K minimum values (Bar-Yossef et al. 2002): (k - 1) / the k-th smallest hash as a share of the hash range."""
    place = pl.col("user_hash").unique().sort().get(SMALLEST - 1)
    share = (place.cast(pl.Float64) + 2.0**63) / 2.0**64
    found = users.group_by("query_key", "salt_id").agg(((SMALLEST - 1) / share).round().cast(pl.Int64).alias("users"))
    return found.select(
        "query_key", pl.max_horizontal("users", pl.lit(SMALLEST)).cast(pl.Int64).alias("users"), users_exact=False
    )


def _least() -> pl.Expr:
    sure = (pl.col("users") * (1 - _SURE * _ERROR)).floor().cast(pl.Int64)
    return pl.when("users_exact").then(pl.col("users")).otherwise(pl.max_horizontal(sure, pl.lit(SMALLEST)))

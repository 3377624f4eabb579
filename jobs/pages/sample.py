"""Which queries get pages: a stable sample, so that a query of tonight's sample stands in tomorrow's too."""

import numpy as np
import polars as pl

from jobs.core.sampling import unit_hashes

_SALT_SAMPLE = 0  # streams 1 and 2 draw degraded pages (compose.py)


def popularity_band(users: str = "users") -> pl.Expr:
    """Band of a query by its users, in powers of two: fixed edges, so that queries seldom change bands."""
    return pl.col(users).cast(pl.Float64).log(2).floor().cast(pl.Int32)


def sample_queries(queries: pl.DataFrame, *, size: int, strata: tuple[str, ...] = ()) -> pl.DataFrame:
    """At most `size` queries: those with the smallest hash, from each stratum alike where strata are declared.

    queries: query_key, locale, users. strata: of "locale" and "popularity". A stratum with fewer queries than its share
    gives all of them, and what it lacks is shared by the others.
    """
    keyed = queries.with_columns(
        draw=pl.Series(unit_hashes(queries["query_key"].to_numpy(), salt=_SALT_SAMPLE)), popularity=popularity_band()
    ).sort("draw", "query_key")
    if not strata:
        return keyed.head(size).drop("draw", "popularity")
    sizes = keyed.group_by(strata, maintain_order=True).len().sort(strata)
    quota = sizes.with_columns(quota=pl.Series(even_shares(sizes["len"].to_list(), size)))
    ranked = keyed.join(quota, on=strata, how="left", maintain_order="left")
    place = pl.int_range(pl.len()).over(strata)
    return ranked.filter(place < pl.col("quota")).drop("draw", "popularity", "len", "quota")


def even_shares(sizes: list[int], total: int) -> list[int]:
    """How many to take of each group so that shares are as even as the groups allow; sums to min(total, sum(sizes))."""
    left, shares = min(total, sum(sizes)), [0] * len(sizes)
    order = np.argsort(sizes, kind="stable")
    for done, index in enumerate(order):
        shares[index] = min(sizes[index], left // (len(sizes) - done))
        left -= shares[index]
    return shares

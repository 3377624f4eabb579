"""The peers of the night: the full-window re-scan that an engineer would write in DuckDB or in Polars.

    python -m benchmarks.night_peers duckdb|polars INPUT.json OUT.parquet

They scan the canonical impressions of the whole window and write the same table: counts, exposure under the curve
1/rank, approximate users and relevance of every (locale, query, item) of queries with enough users. INPUT.json names
the files, the window's cut, and the columns of the item and the user.
"""

import json
import sys
import time
from pathlib import Path

MIN_USERS = 20


def duckdb_scan(given: dict, out: str) -> None:
    """One SQL statement over all files."""
    import duckdb

    item, user, files = given["item"], given["user"], given["files"]
    source = f"(select * from read_parquet({files}, hive_partitioning = true) where {_guard(given)})"
    con = duckdb.connect()
    con.execute("set threads=2; set TimeZone='UTC'")
    con.execute(f"""copy (
      select e.*, u.users, clicks / impressions as ctr, clicks / examined as relevance from (
        select locale, query, {item} as item_id, sum(clicked::int) as clicks, count(*) as impressions,
          sum(1.0 / rank) as examined, sum(1.0 / (rank * rank)) as examined_squared, max(event_day) as last_shown_day
        from {source} group by all) e
      join (select locale, query, approx_count_distinct({user}) as users from {source} group by all
        having users >= {MIN_USERS}) u using (locale, query)
    ) to '{out}' (format parquet, compression zstd)""")


def _guard(given: dict) -> str:
    """The product's filters; input without those columns has none."""
    if not given["cut"]:
        return "true"
    return f"excluded is null and event_day < date '{given['cut']}' and arrived_at < timestamptz '{given['cut']}'"


def polars_scan(given: dict, out: str) -> None:
    """One lazy frame over all files."""
    import polars as pl

    log = pl.scan_parquet(given["files"], hive_partitioning=True, extra_columns="ignore", missing_columns="insert")
    if given["cut"]:
        cut = pl.lit(given["cut"]).str.to_date()
        late = pl.col("arrived_at").dt.date() >= cut
        log = log.filter(pl.col("excluded").is_null(), pl.col("event_day") < cut, ~late)
    rank = pl.col("rank").cast(pl.Float64)
    pairs = log.group_by("locale", "query", pl.col(given["item"]).alias("item_id")).agg(
        clicks=pl.col("clicked").sum(), impressions=pl.len(), examined=(1.0 / rank).sum(),
        examined_squared=(1.0 / (rank * rank)).sum(), last_shown_day=pl.col("event_day").max(),
    )  # fmt: skip
    users = log.group_by("locale", "query").agg(pl.col(given["user"]).approx_n_unique().alias("users"))
    rows = pairs.join(users.filter(pl.col("users") >= MIN_USERS), on=["locale", "query"])
    clicks = pl.col("clicks")
    rows = rows.with_columns(ctr=clicks / pl.col("impressions"), relevance=clicks / pl.col("examined"))
    rows.sink_parquet(out, compression="zstd")


PEERS = {"duckdb": duckdb_scan, "polars": polars_scan}


def main(name: str, given: str, out: str) -> None:
    """Run one peer; prints its seconds and version."""
    from importlib import metadata

    begun = time.perf_counter()
    PEERS[name](json.loads(Path(given).read_text(encoding="utf-8")), out)
    print(json.dumps({"version": metadata.version(name), "seconds": round(time.perf_counter() - begun, 2)}))


if __name__ == "__main__":
    main(*sys.argv[1:4])

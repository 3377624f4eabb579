"""The peers of the night: the full-window re-scan that an engineer would write in DuckDB or in Polars.

    python -m benchmarks.night_peers duckdb|polars INPUT.json OUT.parquet

They scan the impressions of the whole window and write the same table: counts, exposure under the curve 1/rank,
approximate users and relevance of every (locale, query, item) of queries with enough users. INPUT.json names the files
(`log`: a log in day folders as it arrived; `store`: Hindcast's own table, whose files are sorted by query; `plain`: the
columns of the shared peers, which have no times) and the window's cut.
"""

import json
import sys
import time
from pathlib import Path

MIN_USERS = 20
ARRIVED = "arrived_at < timestamptz '{cut}'"
FORMS = {
    "log": {"item": "item_id", "user": "user_id", "day": "shown_at::date",
            "guard": f"shown_at < timestamptz '{{cut}}' and {ARRIVED}"},
    "store": {"item": "item_id", "user": "user_key", "day": "event_day",
              "guard": f"excluded is null and event_day < date '{{cut}}' and {ARRIVED}"},
    "plain": {"item": "item", "user": "user_id", "day": "null::date", "guard": "true"},
}  # fmt: skip
"""Columns and filters of each form of input."""


def duckdb_scan(given: dict, out: str) -> None:
    """One SQL statement over all files."""
    import duckdb

    form, files = FORMS[given["form"]], given["files"]
    source = f"(select *, {form['day']} as day from read_parquet({files}, hive_partitioning = true)"
    source += f" where {form['guard'].format(cut=given['cut'])})"
    con = duckdb.connect()
    con.execute("set threads=2; set TimeZone='UTC'")
    con.execute(f"""copy (
      select e.*, u.users, clicks / impressions as ctr, clicks / examined as relevance from (
        select locale, query, {form["item"]} as item_id, sum(clicked::int) as clicks, count(*) as impressions,
          sum(1.0 / rank) as examined, sum(1.0 / (rank * rank)) as examined_squared, max(day) as last_shown_day
        from {source} group by all) e
      join (select locale, query, approx_count_distinct({form["user"]}) as users from {source} group by all
        having users >= {MIN_USERS}) u using (locale, query)
    ) to '{out}' (format parquet, compression zstd)""")


def polars_scan(given: dict, out: str) -> None:
    """One lazy frame over all files."""
    import polars as pl

    log = pl.scan_parquet(given["files"], hive_partitioning=True, extra_columns="ignore", missing_columns="insert")
    day = pl.col("event_day") if given["form"] == "store" else pl.lit(None, pl.Date)
    if given["form"] != "plain":
        cut = pl.lit(given["cut"]).str.to_date()
        day = day if given["form"] == "store" else pl.col("shown_at").dt.date()
        log = log.filter(day < cut, pl.col("arrived_at").dt.date() < cut)
    if given["form"] == "store":
        log = log.filter(pl.col("excluded").is_null())
    form = FORMS[given["form"]]
    rank = pl.col("rank").cast(pl.Float64)
    pairs = log.group_by("locale", "query", pl.col(form["item"]).alias("item_id")).agg(
        clicks=pl.col("clicked").sum(), impressions=pl.len(), examined=(1.0 / rank).sum(),
        examined_squared=(1.0 / (rank * rank)).sum(), last_shown_day=day.max(),
    )  # fmt: skip
    users = log.group_by("locale", "query").agg(pl.col(form["user"]).approx_n_unique().alias("users"))
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

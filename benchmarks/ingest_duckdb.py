"""The peer of `benchmarks.ingest`: one engineer's ingestion of the same Parquet files in DuckDB, with the same filters.

Usage: python -m benchmarks.ingest_duckdb 'GLOB' OUT_DIR. Masks e-mail addresses with a regular expression where
Hindcast also looks for cards and phones, and writes exact sets of users; it keeps no quarantine of lines and no keys.
"""

import sys
import time
from pathlib import Path

import duckdb

_FITS = """search_id is not null and item_id is not null and rank between 1 and 1000 and query is not null
    and shown_at <= arrived_at"""
_NORMAL = r"lower(trim(regexp_replace(nfc_normalize(query), '\s+', ' ', 'g')))"
_WRITE = "(format parquet, compression zstd, partition_by (event_day), overwrite_or_ignore)"


def main(source: str, out: Path) -> float:
    """Ingest and return the seconds that it took."""
    out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    con = duckdb.connect()
    con.execute("set threads=2; set preserve_insertion_order=false; set TimeZone='UTC'")
    con.execute(f"""create temp table accepted as
        select search_id, corpus, locale, item_id, rank, ranker, randomised, clicked, shown_at, arrived_at,
          regexp_replace({_NORMAL}, '[^ @]+@[^ @]+\\.[a-z]+', '<email>', 'g') as query,
          hash(user_id || 'salt') as user_key, shown_at::date as event_day, arrived_at::date as arrival_day
        from '{source}' where {_FITS}
        qualify row_number() over (partition by corpus, search_id, item_id, rank order by arrived_at) = 1""")
    con.execute(f"copy (select * from '{source}' where not ({_FITS})) to '{out}/rejected.parquet' (format parquet)")
    con.execute(f"copy accepted to '{out}/impressions' {_WRITE}")
    con.execute(f"""copy (select event_day, corpus, locale, query, item_id, rank, ranker, randomised, arrival_day,
        count(*) as impressions, sum(clicked::int) as clicks
        from accepted group by all) to '{out}/daily_counts' {_WRITE}""")
    con.execute(f"""copy (select event_day, corpus, locale, query, arrival_day, list(distinct user_key) as users
        from accepted group by all) to '{out}/daily_users' {_WRITE}""")
    return time.perf_counter() - begun


if __name__ == "__main__":
    print(f"{main(sys.argv[1], Path(sys.argv[2])):.2f}")

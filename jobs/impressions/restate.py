"""The third stage as a task: whole event days of a corpus, merged with what the tables hold, to files ready for a
commit."""

from datetime import date
from typing import Any

import polars as pl

from jobs.core.keys import item_key
from jobs.core.tables import DataFile, StagedFile, read_files, scan_uris, stage
from jobs.impressions.answers import answering
from jobs.impressions.canonical import ROWS, merge_rows
from jobs.impressions.checks import hashed
from jobs.impressions.days import Limits, bots_of, daily_counts, daily_users, exclude_bots, range_cuts
from jobs.impressions.frames import scan_frames, write_frame
from schemas.logs import DAILY_COUNTS, DAILY_USERS, IMPRESSIONS, ITEM_KEYS, QUERIES

_ORDER = ["query_key", "search_id", "rank", "item_id"]
"""Order of impressions in their files: equal contents are equal files, and queries sit together for compression."""


@answering
def day_task(spec: dict) -> dict:
    """Restate some event days of one corpus. Returns staged files by table, replaced partitions and figures by day."""
    out: dict[str, Any] = {"impressions": [], "daily_counts": [], "daily_users": [], "days": [], "seen": []}
    fresh = {name: _fresh(source, spec) for name, source in spec["sources"].items()}
    for day in spec["days"]:
        _one_day(date.fromisoformat(day), fresh, spec, out)
    return out


def _fresh(source: dict, spec: dict) -> dict[str, pl.DataFrame]:
    """New canonical rows of a source by event day."""
    scan = scan_frames(source["rows"], schema=_row_schema()).filter(
        pl.col("event_day").is_in([date.fromisoformat(d) for d in spec["days"]])
    )
    frame = _in_range(scan, spec).collect()
    parts = frame.partition_by("event_day", as_dict=True, include_key=False)
    return {day.isoformat(): part for (day,), part in parts.items()}


def _nothing() -> pl.DataFrame:
    return pl.DataFrame(schema=IMPRESSIONS.polars())


def _in_range(scan: pl.LazyFrame, spec: dict) -> pl.LazyFrame:
    return scan.filter(pl.col("query_key").is_between(*spec["range"])) if spec["range"] else scan


def _row_schema() -> dict:
    kinds = IMPRESSIONS.polars()
    return {n: kinds[n] for n in (*ROWS, "event_day")}


def _one_day(day: date, fresh: dict[str, dict[str, pl.DataFrame]], spec: dict, out: dict[str, Any]) -> None:
    text, corpus = day.isoformat(), spec["corpus"]
    held = [DataFile(**f) for f in spec["existing"].get(text, [])]
    sources = sorted({f.partition["source"] for f in held} | {s for s, days in fresh.items() if text in days})
    whole, changed = [], bool(spec["range"])
    for name in sources:
        files = [f for f in held if f.partition["source"] == name]
        old = pl.concat([_in_range(read_files(IMPRESSIONS, [f]).lazy(), spec).collect() for f in files] or [_nothing()])
        known = old.filter(~pl.col("user_key").is_in(spec["forgotten"]).fill_null(value=False))
        source = spec["sources"].get(name)
        if source is None:
            whole.append(known)
            continue
        new = _merged(known, fresh[name].get(text), source, day=day, corpus=corpus, name=name)
        limits = Limits(**source["limits"])
        new = exclude_bots(new, limits=limits, bots=_bots(source, name, day, spec, limits) if spec["range"] else None)
        new = new.select(IMPRESSIONS.names).sort(_ORDER)
        differs = spec["range"] or not new.equals(old.sort(_ORDER))
        if differs:
            changed = True
            partition = {"event_day": text, "corpus": corpus, "source": name}
            staged = [stage(spec["tables"]["impressions"], IMPRESSIONS, new, partition=partition)] if new.height else []
            out["impressions"].append({"partition": partition, "files": [f.as_dict() for f in staged]})
        whole.append(new)
    rows = pl.concat(whole) if whole else _nothing()
    out["days"].append(_figures(rows, text, changed=changed))
    if changed:
        _daily(rows, text, spec, out)


def _merged(
    old: pl.DataFrame, new: pl.DataFrame | None, source: dict, *, day: date, corpus: str, name: str
) -> pl.DataFrame:
    """What the day holds of a source after this ingestion: searches made anew replace their rows, others are joined."""
    kept = old.select(ROWS)
    if source["replace"] and kept.height:
        touched = scan_frames(source["touched"], schema={"search_id": pl.String}).collect()
        kept = kept.join(touched, on="search_id", how="anti")
    if new is not None and new.height:
        kept = _joined(kept, new.select(ROWS))
    return kept.with_columns(
        pl.lit(day).alias("event_day"), pl.lit(corpus).alias("corpus"), pl.lit(name).alias("source")
    )


def _joined(kept: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    key = ["search_id", "item_id", "rank"]
    both = kept.join(new, on=key, how="semi").select(key) if kept.height else kept
    if not both.height:
        return pl.concat([kept, new])
    pairs = pl.concat([kept, new]).join(both, on=key, how="semi").sort("arrived_at", "shown_at", maintain_order=True)
    apart = [f.join(both, on=key, how="anti") for f in (kept, new)]
    return pl.concat([*apart, merge_rows(pairs)])


def _bots(source: dict, name: str, day: date, spec: dict, limits: Limits) -> pl.DataFrame:
    """The bots of the whole day of a source, of which this task holds a part: as if it held all of it."""
    columns = ["session_key", "user_key", "search_id", "shown_at", "arrived_at"]
    place = pl.struct("search_id", "item_id", "rank").hash().alias("place")
    fresh = scan_frames(source["rows"], schema=_row_schema()).filter(pl.col("event_day") == day)
    fresh = fresh.select(*columns, place)
    held = [f for f in spec["existing"].get(day.isoformat(), []) if f["partition"]["source"] == name]
    if held:
        old = scan_uris([f["uri"] for f in held])
        old = old.filter(~pl.col("user_key").is_in(spec["forgotten"]).fill_null(value=False)).select(*columns, place)
        if source["replace"]:
            touched = scan_frames(source["touched"], schema={"search_id": pl.String})
            old = old.join(touched, on="search_id", how="anti")
        both = pl.concat([old, fresh]).sort("arrived_at", "shown_at", maintain_order=True)
        fresh = both.unique("place", keep="first", maintain_order=True)
    return bots_of(fresh.select(columns).collect(engine="streaming"), limits=limits)


def _daily(rows: pl.DataFrame, day: str, spec: dict, out: dict[str, Any]) -> None:
    partition = {"event_day": day, "corpus": spec["corpus"]}
    counts, users = daily_counts(rows), daily_users(rows)
    for name, table, frame in (("daily_counts", DAILY_COUNTS, counts), ("daily_users", DAILY_USERS, users)):
        files: list[StagedFile] = []
        if frame.height:
            cuts = range_cuts(frame["query_key"])
            files = [stage(spec["tables"][name], table, frame, partition=partition, cuts=cuts)]
        out[name].append({"partition": partition, "files": [f.as_dict() for f in files]})
    out["seen"].append(_texts(rows, f"{spec['out']}-{day}"))


def _texts(rows: pl.DataFrame, out: str) -> dict:
    """Staged texts behind the keys of a day, each once, with the day."""
    day = pl.col("event_day").alias("first_day")
    queries = rows.select("corpus", "locale", "query_key", "query", day).unique("query_key")  # a key implies its locale
    items = rows.select("corpus", "item_id", day).unique("item_id")
    corpus = items["corpus"][0] if items.height else ""
    items = hashed(items, "item_id", "item_key", lambda item: item_key(corpus, item))
    return {
        "queries": write_frame(queries.select(QUERIES.names), f"{out}-queries.parquet"),
        "item_keys": write_frame(items.select(ITEM_KEYS.names), f"{out}-items.parquet"),
    }


def _figures(rows: pl.DataFrame, day: str, *, changed: bool) -> dict:
    kept = rows.filter(pl.col("excluded").is_null())
    return {"day": day, "changed": changed, "impressions": rows.height, "clicks": int(rows["clicked"].sum()),
            "excluded": rows.height - kept.height}  # fmt: skip

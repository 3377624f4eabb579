"""Refused rows: kept with source, place, reason and masked content, dropped when resolved or expired."""

from dataclasses import dataclass, field
from datetime import date, timedelta

import polars as pl

from jobs.core.keys import key_of
from jobs.core.tables import Store
from jobs.impressions import reasons
from jobs.impressions.checks import hashed
from jobs.impressions.documents import REFUSED
from jobs.impressions.frames import scan_frames
from schemas.logs import REJECTED

TABLE = "rejected_impressions"

_FATE = {"file": pl.Int64, "line": pl.Int64, "reason": pl.String}


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """Refused rows of one source in staged frames; `paths` names its files by key, `fate` tells what became of
    documents of earlier ingestions (file, line, reason or null), `replayed` the files of which only these lines were
    read again."""

    source: str
    corpus: str
    paths: dict[int, str]
    frames: list[str]
    fate: list[str] = field(default_factory=list)
    replayed: dict[str, str] = field(default_factory=dict)


def write(store: Store, refusals: list[Refusals], *, run_id: str, run_day: date) -> int:
    """Put refused rows into the partition of `run_day`, in place of earlier ones of the same files in any partition.

    Earlier rows that a later document resolved go, those that are refused for another reason now say so. Returns how
    many were resolved. One partition is held at a time; one that does not change is not written.
    """
    days = _days(store)
    fresh, resolved = [pl.DataFrame(schema=REJECTED.polars())], 0
    for refusal in refusals:
        again = [_read_again(_places(store, day), refusal) for day in days] if refusal.replayed else []
        fresh.append(_rows(refusal, run_id=run_id, run_day=run_day, before=pl.concat(again) if again else None))
    new = pl.concat(fresh)
    for day in sorted({*days, *new["run_day"].unique()}):
        resolved += _rewrite(store, day, refusals, new.filter(pl.col("run_day") == day))
    return resolved


def _days(store: Store) -> list[date]:
    return sorted({date.fromisoformat(f.partition["run_day"]) for f in store.files(TABLE)})


def _places(store: Store, day: date) -> pl.DataFrame:
    """Everything about a partition's rows but their content."""
    return store.read(TABLE, where={"run_day": day}, columns=[n for n in REJECTED.names if n not in ("raw", "detail")])


def _rewrite(store: Store, day: date, refusals: list[Refusals], new: pl.DataFrame) -> int:
    places = _places(store, day)
    known = pl.col("source").is_in([r.source for r in refusals])
    if not new.height and not places.filter(known).height:
        return 0
    held = store.read(TABLE, where={"run_day": day})
    kept = held
    for refusal in refusals:
        kept = kept.join(_read_again(held, refusal), on=REJECTED.key, how="anti")
    before = kept.height
    for refusal in refusals:
        kept = _after_fate(kept, refusal)
    _replace(store, day, held, pl.concat([kept, new]))
    return before - kept.height


def _read_again(held: pl.DataFrame, refusals: Refusals) -> pl.DataFrame:
    """Refused rows of the files (or of the replayed lines) that this ingestion read."""
    mine = held.filter((pl.col("source") == refusals.source) & pl.col("path").is_in(list(refusals.paths.values())))
    if not refusals.replayed:
        return mine
    schema = {"line": pl.Int64}
    lines = [
        scan_frames([uri], schema=schema).with_columns(pl.lit(path).alias("path"))
        for path, uri in refusals.replayed.items()
    ]
    return mine.join(pl.concat(lines).collect(), on=["path", "line"], how="semi")


def expire(store: Store, *, before: date) -> int:
    """Delete refused rows of ingestions before that day; returns how many."""
    files = [f for f in store.files(TABLE) if f.partition["run_day"] < before.isoformat()]
    if files:
        store.commit_files(TABLE, [], replaced=[dict(t) for t in {tuple(f.partition.items()) for f in files}])
    return sum(f.rows for f in files)


def drop(store: Store, *, where: pl.Expr) -> int:
    """Delete the refused rows that fit; returns how many."""
    gone = 0
    for day in _days(store):
        held = store.read(TABLE, where={"run_day": day})
        kept = held.filter(~where)
        _replace(store, day, held, kept)
        gone += held.height - kept.height
    return gone


def expiry(day: date, *, rejected_days: int) -> date:
    """First day whose refused rows are kept on `day`."""
    return day - timedelta(days=rejected_days)


def _rows(refusals: Refusals, *, run_id: str, run_day: date, before: pl.DataFrame | None) -> pl.DataFrame:
    """Refused rows as the table holds them; replayed ones keep the day (and so the expiry) of their first refusal."""
    frame = scan_frames(refusals.frames, schema=REFUSED).collect()
    path = pl.col("file").replace_strict(refusals.paths, return_dtype=pl.String) if frame.height else pl.lit("")
    columns = {
        "run_day": pl.lit(run_day),
        "run_id": pl.lit(run_id),
        "source": pl.lit(refusals.source),
        "path": path,
        "corpus": pl.lit(refusals.corpus),
    }
    rows = frame.with_columns(**columns).select([pl.col(n).cast(t) for n, t in REJECTED.polars().items()])
    if before is None:
        return rows
    kept = {"run_day": "day", "run_id": "run", "byte_offset": "place"}
    first = before.select("path", "line", *kept).rename(kept).unique(["path", "line"])
    dated = rows.join(first, on=["path", "line"], how="left")
    return dated.with_columns(pl.coalesce(old, new).alias(new) for new, old in kept.items()).select(REJECTED.names)


def _after_fate(kept: pl.DataFrame, refusals: Refusals) -> pl.DataFrame:
    """Earlier refused rows without those that were accepted after all, and with the reasons that hold now."""
    if not refusals.fate or not kept.height:
        return kept
    fate = scan_frames(refusals.fate, schema=_FATE).unique(["file", "line"]).collect()
    told = fate.with_columns(pl.lit(refusals.source).alias("source"), pl.lit(True).alias("met"))
    told = told.rename({"reason": "now"})
    keyed = hashed(kept, "path", "file", key_of).join(told, on=["source", "file", "line"], how="left")
    left = keyed.filter(pl.col("met").is_null() | pl.col("now").is_not_null())
    meaning = pl.col("now").replace_strict(reasons.MEANING, default=None, return_dtype=pl.String)
    other = pl.col("now").is_not_null() & (pl.col("now") != pl.col("reason"))
    changed = left.with_columns(
        pl.when(other).then("now").otherwise("reason").alias("reason"),
        pl.when(other).then(meaning).otherwise("detail").alias("detail"),
    )
    return changed.select(REJECTED.names)


def _replace(store: Store, day: date, before: pl.DataFrame, after: pl.DataFrame) -> None:
    order = ["source", "path", "line", "run_id"]
    if not before.sort(order).equals(after.sort(order)):
        store.replace(TABLE, after.sort(order), where={"run_day": day})

"""A night's figures beside those of the weeks before: volume, clicks, clicks by rank, locales, actions, bots. Pure."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

import polars as pl

LOOK_BACK_DAYS = 28
"""Four weeks: every weekday stands in the baseline equally often."""

MIN_BASELINE_DAYS = 3
"""Under so many earlier days there is no baseline: ratios are null and their checks pass."""

_TOP_RANKS = 5
_MIN_RANK_CLICKS = 30
"""Fewer expected clicks at a rank say nothing about its click rate (one sigma is 18%)."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A check on one column of the night's figures: allowed range, what a breach does, and why the range is as it
    is."""

    column: str
    level: Literal["fail", "warn"]
    reason: str
    low: float | None = None
    high: float | None = None


BOUNDS = (
    Bound(
        column="impressions", level="warn", low=1, reason="a day without rows deletes nothing, but somebody should look"
    ),
    Bound(
        column="clicks_missing",
        level="fail",
        high=0,
        reason="thousands of impressions and not one click: the action name of clicks is wrong, or none are logged",
    ),
    Bound(column="volume_ratio", level="warn", low=0.5, high=2.0, reason="weekdays differ by up to a third"),
    Bound(column="volume_ratio", level="fail", low=0.05, reason="a twentieth of a usual day is a broken export"),
    Bound(
        column="click_rate_ratio",
        level="warn",
        low=0.7,
        high=1.4,
        reason="rates of large logs move by a few percent a week",
    ),
    Bound(
        column="click_rate_ratio",
        level="fail",
        low=0.1,
        high=5.0,
        reason="no change of a ranker does that, a broken log does",
    ),
    Bound(column="rank_shift", level="warn", high=0.5, reason="log ratio of the click rate at one of the first ranks"),
    Bound(column="locale_shift", level="warn", high=0.2, reason="share of impressions that moved between locales"),
    Bound(
        column="unknown_action_shift", level="warn", high=0.1, reason="a new or renamed action makes rows irrelevant"
    ),
    Bound(
        column="excluded_share",
        level="warn",
        high=0.3,
        reason="a third of the traffic from bots needs a look at the limits",
    ),
)


def night_figures(
    counts: pl.DataFrame, *, corpora: list[str], day: date, ignored: dict[str, float], ignored_before: dict[str, float],
    excluded: dict[str, float],
) -> pl.DataFrame:  # fmt: skip
    """One row per corpus: columns named in BOUNDS, as floats, null where there is nothing to compare with.

    `counts` are daily_counts rows (corpus, event_day, locale, rank, impressions, clicks) of the day and the weeks
    before,
    `ignored` the share of documents with undeclared actions by corpus, `ignored_before` the usual share.
    """
    rows = [_corpus_row(counts.filter(pl.col("corpus") == c), c, day) for c in corpora]
    for row in rows:
        name = row["corpus"]
        before = ignored_before.get(name)
        row["unknown_action_shift"] = None if before is None else max(0.0, ignored.get(name, 0.0) - before)
        row["excluded_share"] = excluded.get(name, 0.0)
    kinds = {"corpus": pl.String, **{b.column: pl.Float64 for b in BOUNDS}}
    return pl.DataFrame(rows, schema=kinds)


def _corpus_row(counts: pl.DataFrame, corpus: str, day: date) -> dict:
    today = counts.filter(pl.col("event_day") == day)
    start = day - timedelta(days=LOOK_BACK_DAYS)
    before = counts.filter((pl.col("event_day") < day) & (pl.col("event_day") >= start))
    days = before["event_day"].n_unique()
    shown, clicked = int(today["impressions"].sum()), int(today["clicks"].sum())
    row: dict = {"corpus": corpus, "impressions": float(shown), "clicks_missing": float(shown >= 1000 and clicked == 0)}
    if days < MIN_BASELINE_DAYS or not before["impressions"].sum():
        return row | dict.fromkeys(("volume_ratio", "click_rate_ratio", "rank_shift", "locale_shift"))
    usual = before["clicks"].sum() / before["impressions"].sum()
    row["volume_ratio"] = shown / (before["impressions"].sum() / days)
    row["click_rate_ratio"] = clicked / shown / usual if shown and usual else None
    row["rank_shift"] = _rank_shift(today, before)
    row["locale_shift"] = _locale_shift(today, before)
    return row


def _rank_shift(today: pl.DataFrame, before: pl.DataFrame) -> float | None:
    """Largest absolute log ratio of the click rate at one of the first ranks; null where clicks are few."""
    sums = [
        f.filter(pl.col("rank") <= _TOP_RANKS).group_by("rank").agg(pl.col("impressions", "clicks").sum())
        for f in (today, before)
    ]
    both = (
        sums[0]
        .join(sums[1], on="rank", suffix="_before")
        .with_columns(
            (pl.col("clicks_before") / pl.col("impressions_before") * pl.col("impressions")).alias("expected")
        )
    )
    clear = both.filter(pl.col("expected") >= _MIN_RANK_CLICKS)
    shifts = clear.select((((pl.col("clicks") + 0.5) / (pl.col("expected") + 0.5)).log()).abs().alias("shift"))
    return shifts["shift"].max() if shifts.height else None


def _locale_shift(today: pl.DataFrame, before: pl.DataFrame) -> float | None:
    """Total variation distance of the shares of locales."""
    shares = []
    for frame in (today, before):
        total = frame["impressions"].sum()
        if not total:
            return None
        shares.append(frame.group_by("locale").agg((pl.col("impressions").sum() / total).alias("share")))
    both = shares[0].join(shares[1], on="locale", how="full", coalesce=True, suffix="_before").fill_null(0.0)
    return float(both.select((pl.col("share") - pl.col("share_before")).abs().sum() / 2).item())

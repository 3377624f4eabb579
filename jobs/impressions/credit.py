"""When an interaction's value was known: the strongest counts, each increase on the arrival day that brought it."""

import polars as pl

_LISTS = {"late_interaction_days": pl.List(pl.Int64), "late_interaction": pl.List(pl.Int64)}


def credited(points: pl.DataFrame, *, by: list[str]) -> pl.DataFrame:
    """Strongest interaction of each key, and what days after the impression's arrival added to it.

    `points` (by, day, value, first) are values with the day on which they arrived, and the day on which the impression
    did: what comes before is known with it. Returns by, interaction, late_interaction_days and late_interaction (null
    where nothing came late). A value that is no stronger than what was known adds nothing.
    """
    dated = points.with_columns(pl.max_horizontal("day", "first").alias("day"))
    if not dated.filter(pl.col("day") > pl.col("first")).height:
        sums = dated.group_by(by).agg(pl.col("value").max().alias("interaction"))
        return sums.with_columns(pl.lit(None, kind).alias(name) for name, kind in _LISTS.items())
    steps = dated.group_by(*by, "first", "day").agg(pl.col("value").max()).sort(*by, "day")
    steps = steps.with_columns(pl.col("value").cum_max().over(by).alias("top"))
    steps = steps.with_columns((pl.col("top") - pl.col("top").shift(1).over(by).fill_null(0)).alias("gain"))
    late = (pl.col("gain") > 0) & (pl.col("day") > pl.col("first"))
    sums = steps.group_by(by).agg(
        pl.col("value").max().alias("interaction"),
        (pl.col("day") - pl.col("first")).dt.total_days().filter(late).alias("late_interaction_days"),
        pl.col("gain").filter(late).alias("late_interaction"),
    )
    return sums.with_columns(pl.when(pl.col(name).list.len() > 0).then(name).alias(name) for name in _LISTS)


def interaction_points(rows: pl.DataFrame, *, by: list[str]) -> pl.DataFrame:
    """Canonical rows as the points that `credited` takes: what came with the impression, and each later total."""
    day = pl.col("arrived_at").dt.date()
    with_it = pl.col("interaction") - pl.col("late_interaction").list.sum().fill_null(0)
    base = rows.select(*by, day.alias("day"), with_it.alias("value"))
    late = rows.filter(pl.col("late_interaction").is_not_null())
    if not late.height:
        return base
    totals = late.select(*by, day.alias("start"), with_it.alias("base"), *_LISTS).with_row_index("row").explode(*_LISTS)
    later = totals.select(
        *by,
        (pl.col("start") + pl.duration(days="late_interaction_days")).alias("day"),
        (pl.col("base") + pl.col("late_interaction").cum_sum().over("row")).alias("value"),
    )
    return pl.concat([base, later])


def late_with_click() -> list[pl.Expr]:
    """The late lists of a row that says all: its interaction was known with its click, where that came later."""
    after = (pl.col("click_arrived_at").dt.date() - pl.col("arrived_at").dt.date()).dt.total_days()
    late = pl.col("clicked") & (after > 0) & (pl.col("interaction") > 0)
    values = {"late_interaction_days": after, "late_interaction": pl.col("interaction")}
    return [pl.when(late).then(pl.concat_list(v)).cast(_LISTS[n]).alias(n) for n, v in values.items()]

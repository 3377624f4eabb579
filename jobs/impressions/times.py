"""Times of logs to UTC: ISO 8601 with or without offset, epoch numbers of any unit, declared formats.

A time without offset is read in the declared zone or refused; never in the zone of the machine, never as null.
"""

import polars as pl

from jobs.impressions import reasons

_ISO = (
    r"^\s*(?P<day>\d{4}-\d{2}-\d{2})(?:[T ](?P<clock>\d{2}:\d{2})(?P<second>:\d{2})?(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<zone>[Zz]|UTC|[+-]\d{2}(?::?\d{2})?)?\s*$"
)
_USUAL = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$"
_NUMBER = r"^\s*\d{9,19}(\.\d+)?\s*$"
_EARLIEST, _LATEST = 631_152_000, 4_102_444_800  # 1990 and 2100: outside, a number is no epoch time of a search log
_UTC = pl.Datetime("us", "UTC")


def read_times(values: pl.Series, *, zone: str = "", form: str = "") -> tuple[pl.Series, pl.Series]:
    """Times as Datetime(us, UTC) and, where that failed, the reason code (null where it did not).

    `zone` is the declared IANA zone of times without offset ("" refuses them), `form` a declared strptime format.
    Numbers count seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by their size. In the hour
    that a zone repeats the first reading is taken; an hour that it skips is no time.
    """
    frame = values.alias("raw").to_frame()
    if values.null_count() == len(values):
        missing = pl.Series("reason", [reasons.MISSING_TIME], dtype=pl.String).new_from_index(0, len(values))
        return pl.Series("time", [None], dtype=_UTC).new_from_index(0, len(values)), missing
    if isinstance(values.dtype, pl.Datetime):
        read = _datetimes(values.dtype, zone)
    elif values.dtype == pl.Date:
        read = _local(pl.col("raw").cast(pl.Datetime("us")), zone)
    elif values.dtype.is_numeric():
        read = _epoch(pl.col("raw"))
    elif form:
        return _formatted(frame, zone=zone, form=form)
    else:
        return _texts(frame, zone=zone)
    return _judged(frame.with_columns(read.alias("time")), naive=_is_naive(values.dtype), zone=zone)


def _is_naive(dtype: pl.DataType) -> bool:
    return dtype == pl.Date or (isinstance(dtype, pl.Datetime) and dtype.time_zone is None)


def _datetimes(dtype: pl.Datetime, zone: str) -> pl.Expr:
    if dtype.time_zone is None:
        return _local(pl.col("raw").cast(pl.Datetime("us")), zone)
    return pl.col("raw").dt.convert_time_zone("UTC").cast(_UTC)


def _local(expression: pl.Expr, zone: str) -> pl.Expr:
    if not zone:
        return pl.lit(None, dtype=_UTC)
    located = expression.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return located.dt.convert_time_zone("UTC").cast(_UTC)


def _epoch(number: pl.Expr) -> pl.Expr:
    """Microseconds from a number of seconds (10 digits today), milliseconds (13), microseconds or nanoseconds."""
    size = number.cast(pl.Float64)
    whole = number.cast(pl.Int64, strict=False)
    micros = (
        pl.when(size < 1e11)
        .then((size * 1e6).round().cast(pl.Int64, strict=False))
        .when(size < 1e14)
        .then(whole * 1000)
        .when(size < 1e17)
        .then(whole)
        .otherwise(whole // 1000)
    )
    inside = micros.is_between(_EARLIEST * 1_000_000, _LATEST * 1_000_000)
    return pl.when(inside).then(micros).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _texts(frame: pl.DataFrame, *, zone: str) -> tuple[pl.Series, pl.Series]:
    """Texts in any form that is understood; those in the form that nearly all logs use are read without a search."""
    usual = frame.select(pl.col("raw").str.contains(_USUAL).fill_null(value=False)).to_series()
    if not usual.any():
        return _any_texts(frame, zone=zone)
    quick = pl.when(usual).then(pl.col("raw")).str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="us", strict=False)
    read = frame.select("raw", quick.dt.replace_time_zone("UTC").alias("time"))
    if usual.all():
        return _judged(read, naive=False, zone=zone)
    time, reason = _judged(read, naive=False, zone=zone)
    places = (~usual).arg_true()
    slow_time, slow_reason = _any_texts(frame[places], zone=zone)
    return time.scatter(places, slow_time), reason.scatter(places, slow_reason)


def _any_texts(frame: pl.DataFrame, *, zone: str) -> tuple[pl.Series, pl.Series]:
    raw = pl.col("raw")
    number = raw.str.contains(_NUMBER)
    parts = raw.str.extract_groups(_ISO)
    frame = frame.with_columns(parts.struct.unnest(), number.alias("number"))
    clock = pl.concat_str(
        pl.col("day"), pl.lit("T"), pl.col("clock").fill_null("00:00"), pl.col("second").fill_null(":00")
    )
    fraction = pl.col("fraction").fill_null("").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64, strict=False)
    naive = clock.str.to_datetime("%Y-%m-%dT%H:%M:%S", time_unit="us", strict=False) + pl.duration(
        microseconds=fraction
    )
    frame = frame.with_columns(naive.alias("naive"), _offset(pl.col("zone")).alias("offset"))
    shifted = (pl.col("naive") - pl.duration(minutes=pl.col("offset"))).dt.replace_time_zone("UTC")
    time = (
        pl.when(pl.col("number"))
        .then(_epoch(raw.str.strip_chars().cast(pl.Float64, strict=False)))
        .when(pl.col("zone").is_null())
        .then(_local(pl.col("naive"), zone))
        .otherwise(shifted)
    )
    unzoned = pl.col("naive").is_not_null() & pl.col("zone").is_null()
    return _judged(frame.with_columns(time.alias("time")), naive=unzoned, zone=zone)


def _offset(zone: pl.Expr) -> pl.Expr:
    """Minutes east of UTC of 'Z', 'UTC', '+0200', '-03:30' or '+02'."""
    digits = zone.str.replace_all(r"[:+-]", "")
    hours = digits.str.slice(0, 2).cast(pl.Int64, strict=False).fill_null(0)
    minutes = digits.str.slice(2, 2).cast(pl.Int64, strict=False).fill_null(0)
    sign = pl.when(zone.str.starts_with("-")).then(-1).otherwise(1)
    whole = sign * (hours * 60 + minutes)
    return pl.when((hours <= 18) & (minutes < 60)).then(whole)


def _formatted(frame: pl.DataFrame, *, zone: str, form: str) -> tuple[pl.Series, pl.Series]:
    raw = pl.col("raw").cast(pl.String).str.strip_chars()
    if "%z" in form or "%:z" in form or "%#z" in form:
        read = raw.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False)
        return _judged(frame.with_columns(read.alias("time")), naive=False, zone=zone)
    dated = form if any(p in form for p in ("%H", "%I", "%T", "%s", "%R")) else ""
    if dated:
        naive = raw.str.to_datetime(form, time_unit="us", strict=False)
    else:
        naive = raw.str.to_date(form, strict=False).cast(pl.Datetime("us"))
    frame = frame.with_columns(naive.alias("naive")).with_columns(_local(pl.col("naive"), zone).alias("time"))
    return _judged(frame, naive=pl.col("naive").is_not_null(), zone=zone)


def _judged(frame: pl.DataFrame, *, naive: pl.Expr | bool, zone: str) -> tuple[pl.Series, pl.Series]:
    unzoned = naive if isinstance(naive, pl.Expr) else pl.lit(value=naive)
    missing = pl.col("raw").is_null() | (pl.col("raw").cast(pl.String).str.strip_chars() == "")
    inside = pl.col("time").dt.epoch("s").is_between(_EARLIEST, _LATEST)
    reason = (
        pl.when(missing)
        .then(pl.lit(reasons.MISSING_TIME))
        .when(pl.col("time").is_null() & unzoned & pl.lit(not zone))
        .then(pl.lit(reasons.NO_TIME_ZONE))
        .when(pl.col("time").is_null() | ~inside)
        .then(pl.lit(reasons.BAD_TIME))
    )
    judged = frame.select("time", reason.alias("reason"))
    time = judged.select(pl.when(pl.col("reason").is_null()).then(pl.col("time")).alias("time")).to_series()
    return time, judged["reason"]

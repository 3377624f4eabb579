"""Rows as read to checked documents and refused rows: vectorised, one pass, the first reason that applies is kept."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl

from jobs.core.flags import FALSE, TRUE
from jobs.core.keys import key_of
from jobs.core.normalise import normalise_query
from jobs.impressions import reasons
from jobs.impressions.documents import DOCUMENT, MILLION, Kind
from jobs.impressions.layout import Layout
from jobs.impressions.privacy import Salt, mask_marks, mask_text
from jobs.impressions.times import read_times

MAX_RANK = 1000
"""Deepest place that is kept (schemas.logs): below it nothing is ever examined often enough to be estimated."""

SKEW = timedelta(minutes=5)
"""Clocks of browsers and log stores differ by this much; beyond it a row that arrives before it was shown is
refused."""

MOSTLY_DISTINCT = 0.7
"""Share of distinct texts in a column above which each is hashed where it stands."""

_WHOLE = r"^(-?\d+)\.0+$"
_TAG = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$"
_SHOWN = (int(Kind.ROW), int(Kind.QUERY))


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the checks need beside the rows: the layout, the salt, where rows stand in time.

    `arrival_day` is the day of a source's day folder (None without one), `latest` the last event time that is not yet
    the future for sources that carry no arrival time.
    """

    layout: Layout
    salt: Salt
    latest: datetime
    arrival_day: date | None = None

    @property
    def arrival_floor(self) -> datetime | None:
        """First moment of the arrival folder's day."""
        day = self.arrival_day
        return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)


def check(rows: pl.DataFrame, *, rules: Rules, file: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split rows as read into documents (documents.DOCUMENT) and refused rows (line, byte_offset, reason, detail)."""
    frame = _timed(_plain_ids(rows), rules)
    frame = _defaulted(frame, rules.layout)
    frame = _ranked(frame, rules.layout)
    frame = _valued(_scaled(frame, rules.layout))
    frame = _texts(frame, rules.layout)
    frame = frame.with_columns(_first_reason(rules).alias("reason"))
    refused = frame.filter(pl.col("reason").is_not_null())
    kept = frame.filter(pl.col("reason").is_null()) if refused.height else frame
    return _documents(kept, rules, file), _refused(refused, file)


def _plain_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """Ids without the fraction that numbers get in float columns: "12345.0" joins with "12345"."""
    whole = pl.element().str.replace(_WHOLE, "$1")
    found = []
    for name in ("search_id", "item_id", "user", "session", "event_id"):
        if rows[name].str.contains(".0", literal=True).any():
            found.append(pl.col(name).str.replace(_WHOLE, "$1"))
    if rows["hits"].explode().str.contains(".0", literal=True).any():
        found.append(pl.col("hits").list.eval(whole))
    return rows.with_columns(found) if found else rows


def _timed(rows: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """Add at, arrived_at, click_arrived_at in UTC and the reasons of times that cannot be read."""
    layout, forms = rules.layout, rules.layout.values
    zone = layout.time_zone
    if layout.day:
        zone = zone or "UTC"
        rows = rows.with_columns(pl.coalesce(pl.col("time").cast(pl.String), pl.lit(layout.day)).alias("time"))
    at, at_reason = read_times(rows["time"], zone=zone, form=forms.get("time", ""))
    frame = rows.with_columns(at.alias("at"), at_reason.alias("at_reason"))
    arrived, why = read_times(rows["arrived"], zone=zone, form=forms.get("arrived", ""))
    clicked, click_why = read_times(rows["click_arrived"], zone=zone, form=forms.get("arrived", ""))
    given = why.is_null() | (why != reasons.MISSING_TIME)
    floor = rules.arrival_floor
    known = pl.when(given).then(arrived).otherwise(pl.col("at"))
    if floor is not None:  # what a night reads in a folder of that day cannot have been known before it
        known = pl.max_horizontal(known, pl.lit(floor).dt.cast_time_unit("us"))
    return frame.with_columns(
        known.alias("arrived_at"),
        arrived.alias("own_arrival"),
        pl.when(why != reasons.MISSING_TIME).then(why).alias("arrived_reason"),
        clicked.alias("click_arrived_at"),
        pl.when(click_why != reasons.MISSING_TIME).then(click_why).alias("click_arrived_reason"),
        given.alias("arrival_given"),
    )


def _defaulted(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    own = {"click": "clicked", "user": "user", "session": "session", "query": "query"}
    given = {own.get(n, n): v for n, v in layout.defaults.items()}
    fills = [pl.col(n).fill_null(pl.lit(v).cast(frame.schema[n])) for n, v in given.items() if n in frame.columns]
    only = layout.locales[0] if len(layout.locales) == 1 else "und"
    return frame.with_columns(fills).with_columns(pl.col("locale").fill_null(only))


def _ranked(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """1-based place, by the base of each application."""
    base = pl.lit(layout.base("default"))
    for application, first in layout.rank_base.items():
        if application != "default":
            base = pl.when(pl.col("application") == application).then(first).otherwise(base)
    return frame.with_columns((pl.col("rank") - base + 1).alias("place"))


def _valued(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        truth("clicked", frame.schema["clicked"], counts=True).alias("click_value"),
        truth("randomised", frame.schema["randomised"], counts=False).alias("randomised_value"),
        (pl.col("interaction") * MILLION).round().cast(pl.Int64, strict=False).alias("interaction_value"),
    )


def _scaled(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """Interactions in [0, 1]: values.interaction_scale says which amount (seconds listened, say) counts as 1."""
    if "interaction_scale" not in layout.values:
        return frame
    amount = pl.col("interaction") / float(layout.values["interaction_scale"])
    return frame.with_columns(pl.when(amount > 1).then(1.0).otherwise(amount).alias("interaction"))


def truth(name: str, dtype: pl.DataType, *, counts: bool) -> pl.Expr:
    """A boolean column from booleans, 0 and 1 (or counts, above 0 is true), true/false, yes/no; null where it is
    none."""
    column = pl.col(name)
    if dtype == pl.Boolean:
        return column
    if dtype.is_numeric():
        return _truth_of_number(column.cast(pl.Float64), counts=counts)
    text = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    number = _truth_of_number(text.cast(pl.Float64, strict=False), counts=counts)
    return pl.when(text.is_in(TRUE)).then(True).when(text.is_in(FALSE)).then(False).otherwise(number)


def _truth_of_number(number: pl.Expr, *, counts: bool) -> pl.Expr:
    fits = (number >= 0) & (number == number.floor()) & (number < 1e9) if counts else number.is_in([0.0, 1.0])
    return pl.when(fits).then(number > 0)


def _texts(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """Masked and normalised query and its key; each distinct text is worked on once."""
    distinct = frame.filter(pl.col("query").is_not_null()).select("query", "locale").unique()
    masked = [mask_text(q, locale=loc, declared=tuple(layout.locales)) for q, loc in distinct.iter_rows()]
    normal = [normalise_query(m, locale=loc) for m, loc in zip(masked, distinct["locale"], strict=True)]
    keys = [key_of(layout.corpus, locale, query) for locale, query in zip(distinct["locale"], normal, strict=True)]
    texts = distinct.with_columns(
        pl.Series("query_raw", masked, dtype=pl.String),
        pl.Series("query_normal", normal, dtype=pl.String),
        pl.Series("query_key", keys, dtype=pl.Int64),
    )
    return frame.join(texts, on=["query", "locale"], how="left", maintain_order="left")


def _first_reason(rules: Rules) -> pl.Expr:
    kind = pl.col("kind")
    shows_query = kind.is_in(_SHOWN)
    row, event = kind == Kind.ROW, kind != Kind.QUERY
    needs_rank = kind.is_in([int(Kind.ROW), int(Kind.IMPRESSION), int(Kind.CLICK)])
    tests = [
        (pl.col("reason").is_not_null(), pl.col("reason")),
        (pl.col("search_id").is_null(), reasons.MISSING_SEARCH),
        (shows_query & (pl.col("query_normal").is_null() | (pl.col("query_normal") == "")), reasons.MISSING_QUERY),
        (event & pl.col("item_id").is_null(), reasons.MISSING_ITEM),
        (needs_rank & pl.col("rank").is_null(), reasons.MISSING_RANK),
        (pl.col("rank").is_not_null() & ~pl.col("place").is_between(1, MAX_RANK), reasons.BAD_RANK),
        (pl.col("at_reason").is_not_null(), pl.col("at_reason")),
        (pl.col("arrived_reason").is_not_null(), pl.col("arrived_reason")),
        (pl.col("click_arrived_reason").is_not_null(), pl.col("click_arrived_reason")),
        (_future(rules), reasons.FUTURE),
        (~_locale_fits(rules.layout), reasons.BAD_LOCALE),
        (row & pl.col("click_value").is_null(), reasons.BAD_CLICK),
        (pl.col("randomised").is_not_null() & pl.col("randomised_value").is_null(), reasons.BAD_FLAG),
        (pl.col("interaction").is_not_null() & ~pl.col("interaction").is_between(0, 1), reasons.BAD_INTERACTION),
    ]
    chosen = [pl.when(test).then(pl.lit(code) if isinstance(code, str) else code) for test, code in tests]
    return pl.coalesce(chosen)


def _future(rules: Rules) -> pl.Expr:
    """Shown after its own arrival, after the day of its folder, or (where neither is known) after the clock; arrived
    after the clock."""
    floor = rules.arrival_floor
    bound = pl.lit(rules.latest if floor is None else floor + timedelta(days=1) - timedelta(microseconds=1))
    after_arrival = pl.col("at") > pl.col("own_arrival") + SKEW
    ahead = pl.col("own_arrival") > rules.latest
    return pl.when(pl.col("arrival_given")).then(after_arrival | ahead).otherwise(pl.col("at") > bound)


def _locale_fits(layout: Layout) -> pl.Expr:
    if len(layout.locales):
        return pl.col("locale").is_in(list(layout.locales)) | (pl.col("locale") == "und")
    return pl.col("locale").str.contains(_TAG)


def _documents(kept: pl.DataFrame, rules: Rules, file: int) -> pl.DataFrame:
    arrived = pl.max_horizontal("arrived_at", "at")
    row = pl.col("kind") == Kind.ROW
    value = pl.when(pl.col("kind") == Kind.VALUE).then(pl.coalesce("interaction_value", "value"))
    value = value.otherwise(pl.col("interaction_value"))
    kept = kept.with_columns(
        pl.lit(file, pl.Int64).alias("file"),
        pl.col("place").cast(pl.Int32).alias("rank"),
        arrived.alias("arrived_at"),
        pl.when(row & pl.col("click_value"))
        .then(pl.max_horizontal(arrived, "click_arrived_at"))
        .alias("click_arrived_at"),
        pl.col("query_normal").alias("query"),
        pl.col("randomised_value").fill_null(value=False).alias("randomised"),
        (row & pl.col("click_value")).fill_null(value=False).alias("clicked"),
        value.fill_null(0).alias("interaction"),
        pl.lit(rules.salt.name).alias("salt_id"),
    )
    kept = _keyed(kept, rules)
    return kept.select([pl.col(n).cast(t) for n, t in DOCUMENT.items()])


def _keyed(kept: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    kept = hashed(kept, "user", "user_key", rules.salt.key)
    kept = hashed(kept, "session", "session_key", rules.salt.key)
    return hashed(kept, "event_id", "event_key", key_of)


def hashed(frame: pl.DataFrame, column: str, name: str, function) -> pl.DataFrame:
    """Add `name`, the function of each distinct text of `column`; null stays null."""
    distinct = frame.select(column).drop_nulls().unique()
    if distinct.height > MOSTLY_DISTINCT * frame.height:  # to find each text's hash again would cost more than hashing
        keys = [None if text is None else function(text) for text in frame[column]]
        return frame.with_columns(pl.Series(name, keys, dtype=pl.Int64))
    keys = pl.Series(name, [function(text) for text in distinct.to_series()], dtype=pl.Int64)
    return frame.join(distinct.with_columns(keys), on=column, how="left", maintain_order="left")


def _refused(refused: pl.DataFrame, file: int) -> pl.DataFrame:
    """Line, reason and a detail that names the offending value."""
    shown = {
        reasons.BAD_RANK: pl.col("rank").cast(pl.String),
        reasons.BAD_TIME: pl.col("time").cast(pl.String),
        reasons.NO_TIME_ZONE: pl.col("time").cast(pl.String),
        reasons.FUTURE: pl.col("at").cast(pl.String),
        reasons.BAD_LOCALE: pl.col("locale"),
        reasons.BAD_CLICK: pl.col("clicked").cast(pl.String),
        reasons.BAD_FLAG: pl.col("randomised").cast(pl.String),
        reasons.BAD_INTERACTION: pl.col("interaction").cast(pl.String),
    }
    detail = pl.coalesce([*[pl.when(pl.col("reason") == code).then(e) for code, e in shown.items()], pl.lit("")])
    values = refused.select(detail.str.slice(0, 200)).to_series()
    refused = refused.with_columns(pl.Series("detail", [mask_marks(v) for v in values], dtype=pl.String))
    detail = pl.col("detail")
    meaning = pl.col("reason").replace_strict(reasons.MEANING, default="", return_dtype=pl.String)
    told = pl.when(detail == "").then(meaning).otherwise(pl.format("{}: {}", meaning, detail))
    return refused.select(pl.lit(file, pl.Int64).alias("file"), "line", "byte_offset", "reason", told.alias("detail"))

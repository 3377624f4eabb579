"""How one declared source is read: a plain, picklable view of its settings that tasks get."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from jobs.core.errors import UsageError

if TYPE_CHECKING:  # tasks get a plain layout: their workers never load the settings
    from jobs.core.settings import Source

ROLES = ("impression", "click")

FIELDS = (
    "page",
    "query",
    "item",
    "rank",
    "click",
    "time",
    "arrived",
    "click_arrived",
    "interaction",
    "locale",
    "segment",
    "ranker",
    "randomised",
    "user",
    "session",
    "event",
)
"""Names that `columns` may map, as formats.md lists them, and the additions click_arrived, interaction and event
(id)."""

OWN_NAMES = {
    "page": "search_id", "query": "query", "item": "item_id", "rank": "rank", "click": "clicked", "time": "shown_at",
    "arrived": "arrived_at", "click_arrived": "click_arrived_at", "interaction": "interaction", "locale": "locale",
    "segment": "segment", "ranker": "ranker", "randomised": "randomised", "user": "user_id", "session": "session_id",
    "event": "event_id",
}  # fmt: skip
"""Columns of Hindcast's own tables: a file that uses these names needs no `columns`."""

VALUES = ("time", "arrived", "separator", "interaction_scale", "first_place")
"""What `values` may say."""

REQUIRED = ("page", "query", "item", "rank", "click", "time")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the readers of a source need: columns, formats, bases, actions, locales.

    `values` says how values are written: time and arrived (strptime formats), separator (of CSV), interaction_scale
    (the amount that counts as 1), first_place ("never": the first place is never logged). `defaults` stand in for
    missing fields, such as click = "false".
    """

    source: str
    corpus: str
    format: str
    columns: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    rank_base: dict[str, int] = field(default_factory=dict)
    shown: str = "auto"
    time_zone: str = ""
    actions: dict[str, str | float] = field(default_factory=dict)
    lateness_days: int = 3
    locales: tuple[str, ...] = ()
    day: str = ""

    def base(self, application: str) -> int:
        """Rank of the first place as that application counts it."""
        return self.rank_base.get(application, self.rank_base.get("default", 1))

    def column(self, name: str) -> str:
        """The file's column behind a field; the field's own name in Hindcast's tables unless it is mapped."""
        return self.columns.get(name, OWN_NAMES[name])

    def as_dict(self) -> dict:
        """Plain values, for task specs."""
        return asdict(self)


def layout_of(source: Source, *, locales: tuple[str, ...] = (), day: str = "") -> Layout:
    """The layout of a source; UsageError for a field or action role that does not exist.

    `day` stands in for the time of sources that have none.
    """
    unknown = sorted(set(source.columns) - set(FIELDS))
    if unknown:
        raise UsageError(f"source {source.name}: columns.{unknown[0]} is no field: use {', '.join(FIELDS)}")
    for action, role in source.actions.items():
        _check_action(source.name, action, role)
    _check_names(source)
    _check_zone(source)
    _check_scale(source)
    body = source.model_dump(include={"columns", "values", "defaults", "rank_base", "shown", "time_zone", "actions"})
    return Layout(
        source=source.name, corpus=source.corpus, format=source.format, lateness_days=source.lateness_days,
        locales=tuple(locales), day=day, **body,
    )  # fmt: skip


def _check_names(source: Source) -> None:
    """A misspelt name would be silently without effect."""
    for what, given, known in (("values", source.values, VALUES), ("defaults", source.defaults, FIELDS)):
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise UsageError(f"source {source.name}: {what}.{unknown[0]} means nothing: use {', '.join(known)}")
    separator = source.values.get("separator", ",")
    if len(separator) != 1:
        raise UsageError(f"source {source.name}: values.separator is {separator!r}: write one character, such as ';'")


def _check_action(source: str, action: str, role: str | float) -> None:
    if isinstance(role, str) and role not in ROLES:
        raise UsageError(
            f"source {source}: actions.{action} is {role!r}: use 'impression', 'click' or a value in [0, 1]"
        )
    if not isinstance(role, str) and not 0 <= role <= 1:
        raise UsageError(f"source {source}: actions.{action} is {role}: an interaction's value lies in [0, 1]")


def _check_scale(source: Source) -> None:
    scale = source.values.get("interaction_scale", "1")
    if not re.fullmatch(r"\d+(\.\d+)?", scale) or float(scale) <= 0:
        raise UsageError(
            f"source {source.name}: values.interaction_scale is {scale!r}: write the amount that counts"
            " as 1, such as '30'"
        )


def _check_zone(source: Source) -> None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if source.time_zone:
        try:
            ZoneInfo(source.time_zone)
        except (ZoneInfoNotFoundError, ValueError):
            raise UsageError(
                f"source {source.name}: time_zone {source.time_zone!r} is no IANA zone such as 'UTC'"
            ) from None

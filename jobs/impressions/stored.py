"""What a night's stored days hold, for a night whose rows an earlier ingestion read."""

from datetime import date
from typing import Any

import polars as pl

from jobs.impressions.inputs import Ledger, summed


def with_stored(ctx: Any, summary: dict[str, Any]) -> dict[str, Any]:
    """The ingest result of a night, with the stored figures of each source of which it read nothing itself.

    The rows of the night's arrival day were read by another run then (a cold start, a later night, by hand): their
    counts come from the source's ledger, impressions and clicks from the tables, as known by the night's end. Totals
    are sums over the sources again. Sources whose ledger knows nothing keep their zeros.
    """
    day, sources = ctx.run.as_of, dict(summary["sources"])
    unread = [n for n, s in sources.items() if not s["rows_in"] and not s["files"]]
    shown = _shown(ctx, day) if unread else {}
    restated = False
    for name in unread:
        known = Ledger(ctx.store, name).figures(day)
        if known is not None:
            clicks = shown.get(name, {"impressions": 0, "clicks": 0, "excluded": 0})
            sources[name] = {**sources[name], **known, **clicks, "stored": True}
            restated = True
    if not restated:
        return summary
    shown_sums = {n: sum(s[n] for s in sources.values()) for n in ("impressions", "clicks")}
    totals = summed(list(sources.values())) | shown_sums
    totals["excluded"] = summary["excluded"] + sum(s.get("excluded", 0) for s in sources.values() if s.get("stored"))
    days = summary["days"] or [day.isoformat()]
    return {**summary, **totals, "days": days, "sources": sources}


def _shown(ctx: Any, day: date) -> dict[str, dict[str, int]]:
    """Impressions, clicks and excluded impressions of the event day by source, of what had arrived by its end."""
    columns = ["source", "arrived_at", "click_arrived_at", "clicked", "excluded"]
    rows = ctx.store.read("impressions", where={"event_day": day}, columns=columns)
    known = rows.filter(pl.col("arrived_at").dt.date() <= day)
    clicked = pl.col("clicked") & (pl.col("click_arrived_at").dt.date() <= day)
    sums = known.group_by("source").agg(
        pl.len().alias("impressions"), clicked.sum().alias("clicks"), pl.col("excluded").is_not_null().sum()
    )
    return {row.pop("source"): row for row in sums.to_dicts()}

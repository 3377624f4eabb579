"""Publishing: the one atomic last step that lets consumers see a run (formats.md, published.json)."""

from typing import Any

from jobs.core.context import Context
from jobs.core.errors import NotThereError

PATH = "published.json"


def publish(ctx: Context, *, gates: dict[str, Any], no_rows: bool = False) -> dict[str, Any]:
    """Add this run's entry under a lock; an older night never moves `latest_night` back. Returns the entry.

    `no_rows`: the night's event day holds none. Its entry says so, and it never becomes the latest night.
    """
    manifest = ctx.manifest()
    if "reports" not in manifest["steps"]:
        raise NotThereError(f"run {ctx.run.key} has no report: run `hindcast reports build --run {ctx.run.key}` first")
    entry = {
        "tables": manifest["tables"],
        "report": f"reports/{ctx.run.key}",
        "as_of": manifest["as_of"],
        "gates": gates,
    } | ({"no_rows": True} if no_rows else {})
    with ctx.store.documents.lock("published", brief=True):
        ctx.store.write_json(PATH, with_entry(published(ctx), key=ctx.run.key, entry=entry))
    return entry


def published(ctx: Context) -> dict[str, Any]:
    """The current published.json, or an empty one."""
    return ctx.store.read_json(PATH) if ctx.store.exists(PATH) else {"runs": {}, "latest_night": None}


def with_entry(body: dict[str, Any], *, key: str, entry: dict[str, Any]) -> dict[str, Any]:
    """`body` with the run's entry; `latest_night` is the last one whose day has rows, so it moves forward only."""
    runs = {**body["runs"], key: entry}
    nights = sorted(k for k in runs if k.startswith("night-") and not runs[k].get("no_rows"))
    return {**body, "runs": runs, "latest_night": nights[-1] if nights else None}

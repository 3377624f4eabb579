"""`hindcast status`: nights, gaps, launches, coverage and cost of a store, from its manifests alone."""

from datetime import date, timedelta
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.publish import PATH
from jobs.core.tables import Store
from jobs.headline import counted_pages
from jobs.night import complete

status_app = typer.Typer(help="Nights, gaps, coverage and cost.", no_args_is_help=True)

COLUMNS = ("run", "published", "judge", "pages", "labels", "unscored", "cost_usd", "gates")


def overview(store: Store) -> dict[str, Any]:
    """Runs of the store (oldest first), nights missing between the first and the last, and the published latest."""
    published = store.read_json(PATH) if store.exists(PATH) else {"runs": {}, "latest_night": None}
    runs = [_run(store, key, published) for key in store.documents.list("runs")]
    nights = [date.fromisoformat(r["run"].removeprefix("night-")) for r in runs if r["run"].startswith("night-")]
    return {
        "store": store.uri,
        "latest_night": published["latest_night"],
        "runs": runs,
        "missing_nights": _gaps(nights),
    }


def _run(store: Store, key: str, published: dict[str, Any]) -> dict[str, Any]:
    path = f"runs/{key}/manifest.json"
    steps = store.read_json(path)["steps"] if store.exists(path) else {}
    judged, pages = steps.get("judging", {}), steps.get("pages", {})
    entry = published["runs"].get(key, {})
    short = [*entry.get("gates", {}).get("failed", []), *(["no rows"] if entry.get("no_rows") else [])]
    return {
        "run": key,
        "published": key in published["runs"],
        "steps": sorted(steps),
        "judge": judged.get("judge"),
        "pages": counted_pages(pages) if pages else None,
        "labels": judged.get("labels"),
        "unscored": sum(judged["unscored"].values()) if "unscored" in judged else None,
        "cost_usd": judged.get("cost_usd"),
        "gates": short,
    }


def _gaps(nights: list[date]) -> list[str]:
    if not nights:
        return []
    there, first, last = set(nights), min(nights), max(nights)
    every = (first + timedelta(days=i) for i in range((last - first).days + 1))
    return [d.isoformat() for d in every if d not in there]


def due(store: Store, day: date, *, again: bool) -> dict[str, Any]:
    """Whether a night is still to be run: always if asked for `again`, else unless it is published with rows."""
    run = f"night-{day.isoformat()}"
    entry = (store.read_json(PATH) if store.exists(PATH) else {"runs": {}})["runs"].get(run)
    done = entry is not None and not entry.get("no_rows")
    why = f"{run} is published; trigger it with the parameter day to run it again" if done and not again else None
    return {"run": run, "published": entry is not None, "due": why is None, "why": why}


@cli.command(status_app, "status", example="hindcast status --config hindcast.toml")
def status(
    config: cli.ConfigOption = "",
    due_: Annotated[str, typer.Option("--due", help="Only say whether this night is still to be run.")] = "",
    again: Annotated[bool, typer.Option("--again", help="With --due: it is, published or not.")] = False,
    json_: cli.JsonOption = False,
) -> None:
    """List the runs of a store, what of them is published, and which nights are missing."""
    settings = cli.settings_of(config)
    if due_:
        day = cli.parse_day(due_, option="--due")
        cli.finish(due(Store(complete(settings).store_uri), day, again=again), as_json=json_)
        return
    body = overview(Store(settings.store_uri))
    cli.finish(body, as_json=json_, text=_text(body))


def _text(body: dict[str, Any]) -> str:
    rows = [COLUMNS, *(tuple(_cell(r[c]) for c in COLUMNS) for r in body["runs"])]
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(COLUMNS))]
    table = ["  ".join(str(v).ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    missing = ", ".join(body["missing_nights"]) or "none"
    return "\n".join(
        [*table, f"latest night: {body['latest_night'] or '-'}", f"nights missing between them: {missing}"]
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "; ".join(value) or "ok"
    return "-" if value is None else str(value)

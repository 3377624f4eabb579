"""The site: the latest night's report with the latest launch in it, put together from the reports of both runs."""

from typing import Any

from jobs.core.storage import Files
from jobs.reports.ablation import launch_cell
from jobs.reports.explorer import merged
from jobs.reports.launches import empty_launch
from jobs.reports.output import read_explorer, write_report

FOLDER = "site"


def build_site(files: Files) -> dict[str, Any] | None:
    """Write site/ from reports/; returns {"night", "launch"}, or None if no night and no launch has a report yet.

    Held under a lock. Reports of older nights and launches stay where they are.
    """
    with files.lock("site"):
        night, launch = latest(files)
        if night is None and launch is None:
            return None
        report, explorer = joined(files, night, launch)
        write_report(files, FOLDER, report, explorer)
        return {"night": night, "launch": launch}


def latest(files: Files) -> tuple[str | None, str | None]:
    """Run keys of the latest night and the launch that starts latest (ties: by id), of those that have a report."""
    runs = [r for r in files.list("reports") if files.exists(f"reports/{r}/report.json")]
    nights = [r for r in runs if r.startswith("night-")]
    launches = [r for r in runs if r.startswith("launch-")]
    return max(nights, default=None), max(launches, key=lambda r: (_start(files, r), r), default=None)


def _start(files: Files, run: str) -> str:
    path = f"launches/{run.removeprefix('launch-')}/launch.json"
    return str(files.read_json(path)["start"]) if files.exists(path) else ""


def joined(files: Files, night: str | None, launch: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """report.json and explorer data of the night with the launch's part and pages in place."""
    if night is None or launch is None:
        folder = f"reports/{night or launch}"
        return files.read_json(f"{folder}/report.json"), read_explorer(files, folder)
    report = with_launch(*(files.read_json(f"reports/{r}/report.json") for r in (night, launch)))
    return report, merged(*(read_explorer(files, f"reports/{r}") for r in (night, launch)))


def with_launch(night: dict[str, Any], launch: dict[str, Any]) -> dict[str, Any]:
    """The night's report with the launch's part, and with its column in the ablation table."""
    part = launch["launch"] or empty_launch()
    there = {row["variant"]: row for row in night["ablation"]}
    blank = {"logs": None, "human": None, "disagreement": None, "human_exact": None, "cost": None}
    names = list(dict.fromkeys([*there, *part["variants"]]))
    rows = [{**there.get(v, {"variant": v, **blank}), "launch": launch_cell(part, v)} for v in names]
    return {**night, "launch": part, "ablation": rows}

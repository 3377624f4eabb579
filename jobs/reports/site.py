"""The site: the latest night's report with the latest launch in it, put together from the reports of both runs."""

from typing import Any

from jobs.core.storage import Files
from jobs.reports.ablation import launch_cell
from jobs.reports.drawn import INDEX, Drawn, draw, read_figures
from jobs.reports.explorer import merged
from jobs.reports.launches import empty_launch
from jobs.reports.output import read_explorer, write_report

FOLDER = "site"
LAUNCH_FIGURES = ("tile-launch", "evidence-curve")


def build_site(files: Files) -> dict[str, Any] | None:
    """Write site/ from reports/; returns {"night", "launch"}, or None if no night and no launch has a report yet.

    Held under a lock. Reports of older nights and launches stay where they are.
    """
    with files.lock("site"):
        night, launch = latest(files)
        if night is None and launch is None:
            return None
        report, explorer = joined(files, night, launch)
        write_report(files, FOLDER, report, explorer, drawn=_figures(files, night, launch))
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


def _figures(files: Files, night: str | None, launch: str | None) -> dict[str, Drawn]:
    """The night's figures with those of the launch, as both reports drew them."""
    found = _drawn(files, night or launch or "")
    if night and launch:
        theirs = _drawn(files, launch)
        found = {n: d for n, d in found.items() if n not in LAUNCH_FIGURES}
        found |= {n: theirs[n] for n in LAUNCH_FIGURES if n in theirs}
    return found


def _drawn(files: Files, run: str) -> dict[str, Drawn]:
    """A run's figures as they stand beside its report; drawn anew from report.json where they were cleared away."""
    folder = f"reports/{run}"
    if files.exists(f"{folder}/figures/{INDEX}"):
        return read_figures(files, f"{folder}/figures")
    return draw(files.read_json(f"{folder}/report.json"))


def with_launch(night: dict[str, Any], launch: dict[str, Any]) -> dict[str, Any]:
    """The night's report with the launch's part, and with its column in the ablation table."""
    part = launch["launch"] or empty_launch()
    there = {row["variant"]: row for row in night["ablation"]}
    blank = {"logs": None, "human": None, "disagreement": None, "human_exact": None, "cost": None}
    names = list(dict.fromkeys([*there, *part["variants"]]))
    rows = [{**there.get(v, {"variant": v, **blank}), "launch": launch_cell(part, v)} for v in names]
    return {**night, "launch": part, "ablation": rows, "excluded": _excluded(night, launch)}


def _excluded(night: dict[str, Any], launch: dict[str, Any]) -> dict[str, Any]:
    """What the night left out, with what the launch left out of its own pages."""
    pages = [one["excluded"].get("pages") or {} for one in (night, launch)]
    return {**night["excluded"], "pages": {**pages[0], "launch": pages[1].get("launch") or {}}}

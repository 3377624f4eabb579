"""`hindcast simulate`: write a simulated log, everything beside it, and under truth/ what was planted."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.errors import UsageError
from jobs.core.progress import Progress

app = typer.Typer(help="Write a simulated log with planted truth.")

FORMATS = ("ubi", "parquet", "both")
PARTS = ("logs", "parquet", "items", "documents", "retrieval", "labels", "launch", "truth", "hindcast.toml")
"""What this command writes below --out; it replaces these and touches nothing else there."""


def run(
    *,
    out: Path,
    size: str = "demo",
    seed: int = 0,
    impressions: int | None = None,
    days: int | None = None,
    log_format: str = "ubi",
    segments: bool = False,
    poor_share: float | None = None,
    clean: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Simulate into `out`; returns a summary. The same arguments write the same bytes."""
    from jobs.simulate.sizes import size_of
    from jobs.simulate.world import make_world

    _check(log_format, impressions, poor_share, seed)
    progress = progress or Progress(None)
    chosen = size_of(size, impressions=impressions, days=days, segments=segments)
    chosen = replace(chosen, clean=clean)
    world = make_world(seed=seed, size=chosen, poor_share=poor_share)
    _clear(out)
    summary: dict[str, Any] = {
        "out": str(out),
        "simulated": True,
        "size": chosen.name,
        "seed": seed,
        "days": chosen.days,
    }
    summary |= {"first_day": chosen.first_day.isoformat(), "last_day": chosen.calendar[-1].isoformat()}
    if log_format in ("ubi", "both"):
        summary["ubi"] = _write_ubi(world, out, progress)
    if log_format in ("parquet", "both"):
        summary["parquet_impressions"] = _write_parquet(world, out, progress)
    return summary | _write_rest(world, out, "parquet" if log_format == "parquet" else "ubi")


def _check(log_format: str, impressions: int | None, poor_share: float | None, seed: int) -> None:
    if log_format not in FORMATS:
        raise UsageError(f"--format {log_format!r} is unknown: take one of {', '.join(FORMATS)}")
    if impressions is not None and impressions < 1:
        raise UsageError(f"--impressions {impressions} is no volume: give a positive number")
    if poor_share is not None and not 0 <= poor_share < 1:
        raise UsageError(f"--poor-share {poor_share} lies outside [0, 1): give the poor ranker's share of the traffic")
    if seed < 0:
        raise UsageError(f"--seed {seed} is negative: give a number from 0 on")


def _clear(out: Path) -> None:
    for name in PARTS:
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
    out.mkdir(parents=True, exist_ok=True)


def _write_ubi(world: Any, out: Path, progress: Progress) -> dict[str, Any]:
    from jobs.simulate.files import write_dirt
    from jobs.simulate.write import UbiWriter

    writers = {c: UbiWriter(world, corpus=c, folder=out / "logs" / c) for c in world.corpora}
    with progress.step("simulate ubi") as counts:
        counts["lines"] = _days(world, writers, progress, label="days of UBI documents")
    dirt = write_dirt(writers, out, hits=world.size.hits)
    return {c: {k: d[k] for k in ("documents", "impressions", "clicks", "bot_impressions")} for c, d in dirt.items()}


def _write_parquet(world: Any, out: Path, progress: Progress) -> int:
    from jobs.simulate.write import ParquetWriter

    writers = {c: ParquetWriter(world, corpus=c, folder=out / "parquet" / c) for c in world.corpora}
    with progress.step("simulate parquet") as counts:
        counts["rows"] = _days(world, writers, progress, label="days of Parquet impressions")
    return counts["rows"]


def _days(world: Any, writers: dict[str, Any], progress: Progress, *, label: str) -> int:
    total, days = 0, world.size.calendar
    for n, day in enumerate(days, start=1):
        total += sum(writer.write_day(day) for writer in writers.values())
        progress.tick(label, n, len(days))
    return total


def _write_rest(world: Any, out: Path, log_format: str) -> dict[str, Any]:
    from jobs.simulate.config import config_text
    from jobs.simulate.files import write_catalogue, write_documents, write_labels, write_launch, write_truth

    summary = {
        "items": write_catalogue(world, out),
        "documents": write_documents(world, out),
        "labelled_pages": write_labels(world, out),
        "launch": write_launch(world, out),
    }
    write_truth(world, out)
    (out / "hindcast.toml").write_text(config_text(world.size, log_format=log_format), encoding="utf-8")
    return summary | {"config": str(out / "hindcast.toml")}


@cli.command(app, "simulate", example="hindcast simulate --size demo --out out/demo/input --seed 0")
def simulate(
    out: Annotated[str, typer.Option("--out", help="Folder to write to.")] = "out/simulated",
    size: Annotated[str, typer.Option("--size", help="tiny or demo; or give --impressions.")] = "demo",
    seed: Annotated[int, typer.Option("--seed", help="The same seed writes the same bytes.")] = 0,
    impressions: Annotated[
        int, typer.Option("--impressions", help="Any volume: shown items in all; 0: by --size.")
    ] = 0,
    days: Annotated[int, typer.Option("--days", help="Number of days; 0: by --size (30 with --impressions).")] = 0,
    log_format: Annotated[str, typer.Option("--format", help="ubi, parquet or both.")] = "ubi",
    parquet_only: Annotated[bool, typer.Option("--parquet-only", help="The same as --format parquet.")] = False,
    segments: Annotated[
        bool, typer.Option("--segments", help="Examination differs by device, and rows say it.")
    ] = False,
    poor_share: Annotated[float, typer.Option("--poor-share", help="Traffic of the poor ranker; -1: .3.")] = -1.0,
    clean: Annotated[bool, typer.Option("--clean", help="Without dirty rows and bots.")] = False,
    json_: cli.JsonOption = False,
) -> None:
    """Simulate a music search service in two corpora and three locales: logs, catalogue, documents, labels, an A/B
    test.

    What was planted (examination, relevance, dirty rows, the A/B test's winner) stands under truth/.
    """
    summary = run(
        out=Path(out), size=size, seed=seed, impressions=impressions or None, days=days or None,
        log_format="parquet" if parquet_only else log_format, segments=segments,
        poor_share=None if poor_share < 0 else poor_share, clean=clean, progress=Progress(),
    )  # fmt: skip
    cli.finish(summary, as_json=json_)

"""`hindcast reproduce`: a past report again, from the table versions and the configuration that its manifest names.

Says which figures differ, what has changed since (code, packages, prompts, models, settings), and what no longer exists
(vacuumed versions, inputs erased by forget, runs that housekeeping removed). Nothing in the store is changed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.context import Context, code_sha256, folder_sha256, past, prompts_folder, versions
from jobs.core.errors import HindcastError, InputError, NotThereError
from jobs.core.normalise import NORMALISATION
from jobs.core.progress import Progress
from jobs.core.settings import Settings
from jobs.core.spark import SparkProvider
from jobs.core.storage import Files
from jobs.core.tables import Store
from jobs.core.upkeep import whole
from jobs.core.windows import Run
from schemas.names import run_key

reproduce_app = typer.Typer(help="Rebuild a past report from its manifest.", no_args_is_help=True)

OF_THE_REPORT = ("pages", "judgments", "cards", "propensities", "evidence", "skills", "rewrites")
"""Tables that a report reads; the others of a manifest are what those were computed from."""

OF_THE_MOMENT = {"run", "changes", "paper"}
"""Parts of report.json that say when it was made, or compare it with what stood beside it then."""

TRACK = "launch.track"
"""The record over all launches grows with every launch."""

MOST = 50
"""Differing figures that are listed; more are counted."""


class NotReproduced(HindcastError):
    """The rebuilt report has other figures than the published one, or could not be rebuilt."""


@dataclass(kw_only=True)
class Finding:
    """What came of it: figures that differ, what no longer exists, and what has changed around it."""

    run: str
    figures: int = 0
    differing: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Plain values for the last line."""
        told = self.differing[:MOST]
        return {"run": self.run, "identical": bool(self.figures) and not self.differing, "figures": self.figures,
                "n_differing": len(self.differing), "differing": told, "gone": self.gone,
                "changed": self.changed}  # fmt: skip


def figures_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a report with its dotted path; what belongs to the moment is left out."""
    if isinstance(value, dict):
        for key, one in value.items():
            if path or key not in OF_THE_MOMENT:
                yield from figures_of(one, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from figures_of(one, f"{path}[{number}]")
    elif not path.startswith(TRACK):
        yield path, value


def differing(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One text a figure that the two reports do not share, in the order of their paths."""
    old, new = dict(figures_of(before)), dict(figures_of(after))
    paths = sorted(p for p in old.keys() | new.keys() if p not in old or p not in new or old[p] != new[p])
    return [f"{p}: {_told(old, p)}, now {_told(new, p)}" for p in paths]


def _told(figures: dict[str, Any], path: str) -> str:
    return f"{figures[path]!r:.60}" if path in figures else "not there"


def gone(store: Store, manifest: dict[str, Any], run: Run) -> list[str]:
    """What the report was made from and what no longer exists, one sentence each."""
    told = [
        f"{table} version {version}: its files were vacuumed"
        for table, version in sorted(manifest["tables"].items())
        if version is not None and not whole(store, table, version)
    ]
    return told + erased(store, run)


def erased(store: Store, run: Run) -> list[str]:
    """Erasures that touched days which the run read."""
    names = [n for n in store.documents.list("forgotten") if n.endswith(".json")]
    found = []
    for name in names:
        body = store.read_json(f"forgotten/{name}")
        days = sorted(d for d in body.get("days", []) if date.fromisoformat(d) in run.history)
        if days:
            found.append(f"inputs of {len(days)} days from {days[0]} were erased by forget on {_day_of(name)}")
    return found


def _day_of(name: str) -> str:
    found = re.search(r"(\d{4})(\d\d)(\d\d)T", name)
    return "-".join(found.groups()) if found else name.removesuffix(".json")


def changed(manifest: dict[str, Any], settings: Settings, then: Settings) -> list[str]:
    """What is no longer as it was when the run was computed, apart from the tables; a report can be equal all the same.
    """
    now = {"code": code_sha256(), "prompts": folder_sha256(prompts_folder(then))}
    told = [f"{name}: sha256 {now[name][:12]}, then {manifest[f'{name}_sha256'][:12]}" for name in now
            if manifest.get(f"{name}_sha256") not in (None, now[name])]  # fmt: skip
    held = versions()
    told += [f"{name} {held.get(name, 'missing')}, then {then_}" for name, then_ in manifest["versions"].items()
             if held.get(name) != then_]  # fmt: skip
    told += _model(manifest, then)
    if manifest["normalisation"] != NORMALISATION:
        told.append(f"query normalisation {NORMALISATION}, then {manifest['normalisation']}")
    old, new = dict(figures_of({"_": then.recorded()})), dict(figures_of({"_": settings.recorded()}))
    told += [f"hindcast.toml {k.removeprefix('_.')}: {_told(new, k)}, then {_told(old, k)}" for k in sorted(old | new)
             if old.get(k) != new.get(k)]  # fmt: skip
    recorded = dict(figures_of({"_": manifest.get("config", {})}))
    told += [f"hindcast.toml {k.removeprefix('_.')}: no setting any more" for k in sorted(recorded) if k not in old]
    others = sorted(n for n, s in manifest["steps"].items() if s.get("settings", manifest["config_sha256"])
                    != manifest["config_sha256"])  # fmt: skip
    return told + ([f"computed with other settings than the last step: {', '.join(others)}"] if others else [])


def _model(manifest: dict[str, Any], then: Settings) -> list[str]:
    from jobs.core.embedding_models import find_model

    recorded = manifest["steps"].get("cards", {}).get("embedding_revision")
    if not recorded:
        return []
    name = then.evidence.embedding_model
    try:
        found = find_model(name).revision
    except HindcastError as error:
        return [f"embedding model {name}: {error}"]
    return [] if found == recorded else [f"embedding model {name} revision {found}, then {recorded}"]


def reproduce(ctx: Context, *, settings: Settings, out: str) -> Finding:
    """Rebuild the report of `ctx` (as `past` gives it), compare it with the published one, write it to `out` if named.
    """
    manifest, found = ctx.manifest(), Finding(run=ctx.run.key)
    found.gone = gone(ctx.store, manifest, ctx.run)
    found.changed = changed(manifest, settings, ctx.settings)
    path = f"reports/{ctx.run.key}/report.json"
    if not ctx.store.exists(path):
        raise NotThereError(f"{path} is not in {ctx.store.uri}: there is no report to compare with")
    missing = [t for t in OF_THE_REPORT if any(g.startswith(f"{t} version") for g in found.gone)]
    if missing:
        found.differing = [f"the report cannot be rebuilt without {', '.join(missing)}"]
        return found
    from jobs.reports.job import report_of

    data, report = report_of(ctx)
    published = ctx.store.read_json(path)
    found.figures = sum(1 for _ in figures_of(published))
    found.differing = differing(published, report)
    if out:
        _write(ctx, Path(out), data, report)
    return found


def _write(ctx: Context, folder: Path, data: Any, report: dict[str, Any]) -> None:
    from jobs.reports.explorer import explorer_data
    from jobs.reports.output import Rows, write_report
    from jobs.reports.store import dropped_counts

    folder.mkdir(parents=True, exist_ok=True)
    explorer = explorer_data(run=ctx.run.key, pages=data.pages, judgments=data.judgments, cards=data.cards,
                             dropped=dropped_counts(ctx))  # fmt: skip
    write_report(Files(str(folder.absolute())), "", report, explorer, Rows.of(data))


def manifest_of(store: Store, key: str) -> dict[str, Any]:
    """The run's manifest; NotThereError says when housekeeping removed it, or that there was none."""
    path = f"runs/{key}/manifest.json"
    if store.exists(path):
        return store.read_json(path)
    for name in store.documents.list("housekeeping"):
        body = store.read_json(f"housekeeping/{name}")
        if key in body["runs"]["runs"]:
            raise NotThereError(f"run {key} was removed by housekeeping on {body['at'][:10]}: only its report is left")
    raise NotThereError(f"run {key} is not in {store.uri}: `hindcast status` lists the runs that are")


@cli.command(reproduce_app, "reproduce", example="hindcast reproduce night-2026-11-20 --config hindcast.toml")
def reproduce_command(
    night: Annotated[str, typer.Argument(help="Run key such as night-2026-11-20 or launch-ID, or a night's day.")],
    config: cli.ConfigOption = "",
    out: Annotated[str, typer.Option("--out", help="Folder to write the rebuilt report to.")] = "",
    json_: cli.JsonOption = False,
) -> None:
    """Rebuild a past report; exit code 0 if every figure is as published, 1 otherwise, with the list."""
    settings = cli.settings_of(config)
    key = run_key(night if night.startswith(("night-", "launch-")) else f"night-{cli.parse_day(night, option='NIGHT')}")
    store = Store(settings.store_uri)
    try:
        then, run = past(manifest_of(store, key), settings)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the manifest of {key} cannot be read ({error}): restore it from a copy") from None
    spark = SparkProvider(settings.spark, store_uri=settings.store_uri)
    ctx = Context(settings=then, store=store, run=run, spark=spark, progress=Progress())
    with ctx.progress.step("reproduce") as counts:
        found = reproduce(ctx, settings=settings, out=out)
        counts.update(run=key, figures=found.figures, differing=len(found.differing), gone=len(found.gone))
    cli.finish(found.summary(), as_json=json_, text=_text(found))
    if not found.summary()["identical"]:
        first = found.differing[0] if found.differing else "nothing could be compared"
        raise NotReproduced(f"{key} is not reproduced: {len(found.differing)} differences, first {first}")


def _text(found: Finding) -> str:
    head = f"{found.run}: {found.figures:,} figures, {len(found.differing)} differ"
    parts = (("differs", found.differing[:MOST]), ("no longer exists", found.gone), ("changed since", found.changed))
    return "\n".join([head, *(f"{name}: {line}" for name, lines in parts for line in lines)])

"""What a step gets: settings, store, run, Spark, progress, clock, and the manifest that ties steps together."""

import hashlib
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jobs import __version__
from jobs.core.errors import NotThereError, SettingsError
from jobs.core.normalise import NORMALISATION
from jobs.core.progress import Progress
from jobs.core.settings import Settings
from jobs.core.spark import SparkProvider
from jobs.core.tables import Store
from jobs.core.windows import Run, Window

_PACKAGES = (
    "pyspark",
    "delta-spark",
    "deltalake",
    "great-expectations",
    "polars",
    "sentence-transformers",
    "faiss-cpu",
    "openai",
    "scikit-learn",
    "scipy",
    "ir-measures",
)


@dataclass(frozen=True, kw_only=True)
class Context:
    """One run being computed; steps read table versions from its manifest and record what they did there.

    `backfill` is true for one of many past nights: nothing is judged then, unless the settings ask for it.
    """

    settings: Settings
    store: Store
    run: Run
    spark: SparkProvider
    progress: Progress
    backfill: bool = False
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def folder(self) -> str:
        """The run's folder in the store, relative."""
        return f"runs/{self.run.key}"

    @property
    def corpora(self) -> list[str]:
        """Declared corpora, sorted."""
        return sorted(self.settings.corpora)

    def manifest(self) -> dict[str, Any]:
        """The run's manifest; a fresh one if no step has recorded anything yet."""
        path = f"{self.folder}/manifest.json"
        return self.store.read_json(path) if self.store.exists(path) else self._fresh()

    def record(self, step: str, summary: dict[str, Any], *, tables: tuple[str, ...] = ()) -> dict[str, Any]:
        """Write a step's summary and the versions of the tables that it wrote into the manifest; returns the summary.

        Held under a lock, since mapped tasks may end together.
        """
        return self.pin(step, summary, versions={t: self.store.version(t) for t in tables})

    def pin(
        self, step: str, summary: dict[str, Any], *, versions: dict[str, int | None], keep_head: bool = False
    ) -> dict[str, Any]:
        """`record` with table versions that someone else wrote, such as those of a published night.

        The head (windows, configuration, code) is always that of the last step; steps that were computed with other
        windows leave the manifest, so that no later step can take their tables for this run's. `keep_head`: what is
        recorded computed nothing, so the head stays that of who did.
        """
        with self.store.documents.lock(f"manifest-{self.run.key}", brief=True):
            manifest = self.manifest()
            manifest = manifest if keep_head else with_head(manifest, self._head())
            at = {"finished_at": self.now().isoformat(timespec="seconds"), "settings": manifest["config_sha256"]}
            manifest["steps"][step] = {**summary, **at}
            manifest["tables"].update(versions)
            self.store.write_json(f"{self.folder}/manifest.json", manifest)
        return summary

    def table_version(self, table: str) -> int:
        """Version of a table that this run's own steps recorded; NotThereError names the missing step's table."""
        version = self.manifest()["tables"].get(table)
        if version is None:
            raise NotThereError(f"run {self.run.key} has not written {table}: run the step before this one first")
        return version

    def read(self, table: str, *, columns: list[str] | None = None, **where: Any) -> Any:
        """Rows of this run's recorded version of a table; `where` names partition columns."""
        return self.store.read(table, version=self.table_version(table), where=where, columns=columns)

    def _fresh(self) -> dict[str, Any]:
        created = self.now().isoformat(timespec="seconds")
        return {**self._head(), "created_at": created, "tables": {}, "steps": {}}

    def _head(self) -> dict[str, Any]:
        run = self.run
        return {
            "run": run.key,
            "launch_id": run.launch_id,
            "as_of": run.as_of.isoformat(),
            "cut": run.cut.isoformat(),
            "windows": {
                "evidence": [run.evidence.start.isoformat(), run.evidence.end.isoformat()],
                "evaluation": [run.evaluation.start.isoformat(), run.evaluation.end.isoformat()]
                if run.evaluation
                else None,
                "gap_days": run.gap_days,
            },
            "config_sha256": self.settings.sha256(),
            "config": self.settings.recorded(),
            "code_sha256": code_sha256(),
            "prompts_sha256": folder_sha256(prompts_folder(self.settings)),
            "normalisation": NORMALISATION,
            "versions": versions(),
            "simulated": self.settings.report.simulated,
        }


_JOBS = Path(__file__).resolve().parents[1]
_OF_WINDOWS = ("propensity", "evidence", "pages", "cards", "judging", "reports")
_OF_WINDOWS_TABLES = ("propensities", "evidence", "pages", "cards", "judgments", "metrics")


def with_head(manifest: dict[str, Any], head: dict[str, Any]) -> dict[str, Any]:
    """The manifest under a new head; what other windows gave is left out of its steps and tables."""
    if manifest["windows"] == head["windows"]:
        return {**manifest, **head}
    steps = {k: v for k, v in manifest["steps"].items() if k.split(".")[0] not in _OF_WINDOWS}
    tables = {k: v for k, v in manifest["tables"].items() if k not in _OF_WINDOWS_TABLES}
    return {**manifest, **head, "steps": steps, "tables": tables}


def past(manifest: dict[str, Any], settings: Settings) -> tuple[Settings, Run]:
    """Settings and run as a manifest recorded them, with the store, root and Spark of now.

    A setting that is unknown now is left out; without a recorded configuration it is that of now. SettingsError if a
    value that was recorded is none any more.
    """
    here = {"root": settings.root, "store": settings.store, "spark": settings.spark.model_dump(),
            "housekeeping": settings.housekeeping.model_dump()}  # fmt: skip
    then = _settings_of({**manifest["config"], **here}) if "config" in manifest else settings
    windows, day = manifest["windows"], date.fromisoformat
    run = Run(
        key=manifest["run"],
        cut=day(manifest["cut"]),
        as_of=day(manifest["as_of"]),
        evidence=Window(*map(day, windows["evidence"])),
        evaluation=Window(*map(day, windows["evaluation"])) if windows["evaluation"] else None,
        gap_days=windows["gap_days"],
        launch_id=manifest["launch_id"],
    )
    return then, run


def _settings_of(config: dict[str, Any]) -> Settings:
    body = json.loads(json.dumps(config))
    try:
        return Settings.model_validate(body)
    except ValidationError as error:
        unknown = [one["loc"] for one in error.errors() if one["type"] == "extra_forbidden"]
    for *way, last in unknown:
        held = body
        for key in way:
            held = held[key]
        del held[last]
    try:
        return Settings.model_validate(body)
    except ValidationError as error:
        raise SettingsError(f"the recorded settings are none any more: {error.errors()[0]['msg']}") from None


def prompts_folder(settings: Settings) -> str:
    """Where the judge's rubric and templates stand: the user's own folder, or the packaged one."""
    return settings.path(settings.judging.prompts) or str(_JOBS / "judging" / "prompts")


@cache
def code_sha256() -> str:
    """Hash of the code and packaged data of jobs and schemas: the version of the code, finer than its number."""
    digests = [folder_sha256(str(folder)) for folder in (_JOBS, _JOBS.parent / "schemas")]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def folder_sha256(folder: str) -> str:
    """Hash of the names and contents of a folder's files, byte code left out; of an empty or missing folder too."""
    found = hashlib.sha256()
    root = Path(folder)
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        found.update(f"{path.relative_to(root).as_posix()}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def versions() -> dict[str, str]:
    """Versions of Hindcast, Python and the packages behind the figures; missing packages are left out."""
    found = {"hindcast": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def run_of(settings: Settings, store: Store, *, day: date | None, launch: str | None) -> Run:
    """The run that a command means: a night by day, or a launch whose parameters stand in the store."""
    if launch is None and day is not None:
        return Run.night(day, lengths=settings.windows.lengths)
    path = f"launches/{launch}/launch.json"
    if not store.exists(path):
        raise NotThereError(
            f"launch {launch!r} is unknown in {store.uri}: run `hindcast launch forecast --id {launch}` first"
        )
    body = store.read_json(path)
    lengths = settings.windows.model_copy(update=body.get("windows", {})).lengths
    return Run.launch(body["launch_id"], start=date.fromisoformat(body["start"]), lengths=lengths)

"""`hindcast housekeeping`: small files, versions that nobody names any more, expired quarantine, old runs of a store.

What it keeps is decided by the manifests: every table version that a kept run or published.json names stays readable,
so `hindcast reproduce` works for each kept run. Age is counted in days of the log, back from the newest night: a store
whose log stopped loses nothing. Reports are always kept. What was removed is logged under housekeeping/ in the store.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import typer

from jobs.core import cli
from jobs.core.progress import Progress
from jobs.core.publish import PATH
from jobs.core.settings import Housekeeping, Settings
from jobs.core.storage import is_object_store
from jobs.core.tables import Store
from jobs.core.upkeep import compact, vacuum
from jobs.impressions import quarantine
from jobs.impressions.days import range_cuts
from schemas.catalog import TABLES
from schemas.catalog import table as declared

housekeeping_app = typer.Typer(help="Small files, old versions and old runs of a store.", no_args_is_help=True)

RetainOption = Annotated[int, typer.Option("--retain-days", min=0, help="Keep runs of so many days; 0: setting.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]

HISTORY = ("metrics", "launches")
"""Small tables that tell what was: rows of expired runs stay in them, as their reports stay."""

RANGED = ("daily_counts", "daily_users")
"""Their row groups are cut at the key ranges that tasks read."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """A store to look after: how much to keep, whether to change anything, and whom to tell."""

    store: Store
    settings: Settings
    rules: Housekeeping
    dry_run: bool
    progress: Progress


def keep_house(work: Work) -> dict[str, Any]:
    """All of it, in the order in which it may be cut off: references go before what they point to.

    Nobody ingests or forgets meanwhile (their lock is held); nights that compute may go on.
    """
    with work.store.documents.lock("housekeeping"), work.store.documents.lock("impressions"):
        done: dict[str, Any] = {"dry_run": work.dry_run, "retain_days": work.rules.retain_days}
        for name, step in STEPS.items():
            with work.progress.step(f"housekeeping.{name}") as counts:
                done[name] = step(work)
                counts.update(_totals(done[name]))
    return done


# --- runs ---


def manifests(store: Store) -> dict[str, dict[str, Any]]:
    """The manifest of every run that has one."""
    paths = {key: f"runs/{key}/manifest.json" for key in store.documents.list("runs")}
    return {key: store.read_json(path) for key, path in paths.items() if store.exists(path)}


def newest(store: Store, found: dict[str, dict[str, Any]]) -> date | None:
    """The night that age is counted from: the latest published one (nights without rows are none), else the last."""
    latest = store.read_json(PATH)["latest_night"] if store.exists(PATH) else None
    nights = [latest] if latest in found else [key for key in found if key.startswith("night-")]
    return max((date.fromisoformat(found[key]["as_of"]) for key in nights), default=None)


def expired(found: dict[str, dict[str, Any]], *, until: date | None, retain_days: int) -> list[str]:
    """Runs whose last day lies more than `retain_days` before `until`, oldest first.

    A launch that still waits for its outcome never expires.
    """
    if until is None:
        return []
    first = (until - timedelta(days=retain_days)).isoformat()
    waiting = {k for k, m in found.items() if k.startswith("launch-") and "reports.outcome" not in m["steps"]}
    old = [key for key, m in found.items() if m["as_of"] < first and key not in waiting]
    return sorted(old, key=lambda key: found[key]["as_of"])


def expire_runs(work: Work) -> dict[str, Any]:
    """Take expired runs out of published.json, their rows out of the tables, their folders out of the store."""
    found = manifests(work.store)
    keys = expired(found, until=newest(work.store, found), retain_days=work.rules.retain_days)
    rows = {key: _rows(work.store, key) for key in keys}
    if keys and not work.dry_run:
        _unpublish(work.store, keys)
        for key in keys:
            _drop_rows(work.store, key)
            work.store.documents.delete(f"runs/{key}")
    return {"runs": keys, "rows": sum(rows.values()), "kept": len(found) - len(keys)}


def _unpublish(store: Store, keys: list[str]) -> None:
    if not store.exists(PATH):
        return
    with store.documents.lock("published", brief=True):
        body = store.read_json(PATH)
        runs = {key: entry for key, entry in body["runs"].items() if key not in keys}
        store.write_json(PATH, {**body, "runs": runs})


def _of_runs() -> list[str]:
    return [name for name, spec in TABLES.items() if "run" in spec.partition and name not in HISTORY]


def _rows(store: Store, key: str) -> int:
    return sum(f.rows for name in _of_runs() for f in store.files(name, where={"run": key}))


def _drop_rows(store: Store, key: str) -> None:
    for name in _of_runs():
        gone = {tuple(f.partition.items()): f.partition for f in store.files(name, where={"run": key})}
        if gone:
            store.commit_files(name, [], replaced=list(gone.values()))


# --- quarantine and leftovers ---


def expire_quarantine(work: Work) -> dict[str, Any]:
    """Delete refused rows older than privacy.rejected_days before the newest night (each night does so too)."""
    until = newest(work.store, manifests(work.store))
    if until is None:
        return {"rows": 0}
    before = quarantine.expiry(until, rejected_days=work.settings.privacy.rejected_days)
    files = work.store.files(quarantine.TABLE)
    rows = sum(f.rows for f in files if f.partition["run_day"] < before.isoformat())
    return {"rows": rows if work.dry_run else quarantine.expire(work.store, before=before)}


def drop_staging(work: Work) -> dict[str, Any]:
    """Delete what killed ingestions staged: none runs while their lock is held (object stores have none: kept)."""
    folders = [] if is_object_store(work.store.uri) else work.store.documents.list("staging")
    for name in folders if not work.dry_run else []:
        work.store.documents.delete(f"staging/{name}")
    return {"folders": folders}


# --- files ---


def compact_tables(work: Work) -> dict[str, Any]:
    """Join small files of every table, in its own layout; tables where there was nothing to do are left out."""
    small = work.rules.small_mib << 20
    found = {}
    for name in TABLES:
        cuts = range_cuts_of if name in RANGED else no_cuts
        found[name] = compact(work.store, name, small=small, cuts=cuts, dry_run=work.dry_run)
    return {name: counts for name, counts in found.items() if any(counts.values())}


def range_cuts_of(rows: Any) -> list[int]:
    """Row groups of daily tables: the equal key ranges that tasks read."""
    return range_cuts(rows["query_key"])


def no_cuts(rows: Any) -> list[int]:
    """Every other table: one row group a file."""
    return []


def versions_named(store: Store) -> dict[str, set[int]]:
    """Versions that published.json or the manifest of an existing run names, by table."""
    bodies = list(manifests(store).values())
    bodies += list(store.read_json(PATH)["runs"].values()) if store.exists(PATH) else []
    named: dict[str, set[int]] = {}
    for table, version in ((t, v) for body in bodies for t, v in body["tables"].items()):
        if version is not None and table in TABLES:
            named.setdefault(declared(table).name, set()).add(version)
    return named


def vacuum_tables(work: Work) -> dict[str, Any]:
    """Delete files that no named version holds; versions that a run names and that are gone already are listed."""
    named = versions_named(work.store)
    found = {
        name: vacuum(work.store, name, keep=named.get(name, ()), hours=work.rules.grace_hours, dry_run=work.dry_run)
        for name in TABLES
    }
    return {name: counts for name, counts in found.items() if any(counts.values())}


STEPS = {
    "runs": expire_runs,
    "quarantine": expire_quarantine,
    "staging": drop_staging,
    "compaction": compact_tables,
    "vacuum": vacuum_tables,
}


def _totals(done: dict[str, Any]) -> dict[str, Any]:
    """Counts of one part for its log line: numbers summed over tables, lists counted."""
    totals: dict[str, Any] = {}
    for key, value in done.items():
        parts = value.items() if isinstance(value, dict) else [(key, value)]
        for name, one in parts:
            totals[name] = totals.get(name, 0) + (len(one) if isinstance(one, list) else one)
    return totals


@cli.command(
    housekeeping_app, "housekeeping", example="hindcast housekeeping --config hindcast.toml --retain-days 90 --dry-run"
)
def housekeeping(
    config: cli.ConfigOption = "",
    retain_days: RetainOption = 0,
    dry_run: DryRunOption = False,
    json_: cli.JsonOption = False,
) -> None:
    """Join small files, delete what no kept run needs, expire quarantine and old runs; the log of it stays."""
    settings = cli.settings_of(config)
    rules = settings.housekeeping.model_copy(update={"retain_days": retain_days} if retain_days else {})
    store = Store(settings.store_uri)
    done = keep_house(Work(store=store, settings=settings, rules=rules, dry_run=dry_run, progress=Progress()))
    if not dry_run:
        now = datetime.now(UTC)
        store.write_json(f"housekeeping/{now:%Y%m%dT%H%M%S}.json", {**done, "at": now.isoformat(timespec="seconds")})
    cli.finish(done, as_json=json_)

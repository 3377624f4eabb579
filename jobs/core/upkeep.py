"""Upkeep of one table: small files joined in the table's own layout, files deleted that no kept version holds."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl
from deltalake import Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from jobs.core.errors import ContractError, NotThereError
from jobs.core.storage import rust_uri
from jobs.core.tables import NO_CLEANUP, DataFile, Store, read_files, stage
from schemas.catalog import table as declared
from schemas.contract import Table

LARGEST = 128 << 20
"""Bytes of a partition that one process still joins in memory; larger ones have files of a good size anyway."""

Cuts = Callable[[pl.DataFrame], list[int]]


def compact(store: Store, table: str, *, small: int, cuts: Cuts, dry_run: bool) -> dict[str, int]:
    """Make one file of every partition whose files are on average smaller than `small` bytes; the rows stay.

    Files come out sorted by the contract's `sorted_by`, their row groups cut where `cuts` says. A partition that
    someone replaces meanwhile stays theirs, and is counted as busy.
    """
    done = {"partitions": 0, "files": 0, "bytes": 0, "busy": 0}
    for files in _crowded(store, table, small):
        if dry_run or _join(store, table, files, cuts):
            done["partitions"] += 1
            done["files"] += len(files) - 1
            done["bytes"] += sum(f.size for f in files)
        else:
            done["busy"] += 1
    return done


def _crowded(store: Store, table: str, small: int) -> list[list[DataFile]]:
    groups: dict[tuple, list[DataFile]] = defaultdict(list)
    for file in store.files(table):
        groups[tuple(file.partition.items())].append(file)
    sizes = {key: sum(f.size for f in files) for key, files in groups.items()}
    return [files for key, files in groups.items() if len(files) > 1 and sizes[key] < min(LARGEST, small * len(files))]


def _join(store: Store, table: str, files: list[DataFile], cuts: Cuts) -> bool:
    """One commit over the version that was read: if any other came between, the log refuses it and nothing changes."""
    spec, partition = declared(table), files[0].partition
    found = store.delta(table)
    there = [f for f in store.live_files(table, found) if f.partition == partition]
    if [f.uri for f in there] != [f.uri for f in files]:
        return False
    rows = joined(spec, files)
    new = stage(store.table_uri(table), spec, rows, partition=partition, cuts=cuts(rows))
    action = AddAction(new.path, new.size, dict(new.partition), int(time.time() * 1000), False, new.stats)
    filters = [(p, "=", v) for p, v in partition.items()] or None
    try:
        found.create_write_transaction([action], mode="overwrite", schema=Schema.from_arrow(spec.arrow()),
                                       partition_by=list(spec.partition), partition_filters=filters,
                                       post_commithook_properties=NO_CLEANUP)  # fmt: skip
    except (CommitFailedError, DeltaError):
        store.documents.delete(f"tables/{table}/{new.path}")
        return False
    return True


def joined(spec: Table, files: list[DataFile]) -> pl.DataFrame:
    """All rows of the files in the table's order; ContractError if their number is not what the log says."""
    rows = read_files(spec, files)
    if rows.height != sum(f.rows for f in files):
        raise ContractError(f"{spec.name}: {rows.height} rows read where the log counts others: restore the table")
    return rows.sort(spec.sorted_by, maintain_order=True) if spec.sorted_by else rows


def vacuum(store: Store, table: str, *, keep: Iterable[int], hours: int, dry_run: bool) -> dict[str, Any]:
    """Delete files that neither the newest version nor a version of `keep` holds, and that are older than `hours`.

    Versions of `keep` that do not exist any more are returned as `missing`.
    """
    found = store.delta(table)
    if found is None:
        return {"files": 0, "bytes": 0, "missing": []}
    wanted = sorted(set(keep) | {found.version()})
    there = [v for v in wanted if _exists(store, table, v)]
    options = {"retention_hours": hours, "enforce_retention_duration": False, "full": True, "keep_versions": there}
    gone = found.vacuum(dry_run=True, **options)
    size = sum(store.documents.size(f"tables/{table}/{path}") for path in gone)
    if gone and not dry_run:
        found.vacuum(dry_run=False, post_commithook_properties=NO_CLEANUP, **options)
    return {"files": len(gone), "bytes": size, "missing": sorted(set(wanted) - set(there))}


def _exists(store: Store, table: str, version: int) -> bool:
    try:
        return store.delta(table, version=version) is not None
    except NotThereError:
        return False


def whole(store: Store, table: str, version: int) -> bool:
    """True if the version can be opened and every file that it names is there."""
    try:
        files = store.files(table, version=version)
    except NotThereError:
        return False
    root = rust_uri(store.documents.root)
    return all(store.exists(rust_uri(f.uri).removeprefix(f"{root}/")) for f in files)

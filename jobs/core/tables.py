"""The only access to Delta tables. All commits go through delta-rs; heavy steps write their files in Spark tasks.

A write replaces literal partitions and nothing else, in one commit, after the rows were checked against their contract.
Reads name a version; deletion vectors and column mapping stay off, so that Spark and delta-rs read the same files.
"""

import itertools
import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    Transaction,
    create_table_with_add_actions,
)
from pyarrow.fs import FileSelector
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from jobs.core.contracts import check_readable, check_writable
from jobs.core.errors import ConflictError, ContractError, NotThereError
from jobs.core.storage import Files, filesystem, rust_uri, storage_options
from jobs.core.table_files import DataFile, data_file, read_files, scan_files, scan_uris, str_of
from schemas.catalog import table as declared
from schemas.contract import Table

__all__ = ["DataFile", "StagedFile", "Store", "read_files", "scan_files", "scan_uris", "stage"]

KEPT_LOG = {"delta.logRetentionDuration": "interval 36500 days", "delta.enableExpiredLogCleanup": "false"}
"""Manifests name versions for as long as their runs are kept; by default the log forgets versions after 30 days."""

NO_CLEANUP = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
"""The same for tables that were made without those properties."""

WRITER = "hindcast"
"""One application for all commits to a table: two that saw the same version conflict, and the later one looks again.
Without it delta-rs lets both stand where neither removed a file, as two runs do that fill a partition for the first
time."""

Where = Mapping[str, Any]
"""Partition column to a literal, or to a list of literals."""


@dataclass(frozen=True, kw_only=True)
class StagedFile:
    """A file that a task has written below its table and that no version knows yet; plain values, safe to pickle."""

    path: str
    partition: dict[str, str]
    rows: int
    size: int
    stats: str

    def as_dict(self) -> dict:
        """Plain dict, as tasks return it."""
        return asdict(self)


class Store:
    """A store: Delta tables under tables/, documents beside them. Open one per process and pass it in."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self.files_ = Files(self.uri)

    # --- documents -------------------------------------------------------------------------------------------------

    @property
    def documents(self) -> Files:
        """JSON documents and folders of the store (manifests, ledgers, reports, published.json)."""
        return self.files_

    def read_json(self, path: str) -> Any:
        """A JSON document of the store; NotThereError if it does not exist."""
        return self.files_.read_json(path)

    def write_json(self, path: str, value: Any) -> None:
        """Replace a JSON document atomically."""
        self.files_.write_json(path, value)

    def exists(self, path: str) -> bool:
        """True if the document or folder exists."""
        return self.files_.exists(path)

    # --- tables: reading -------------------------------------------------------------------------------------------

    def table_uri(self, table: str) -> str:
        """Root of a declared table; KeyError (as NotThereError) for a name that no contract declares."""
        return self.files_.uri(f"tables/{declared(table).name}")

    def version(self, table: str) -> int | None:
        """Newest version, or None if nothing was ever committed."""
        found = self._open(table, None, missing_ok=True)
        return None if found is None else found.version()

    def files(self, table: str, *, version: int | None = None, where: Where | None = None) -> list[DataFile]:
        """Live files of the version whose partition values match `where`, in a stable order; empty if no table."""
        found = self._open(table, version, missing_ok=version is None)
        return [] if found is None else [f for f in self.live_files(table, found) if _matches(f.partition, where or {})]

    def live_files(self, table: str, found: DeltaTable) -> list[DataFile]:
        """Every live file of an opened version, in a stable order."""
        rows = pl.DataFrame(found.get_add_actions(flatten=True)).to_dicts()
        files = (data_file(self.table_uri(table), declared(table).partition, row) for row in rows)
        return sorted(files, key=lambda f: f.uri)

    def delta(self, table: str, *, version: int | None = None) -> DeltaTable | None:
        """The opened table at a version (None: the newest), for upkeep; None if nothing was ever committed."""
        return self._open(table, version, missing_ok=version is None)

    def read(
        self,
        table: str,
        *,
        version: int | None = None,
        where: Where | None = None,
        columns: list[str] | None = None,
    ) -> pl.DataFrame:
        """Rows of the matching partitions as a polars frame with the declared columns, partition columns included.

        For small tables: big ones are read file by file in tasks. A table that does not exist yet reads as empty.
        """
        return read_files(declared(table), self.files(table, version=version, where=where), columns=columns)

    # --- tables: writing -------------------------------------------------------------------------------------------

    def replace(self, table: str, frame: pl.DataFrame, *, where: Mapping[str, Any]) -> int:
        """Replace exactly the partition named by `where` (every partition column, literal) with `frame`.

        Returns the new version. Raises ContractError listing every mismatch; an empty frame empties the partition.
        """
        spec = declared(table)
        literal = {p: str_of(where[p]) for p in spec.partition}
        fixed = frame.with_columns(pl.lit(where[p]).alias(p) for p in spec.partition if p not in frame.columns)
        for p in spec.partition:
            _check_partition(spec, fixed, p, literal[p])
        staged = [stage(self.table_uri(table), spec, fixed, partition=literal)] if fixed.height else []
        return self.commit_files(table, staged, replaced=[literal])

    def commit_files(self, table: str, staged: Iterable[StagedFile | dict], *, replaced: list[dict[str, Any]]) -> int:
        """Make staged files the only content of the `replaced` partitions, one commit a group of equal corpora.

        `replaced` lists literal partitions (every partition column); a partition without files is emptied. A partition
        that `staged` holds and `replaced` does not is a ContractError. Bounded retries on concurrent commits.
        """
        spec = declared(table)
        files = [f if isinstance(f, StagedFile) else StagedFile(**f) for f in staged]
        literal = [{p: str_of(r[p]) for p in spec.partition} for r in replaced]
        strangers = [f.partition for f in files if f.partition not in literal]
        if strangers:
            raise ContractError(f"{table}: files of partition {strangers[0]} were staged but it is not being replaced")
        self._check_there(table, files)
        version = self.version(table)
        for group in _grouped(spec, literal):
            version = self._commit(table, [f for f in files if f.partition in group], group)
        return -1 if version is None else version

    def vacuum(self, table: str) -> int:
        """Delete every file that the newest version does not hold; returns how many.

        Older versions cannot be read afterwards: only for forgetting, which moves all references to the newest version.
        """
        found = self._open(table, None, missing_ok=True)
        gone = [] if found is None else found.vacuum(0, dry_run=False, enforce_retention_duration=False)
        return len(gone)

    def _check_there(self, table: str, files: list[StagedFile]) -> None:
        """ContractError unless every staged file is in the store as seen from here: executors may see another disk."""
        there = {f.path: self.files_.size(f"tables/{table}/{f.path}") for f in files}
        lost = [f"{f.path} ({there[f.path]} of {f.size} bytes)" for f in files if there[f.path] != f.size]
        if lost:
            raise ContractError(
                f"{table}: {len(lost)} of {len(files)} files that tasks wrote are not in {self.uri} as seen from here,"
                f" such as {lost[0]}: driver and executors need one shared store; nothing was committed"
            )

    def _commit(self, table: str, files: list[StagedFile], replaced: list[dict[str, str]]) -> int:
        attempts = Retrying(
            retry=retry_if_exception_type((CommitFailedError, ConflictError)),
            stop=stop_after_attempt(24),
            wait=wait_random_exponential(multiplier=0.05, max=2),
            reraise=True,
        )
        try:
            return attempts(self._commit_once, table, files, replaced)
        except (CommitFailedError, DeltaError) as error:
            raise ConflictError(f"{table}: commit of {replaced[:1]} failed: {error}; run the step again") from error

    def _commit_once(self, table: str, files: list[StagedFile], replaced: list[dict[str, str]]) -> int:
        spec, now = declared(table), int(time.time() * 1000)
        actions = [AddAction(f.path, f.size, dict(f.partition), now, True, f.stats) for f in files]
        found = self._open(table, None, missing_ok=True)
        schema = Schema.from_arrow(spec.arrow())
        if found is None:
            return self._create(table, schema, actions)
        check_writable(spec, found)
        filters = [(p, "in", sorted({r[p] for r in replaced})) for p in spec.partition] if spec.partition else None
        found.create_write_transaction(
            actions,
            mode="overwrite",
            schema=schema,
            partition_by=list(spec.partition),
            partition_filters=filters,
            commit_properties=CommitProperties(app_transactions=[Transaction(WRITER, found.version() + 1)]),
            post_commithook_properties=NO_CLEANUP,
        )
        found.update_incremental()
        return found.version()

    def _create(self, table: str, schema: Schema, actions: list[AddAction]) -> int:
        """The table's first version; ConflictError where another writer has made it meanwhile."""
        uri = rust_uri(self.table_uri(table))
        filesystem(self.uri)[0].create_dir(filesystem(self.table_uri(table))[1], recursive=True)
        try:
            create_table_with_add_actions(
                uri,
                schema,
                actions,
                mode="error",
                partition_by=list(declared(table).partition),
                configuration=KEPT_LOG,
                storage_options=storage_options(uri),
            )
        except DeltaError as error:
            if self._open(table, None, missing_ok=True) is None:
                raise
            raise ConflictError(f"{table}: made by another writer meanwhile; run the step again") from error
        return 0

    def _open(self, table: str, version: int | None, *, missing_ok: bool) -> DeltaTable | None:
        spec, uri = declared(table), rust_uri(self.table_uri(table))
        try:
            found = DeltaTable(uri, version=version, storage_options=storage_options(uri))
        except TableNotFoundError:
            if missing_ok:
                return None
            raise NotThereError(f"table {table} has no version {version} in {self.uri}: run its step first") from None
        except DeltaError as error:
            raise self._broken(table, version, _first_line(error)) from None
        hollow = _hollow_commits(self.table_uri(table), newest=found.version())
        if hollow:  # opens without complaint, and without the rows of that commit
            raise self._broken(table, version, f"its commit {hollow[0]} is an empty file")
        check_readable(spec, found)
        return found

    def _broken(self, table: str, version: int | None, detail: str) -> NotThereError:
        what = f"table {table} {f'version {version} ' if version is not None else ''}in {self.uri}"
        return NotThereError(
            f"{what} cannot be opened ({detail}): restore its _delta_log from a copy, or name a version that"
            " `hindcast status` lists"
        )


def _hollow_commits(table_uri: str, *, newest: int) -> list[str]:
    """Commits up to `newest` that hold nothing at all, as a disk leaves them that lost what it had not yet written."""
    fs, inner = filesystem(table_uri)
    files = fs.get_file_info(FileSelector(f"{inner}/_delta_log", allow_not_found=True))
    commits = [f.base_name for f in files if f.extension == "json" and not f.size and f.base_name[:-5].isdigit()]
    return sorted(name for name in commits if int(name[:-5]) <= newest)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def stage(
    table_uri: str,
    spec: Table,
    frame: pl.DataFrame,
    *,
    partition: Mapping[str, Any],
    cuts: list[int] | None = None,
    compression: str = "zstd",
) -> StagedFile:
    """Write `frame` as one Parquet file of one partition below `table_uri`, after checking it against the contract.

    Pure of any session: runs in Spark tasks as well as in the driver. `cuts` are row numbers at which a new row group
    starts (ascending, without 0), so that a reader can prune by key range. Returns what a commit needs.
    """
    literal = {p: str_of(partition[p]) for p in spec.partition}
    fixed = frame.select(spec.names) if set(spec.names) == set(frame.columns) else frame
    problems = spec.problems(fixed)
    if problems:
        raise ContractError("; ".join(problems))
    folder = "/".join(f"{p}={literal[p]}" for p in spec.partition)
    path = f"{folder}/part-{uuid.uuid4().hex}.parquet".lstrip("/")
    data = fixed.select(n for n in spec.names if n not in spec.partition).to_arrow().cast(spec.arrow(partitions=False))
    size = _write_parquet(f"{table_uri}/{path}", data, cuts=cuts or [], compression=compression)
    return StagedFile(path=path, partition=literal, rows=data.num_rows, size=size, stats=_stats(spec, fixed))


def _write_parquet(uri: str, data: pa.Table, *, cuts: list[int], compression: str) -> int:
    """Dictionaries only where values repeat: trying them on measures and lists took a third of the writing time."""
    repeating = [f.name for f in data.schema if not (pa.types.is_floating(f.type) or pa.types.is_list(f.type))]
    fs, inner = filesystem(uri)
    fs.create_dir(inner.rsplit("/", 1)[0], recursive=True)
    with (
        fs.open_output_stream(inner, compression=None) as stream,
        pq.ParquetWriter(stream, data.schema, compression=compression, use_dictionary=repeating) as writer,
    ):
        for start, end in itertools.pairwise([0, *cuts, data.num_rows]):
            if end > start:
                writer.write_table(data.slice(start, end - start), row_group_size=end - start)
    return fs.get_file_info(inner).size


def _matches(partition: dict[str, str], where: Where) -> bool:
    for name, value in where.items():
        allowed = {str_of(v) for v in value} if isinstance(value, list | tuple | set | frozenset) else {str_of(value)}
        if partition[name] not in allowed:
            return False
    return True


def _grouped(spec: Table, replaced: list[dict[str, str]]) -> list[list[dict[str, str]]]:
    """Partitions in groups whose partition filters (a cross product) match exactly the group."""
    if len(spec.partition) < 2:
        return [replaced] if replaced else []
    groups: dict[tuple, list[dict[str, str]]] = {}
    for r in replaced:
        groups.setdefault(tuple(r[p] for p in spec.partition[1:]), []).append(r)
    return list(groups.values())


def _check_partition(spec: Table, frame: pl.DataFrame, column: str, literal: str) -> None:
    found = {str_of(v) for v in frame.get_column(column).unique().to_list()}
    if not found <= {literal}:
        others = sorted(found - {literal})
        raise ContractError(f"{spec.name}.{column}: rows of {others[0]!r} in a write of partition {literal!r}")


def _stats(spec: Table, frame: pl.DataFrame) -> str:
    kinds = ("bigint", "int", "double", "date", "boolean")
    names = [c.name for c in spec.columns if c.type in kinds[:4] and c.name not in spec.partition]
    low, high = frame.select(names).min().row(0, named=True), frame.select(names).max().row(0, named=True)
    nulls = frame.select(n for n in spec.names if n not in spec.partition).null_count().row(0, named=True)
    body = {
        "numRecords": frame.height,
        "minValues": {k: _text_or_number(v) for k, v in low.items() if v is not None},
        "maxValues": {k: _text_or_number(v) for k, v in high.items() if v is not None},
        "nullCount": nulls,
    }
    return json.dumps(body)


def _text_or_number(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value

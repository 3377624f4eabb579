"""Which files a source has, which of them are new, and what is remembered of those that were read."""

import fnmatch
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import unquote

import polars as pl

from jobs.core.errors import InputError
from jobs.core.keys import key_hex, key_of
from jobs.core.storage import filesystem, is_object_store, rust_uri, storage_options
from jobs.core.tables import Store

_WILD = re.compile(r"[*?\[{]")
_DAY = r"(?P<day>\d{4}-\d{2}-\d{2})"


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file of a source: its address, size, time of change, and the arrival day that its path names (or None).

    A replayed file stands in for `origin`, whose rows it holds; `numbers` is a staged frame of their line numbers
    there.
    `constants` are the values of a table's partition, or of folders named NAME=VALUE, as text ("01" stays "01").
    """

    uri: str
    size: int
    modified: str
    arrival_day: str | None = None
    origin: str = ""
    numbers: str = ""
    constants: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where the rows came from."""
        return self.origin or self.uri

    @property
    def key(self) -> int:
        """Key of the address: how documents and refused rows name their file."""
        return key_of(self.address)


def list_files(path: str) -> list[InputFile]:
    """Files of a path, folder or glob, sorted; `{day}` in it stands for an arrival day. InputError if none match.

    Files whose names begin with '.' or '_' are bookkeeping of other systems and left out, as are empty folders.
    """
    found = _folder_files(path) if not _WILD.search(path) else _matching(path)
    if not found:
        raise InputError(f"{path}: no file matches: check the path of the source")
    return sorted(found, key=lambda f: (f.arrival_day or "", f.uri))


def list_table(uri: str) -> list[InputFile]:
    """Live files of a Delta table; their partition values are constants, as the text that the table holds ("01" stays
    "01").

    InputError if there is no table. A file of a table never changes: its address alone says whether it was read.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        table = DeltaTable(rust_uri(uri), storage_options=storage_options(uri))
    except TableNotFoundError:
        raise InputError(f"{uri}: is no Delta table: check the path of the source") from None
    parts = table.metadata().partition_columns
    rows = pl.DataFrame(table.get_add_actions(flatten=True)).to_dicts()
    return [_table_file(uri, row, parts) for row in sorted(rows, key=lambda r: r["path"])]


def _table_file(uri: str, row: dict, parts: list[str]) -> InputFile:
    values = {p: row[f"partition.{p}"] for p in parts}
    return InputFile(
        uri=f"{uri.rstrip('/')}/{unquote(row['path'])}",
        size=row["size_bytes"],
        modified="",
        constants={p: v.isoformat() if isinstance(v, date) else str(v) for p, v in values.items() if v is not None},
    )


def _folder_files(path: str) -> list[InputFile]:
    from pyarrow import fs

    system, inner = filesystem(path)
    info = system.get_file_info(inner)
    if info.type == fs.FileType.File:
        return [_input(path, info, None)]
    if info.type == fs.FileType.NotFound:
        raise InputError(f"{path}: no such file or folder: check the path of the source")
    return [_input(_uri(path, i.path), i, None) for i in _below(system, inner)]


def _matching(path: str) -> list[InputFile]:
    base = path[: _WILD.search(path).start()].rsplit("/", 1)[0] or "."
    system, inner = filesystem(base)
    _, full = filesystem(path)
    pattern = glob_pattern(full)
    found = []
    for info in _below(system, inner):
        match = pattern.fullmatch(info.path)
        if match:
            found.append(_input(_uri(path, info.path), info, _real_day(match, path)))
    return found


def glob_pattern(path: str) -> re.Pattern[str]:
    """A glob with `{day}` as a regular expression; `*` stays within a folder, `**` does not."""
    out, first = [], True
    for part in re.split(r"(\{day\}|\*\*/|\*|\?|\[[^\]]+\])", path):
        if part == "{day}":
            out.append(_DAY if first else "(?P=day)")
            first = False
        elif part == "**/":
            out.append("(?:.*/)?")
        elif part == "*":
            out.append("[^/]*")
        elif part == "?":
            out.append("[^/]")
        elif part.startswith("[") and part.endswith("]"):
            out.append(fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z"))
        else:
            out.append(re.escape(part))
    return re.compile("".join(out))


def _real_day(match: re.Match[str], path: str) -> str | None:
    if "{day}" not in path:
        return None
    text = match.group("day")
    try:
        date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{match.group()}: {text} is no calendar day: rename the folder or narrow the path") from None
    return text


def _below(system: Any, inner: str) -> list:
    from pyarrow import fs

    infos = system.get_file_info(fs.FileSelector(inner, recursive=True, allow_not_found=True))
    files = [i for i in infos if i.type == fs.FileType.File]
    return [i for i in files if not i.base_name.startswith((".", "_"))]


def _uri(path: str, inner: str) -> str:
    return f"{path.split('://', 1)[0]}://{inner}" if is_object_store(path) else inner


def _input(uri: str, info: Any, day: str | None) -> InputFile:
    changed = info.mtime.astimezone(UTC) if info.mtime else datetime(1970, 1, 1, tzinfo=UTC)
    folders = [part.partition("=") for part in uri.split("/")[:-1]]
    constants = {name: unquote(value) for name, equals, value in folders if equals and name}
    return InputFile(uri=uri, size=info.size or 0, modified=changed.isoformat(), arrival_day=day, constants=constants)


class Ledger:
    """What was ingested of one source: a JSON document an arrival day, or one a file for paths without `{day}`."""

    def __init__(self, store: Store, source: str) -> None:
        self._files = store.documents
        self._folder = f"ingested/{source}"
        names = [n for n in self._files.list(self._folder) if n.endswith(".json")]
        self.entries: dict[str, dict] = {n: self._files.read_json(f"{self._folder}/{n}") for n in names}

    def unread(self, files: list[InputFile]) -> list[InputFile]:
        """Files that are new, or changed in size or time since they were read."""
        known = {(f["uri"], f["size"], f["modified"]) for e in self.entries.values() for f in e["files"]}
        return [f for f in files if (f.uri, f.size, f.modified) not in known]

    def context(self, *, first: date, last: date) -> list[str]:
        """Addresses of kept documents that arrived between the two days."""
        found: dict[str, None] = {}
        for entry in self.entries.values():
            touches = entry["first_arrival"] <= last.isoformat() and entry["last_arrival"] >= first.isoformat()
            if entry["first_arrival"] and touches:
                found.update(dict.fromkeys(entry["documents"]))
        return [self._files.uri(p) for p in found]

    def documents(self) -> list[str]:
        """Addresses of all kept documents."""
        return [self._files.uri(p) for p in sorted({p for e in self.entries.values() for p in e["documents"]})]

    def complete(self, *, first: date) -> bool:
        """True if no documents from `first` on were dropped: searches can then be made anew from documents alone."""
        ends = [e["last_arrival"] for e in self.entries.values() if e.get("dropped")]
        return not ends or max(ends) < first.isoformat()

    def add(self, files: list[InputFile], *, body: dict[str, Any], figures: dict[int, dict]) -> None:
        """Remember files as read, with what `body` says of their ingestion and `figures` of their rows (by file key);
        a file read again replaces its entry."""
        groups: dict[str, list[InputFile]] = {}
        for file in files:
            groups.setdefault(f"{file.arrival_day or key_hex(file.key)}.json", []).append(file)
        for name, members in groups.items():
            old = self.entries.get(name, {"files": [], "documents": [], "first_arrival": "", "last_arrival": ""})
            fresh = {f.uri for f in members}
            kept = [f for f in old["files"] if f["uri"] not in fresh]
            told = {key_hex(f.key): figures[f.key] for f in members if f.key in figures}
            held = {k: v for k, v in old.get("figures", {}).items() if k in {key_hex(key_of(f["uri"])) for f in kept}}
            self._write(name, _merged(old, body) | {"files": [*kept, *map(asdict, members)], "figures": held | told})

    def figures(self, day: date) -> dict | None:
        """What became of the rows of the files that hold an arrival day; None if none is known."""
        text = day.isoformat()
        own = self.entries.get(f"{text}.json")
        near = [
            e for e in self.entries.values() if e["first_arrival"] and e["first_arrival"] <= text <= e["last_arrival"]
        ]
        found = [f for e in ([own] if own else near) for f in e.get("figures", {}).values()]
        return summed(found) if found else None

    def add_documents(self, name: str, *, body: dict[str, Any]) -> None:
        """Remember documents that came by another way than as a file of their own, such as a replay."""
        self._write(f"{name}.json", {"files": [], **body})

    def mark_empty(self, day: str, *, run_id: str) -> None:
        """Remember an arrival day that had no files."""
        nothing = {"files": [], "documents": [], "first_arrival": "", "last_arrival": ""}
        self._write(f"{day}.json", {**nothing, "empty": True, "run_id": run_id})

    def drop_before(self, day: date) -> list[str]:
        """Forget documents of entries whose last arrival is before `day`; returns addresses that nothing refers to
        now."""
        old = {n: e for n, e in self.entries.items() if e["documents"] and e["last_arrival"] < day.isoformat()}
        gone = {p for e in old.values() for p in e["documents"]}
        for name, entry in old.items():
            self._write(name, entry | {"documents": [], "dropped": True})
        used = {p for e in self.entries.values() for p in e["documents"]}
        unused = sorted(gone - used)
        for path in unused:
            self._files.delete(path)
        return unused

    def _write(self, name: str, entry: dict) -> None:
        self.entries[name] = entry
        self._files.write_json(f"{self._folder}/{name}", entry)


def summed(figures: list[dict]) -> dict:
    """Counts of several files as one."""
    rejected = sum((Counter(f["rejected"]) for f in figures), Counter())
    names = ("rows_in", "accepted", "duplicates", "ignored")
    return {n: sum(f[n] for f in figures) for n in names} | {"rejected": dict(sorted(rejected.items()))}


def _merged(old: dict, body: dict[str, Any]) -> dict:
    starts = [d for d in (old["first_arrival"], body["first_arrival"]) if d]
    ends = [d for d in (old["last_arrival"], body["last_arrival"]) if d]
    documents = list(dict.fromkeys([*old["documents"], *body["documents"]]))
    return {**old, **body, "documents": documents, "first_arrival": min(starts, default=""),
            "last_arrival": max(ends, default="")}  # fmt: skip

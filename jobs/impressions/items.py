"""`hindcast items import`: catalogues into the items table; a changed entry becomes a new version, the old one
stays."""

from collections import Counter
from datetime import UTC, date, datetime
from typing import Annotated, Any

import orjson
import polars as pl
import typer

from jobs.core.cli import ConfigOption, JsonOption, command, finish, parse_day, settings_of
from jobs.core.errors import InputError, UsageError
from jobs.core.storage import filesystem
from jobs.core.tables import Store
from jobs.impressions.inputs import InputFile, list_files
from jobs.impressions.lines import Line, read_lines, unpacked
from jobs.impressions.ubi import load
from jobs.impressions.values import item_of
from schemas.logs import ITEMS
from schemas.names import plain_name

app = typer.Typer(help="Item catalogues.", no_args_is_help=True)

ALWAYS = date(1970, 1, 1)
"""First day of an item's first version: what an item is called is taken to hold for all of the past until it
changes."""

MAX_REJECTED = 0.05


@app.callback()
def _group() -> None:
    """Item catalogues."""


@command(app, "import", example="hindcast items import --config hindcast.toml --source items.jsonl --corpus tracks")
def import_command(
    config: ConfigOption = "",
    source: Annotated[str, typer.Option("--source", help="JSON lines: corpus, item_id, title, type, metadata.")] = "",
    corpus: Annotated[str, typer.Option("--corpus", help="Corpus of the items.")] = "",
    store: Annotated[str, typer.Option("--store", help="Store, instead of the declared one.")] = "",
    valid_from: Annotated[str, typer.Option("--valid-from", help="First day of changed entries; default: today.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Read a catalogue into the items table. Unchanged entries are left alone."""
    if not source or not corpus:
        raise UsageError("nothing to import: pass --source FILE and --corpus NAME")
    settings = settings_of(config)
    if plain_name(corpus, kind="corpus") not in settings.corpora:
        known = ", ".join(sorted(settings.corpora)) or "none"
        raise UsageError(f"--corpus {corpus}: {config} declares {known}: add a [corpora.{corpus}] table, or correct it")
    day = parse_day(valid_from, option="--valid-from") if valid_from else datetime.now(UTC).date()
    files = list_files(source)
    opened = Store(store or settings.store_uri)
    finish(import_items(opened, corpus=corpus, files=files, day=day), as_json=as_json)


def run(ctx: Any) -> dict[str, Any]:
    """Import the declared catalogue of every corpus whose files changed since they were last read."""
    found = {}
    for corpus, declared in ctx.settings.corpora.items():
        if declared.items:
            files = list_files(ctx.settings.path(declared.items))
            if not _known(ctx.store, corpus, files):
                found[corpus] = import_items(ctx.store, corpus=corpus, files=files, day=ctx.run.as_of)
    return found


def import_items(store: Store, *, corpus: str, files: list[InputFile], day: date) -> dict[str, Any]:
    """Add new entries and new versions of changed ones; `day` is the first day of a changed version.

    Returns rows_in = accepted + duplicates + rejected, and new, changed and unchanged items. Raises InputError if more
    than 5% of the rows are refused.
    """
    rows, rejected, rows_in = _read_all(files, corpus)
    _check_share(files, rejected, rows_in)
    fresh = rows.unique("item_id", keep="last", maintain_order=True)
    held = store.read("items", where={"corpus": corpus})
    body = ["title", "type", "metadata"]
    latest = held.sort("valid_from").unique("item_id", keep="last")
    same = fresh.join(latest, on=["item_id", *body], how="semi")
    changed = fresh.join(same, on="item_id", how="anti").join(latest, on="item_id", how="semi")
    new = fresh.join(latest, on="item_id", how="anti")
    added = pl.concat([_version(new, corpus, ALWAYS), _version(changed, corpus, day)])
    if added.height:
        kept = held.join(added, on=ITEMS.key, how="anti")
        whole = pl.concat([kept, added]).sort("item_id", "valid_from")
        store.replace("items", whole, where={"corpus": corpus})
    _remember(store, corpus, files)
    return {
        "corpus": corpus, "rows_in": rows_in, "accepted": fresh.height, "duplicates": rows.height - fresh.height,
        "rejected": dict(rejected), "new": new.height, "changed": changed.height, "unchanged": same.height,
    }  # fmt: skip


def _version(rows: pl.DataFrame, corpus: str, day: date) -> pl.DataFrame:
    return rows.with_columns(pl.lit(corpus).alias("corpus"), pl.lit(day).alias("valid_from")).select(ITEMS.names)


def _read_all(files: list[InputFile], corpus: str) -> tuple[pl.DataFrame, Counter, int]:
    rows, rejected, total = [], Counter(), 0
    for file in files:
        fs, path = filesystem(file.uri)
        with fs.open_input_file(path) as stream:
            for line in read_lines(unpacked(stream), name=file.uri):
                total += 1
                row, reason = _item(line, corpus)
                if row is None:
                    rejected[reason] += 1
                else:
                    rows.append(row)
    kinds = dict.fromkeys(("item_id", "title", "type", "metadata"), pl.String)
    return pl.DataFrame(rows, schema=kinds, orient="row"), rejected, total


def _item(line: Line, corpus: str) -> tuple[tuple | None, str]:
    document, reason = load(line)
    if reason is not None:
        return None, reason
    if document.get("corpus", corpus) != corpus:
        return None, "other_corpus"
    item, reason = item_of(document.get("item_id"))
    if item is None:
        return None, reason or "missing_item"
    title, kind, metadata = document.get("title"), document.get("type"), document.get("metadata")
    if not isinstance(title, str) or not title.strip():
        return None, "missing_title"
    if not isinstance(metadata or {}, dict):
        return None, "bad_metadata"
    return (item, title, kind if isinstance(kind, str) else "", _metadata(metadata or {})), ""


def _metadata(values: dict) -> str:
    texts = {k: v if isinstance(v, str) else orjson.dumps(v).decode() for k, v in values.items() if v is not None}
    return orjson.dumps(texts, option=orjson.OPT_SORT_KEYS).decode()


def _check_share(files: list[InputFile], rejected: Counter, rows_in: int) -> None:
    if rejected.total() > MAX_REJECTED * rows_in:
        top = ", ".join(f"{reason} {n}" for reason, n in rejected.most_common(3))
        raise InputError(
            f"{files[0].uri}: {rejected.total()} of {rows_in} items were refused ({top}): each line needs"
            " item_id and title"
        )


def _known(store: Store, corpus: str, files: list[InputFile]) -> bool:
    path = f"ingested/items/{corpus}.json"
    return store.exists(path) and store.read_json(path) == _marks(files)


def _remember(store: Store, corpus: str, files: list[InputFile]) -> None:
    store.write_json(f"ingested/items/{corpus}.json", _marks(files))


def _marks(files: list[InputFile]) -> list[list]:
    return [[f.uri, f.size, f.modified] for f in files]

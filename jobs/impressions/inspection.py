"""`hindcast impressions inspect`: a sample of a log, what it holds, and the [[sources]] block that would read it.

Guesses are printed for a person to check; `ingest` itself never guesses.
"""

import csv
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice

import polars as pl
from pyarrow.fs import FileType

from jobs.core.errors import InputError, UsageError
from jobs.core.storage import filesystem
from jobs.impressions.canonical import join_documents
from jobs.impressions.checks import Rules, check
from jobs.impressions.documents import Kind
from jobs.impressions.guessing import AMOUNTS, LIKELY, SURE, guess, plain
from jobs.impressions.inputs import InputFile, list_files, list_table
from jobs.impressions.layout import FIELDS, OWN_NAMES, Layout
from jobs.impressions.lines import Line, read_lines, unpacked
from jobs.impressions.privacy import make_salt
from jobs.impressions.proposal import Seen
from jobs.impressions.reading import read_batches
from jobs.impressions.ubi import load
from jobs.impressions.values import getter

SAMPLE_LINES = 20_000
"""Read from the start of the first file: seconds of work, and enough to see what a percent of the rows do."""

NEEDED = ("page", "query", "item", "rank", "click")
"""Fields without which a table cannot be read; a time may come from --day."""

_SEEN_AS = {"page": "search_id", "item": "item_id"}

ROLES = {
    "impression": ("impression", "view_item", "item_impression", "product_impression", "seen"),
    "click": ("click", "item_click", "product_click", "result_click", "select_item"),
}
VALUES = {
    "purchase": 1.0,
    "order": 1.0,
    "play": 1.0,
    "add_to_cart": 0.5,
    "save": 0.5,
    "like": 0.5,
    "add_to_playlist": 0.5,
}

_FORMS = {
    "ISO with offset": r"^\d{4}-\d\d-\d\d[T ].*(Z|UTC|[+-]\d\d:?\d\d)$",
    "ISO without offset": r"^\d{4}-\d\d-\d\d[T ][\d:.,]+$",
    "date only": r"^\d{4}-\d\d-\d\d$",
    "epoch milliseconds": r"^\d{13}$",
    "epoch seconds": r"^\d{10}$",
}


def inspect(path: str, *, form: str = "", columns: dict[str, str] | None = None) -> Seen:
    """Read a sample of the files behind a path; InputError where there are none or no row can be read.

    `columns` (field to column) are taken as given; UsageError where a field or a column of them does not exist.
    """
    given = columns or {}
    unknown = sorted(set(given) - set(FIELDS))
    if unknown:
        raise UsageError(
            f"--columns {unknown[0]}={given[unknown[0]]}: {unknown[0]!r} is no field: use {', '.join(FIELDS)}"
        )
    table = form == "delta" or _is_table(path)
    files = list_table(path) if table else list_files(path)
    first = next((f for f in files if f.size), None)
    if first is None:
        raise InputError(f"{path}: every file is empty: nothing to inspect")
    seen = Seen(path=path, files=len(files), format=form or ("delta" if table else _format_of(first)))
    lines = [] if seen.format in ("parquet", "delta") else _sample_lines(first)
    seen.separator = _separator(first, lines) if seen.format == "csv" else ","
    seen.columns = _columns_of(first, seen, lines)
    _check_given(given, seen, lines)
    seen.mapped, seen.unsure = (dict(given), []) if seen.format == "ubi" else guess(seen.columns, given=given)
    _look_at_ubi(seen, lines)
    _try(seen, first)
    _note(seen)
    return seen


def _is_table(path: str) -> bool:
    if any(c in path for c in "*?[{"):
        return False
    fs, inner = filesystem(path)
    return fs.get_file_info(f"{inner.rstrip('/')}/_delta_log").type == FileType.Directory


def _check_given(given: dict[str, str], seen: Seen, lines: list[Line]) -> None:
    """UsageError for a column that no row of the sample has."""
    for field, column in given.items():
        there = column in seen.columns
        if seen.format == "ubi":
            get = getter(column)
            documents = (load(line)[0] for line in lines)
            there = any(type(d) is dict and get(d) is not None for d in documents)
        if not there:
            has = f": it has {', '.join(seen.columns)}" if seen.columns else ""
            raise UsageError(f"--columns {field}={column}: {seen.path} has no {column!r}{has}")


def _format_of(file: InputFile) -> str:
    start = _head(file).removeprefix(b"\xef\xbb\xbf")
    if start.startswith(b"PAR1"):
        return "parquet"
    text = next((line for line in start.split(b"\n") if line.strip()), b"")
    if not text.lstrip().startswith(b"{"):
        return "csv"
    document, _ = load(Line(1, 0, text, False))
    names = {plain(n) for n in document or {}}
    if names & {*SURE["rank"], *LIKELY["rank"]} and names & {*SURE["item"], *LIKELY["item"]}:
        return "jsonl"
    words = (b'"user_query"', b'"action_name"', b'"ubi_', b'"query_response_hit_ids"')
    return "ubi" if any(word in start for word in words) else "jsonl"


def _head(file: InputFile) -> bytes:
    fs, path = filesystem(file.uri)
    with fs.open_input_file(path) as stream:
        return unpacked(stream).read(1 << 16)


def _sample_lines(file: InputFile) -> list[Line]:
    fs, path = filesystem(file.uri)
    with fs.open_input_file(path) as stream:
        return list(islice(read_lines(unpacked(stream), name=file.uri), SAMPLE_LINES))


def _separator(file: InputFile, lines: list[Line]) -> str:
    """The separator that gives the header most fields."""
    header = lines[0].content.decode("utf-8", "replace") if lines else ""
    usual = "\t" if ".tsv" in file.uri else ","
    return max((usual, ",", "\t", ";", "|"), key=lambda s: len(next(csv.reader([header], delimiter=s), [])))


def _columns_of(file: InputFile, seen: Seen, lines: list[Line]) -> list[str]:
    if seen.format == "ubi":
        return []
    if seen.format in ("parquet", "delta"):
        import pyarrow.parquet as pq

        fs, path = filesystem(file.uri)
        own = pq.ParquetFile(fs.open_input_file(path)).schema_arrow.names
        return [*own, *(c for c in file.constants if c not in own)]
    if seen.format == "csv":
        header = lines[0].content.decode("utf-8", "replace") if lines else ""
        return [c.strip() for c in next(csv.reader([header], delimiter=seen.separator), [])]
    names: dict[str, None] = {}
    for line in lines[:1000]:
        document, reason = load(line)
        names.update(dict.fromkeys(_paths(document) if reason is None else ()))
    return list(names)


def _paths(document: dict, prefix: str = "") -> list[str]:
    """Dotted paths of a document's values."""
    found = []
    for name, value in document.items():
        found += _paths(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]
    return found


def _look_at_ubi(seen: Seen, lines: list[Line]) -> None:
    if seen.format != "ubi":
        return
    actions: Counter = Counter()
    applications: Counter = Counter()
    attributes: Counter = Counter()
    for line in lines:
        document, reason = load(line)
        if reason is not None:
            continue
        if isinstance(document.get("action_name"), str):
            actions[document["action_name"]] += 1
        elif isinstance(document.get("query_attributes"), dict):
            attributes.update(document["query_attributes"])
        if "action_name" in document or "user_query" in document:
            applications[str(document.get("application") or "")] += 1
    seen.actions, seen.applications = dict(actions.most_common()), dict(applications.most_common())
    seen.proposed_actions = _proposed_actions(actions)
    found, unsure = guess(list(attributes), given={})
    for name in ("ranker", "locale", "segment", "randomised"):
        if name in found and name not in seen.mapped:
            seen.mapped[name] = f"query_attributes.{found[name]}"
            seen.unsure += [name] if name in unsure else []


def _proposed_actions(actions: Counter) -> dict[str, str | float]:
    found: dict[str, str | float] = {}
    for role, names in ROLES.items():
        found |= {a: role for a in actions if a.lower() in names}
    return found | {a: VALUES[a.lower()] for a in actions if a.lower() in VALUES}


def _layout(seen: Seen) -> Layout:
    columns = {f: c for f, c in seen.mapped.items() if c != OWN_NAMES.get(f) or seen.format == "ubi"}
    day = "2000-01-01" if "time" not in seen.mapped and seen.format != "ubi" else ""
    values = {"separator": seen.separator} if seen.format == "csv" else {}
    return Layout(
        source="sample", corpus="sample", format=seen.format, columns=columns, rank_base=seen.bases or {"default": 1},
        time_zone="UTC", actions=seen.proposed_actions, day=day, values=values,
        defaults={} if "click" in seen.mapped or seen.format == "ubi" else {"click": "false"},
    )  # fmt: skip


def _try(seen: Seen, file: InputFile) -> None:
    """Read, check and join the sample with what is proposed so far, once to see ranks and times, once to count."""
    seen.missing = [f for f in NEEDED if seen.format != "ubi" and f not in seen.mapped]
    if set(seen.missing) - {"click"}:
        return
    rows, total, ignored = _sample_rows(seen, file)
    seen.values = _values(rows, seen)
    seen.bases, seen.times = _bases(rows), _time_forms(rows)
    rules = Rules(layout=_layout(seen), salt=make_salt("sample"), latest=datetime.now(UTC) + timedelta(days=1))
    documents, refused = check(rows, rules=rules, file=1)
    joined = join_documents(documents.with_columns(context=pl.lit(False)), shown="auto", lateness_days=3)
    seen.rows, seen.impressions, seen.clicks = total, joined.rows.height, int(joined.rows["clicked"].sum())
    seen.duplicates = joined.duplicates
    reasons = Counter(refused["reason"].to_list()) + Counter(joined.refused["reason"].to_list())
    seen.refused = dict(reasons.most_common())
    locales = documents.filter(pl.col("kind").is_in([int(Kind.ROW), int(Kind.QUERY)]))["locale"]
    seen.locales = [n for n in locales.value_counts(sort=True)["locale"].to_list() if n != "und"][:20]
    if ignored:
        seen.notes.append(
            f"{ignored} events have actions that nothing is proposed for: they would be ignored, and counted"
        )


def _sample_rows(seen: Seen, file: InputFile) -> tuple[pl.DataFrame, int, int]:
    batches = read_batches(file.uri, layout=_layout(seen), salt=make_salt("sample"), constants=file.constants)
    for batch, tally in batches:
        rows = batch.rows.head(SAMPLE_LINES * 5)
        return rows, min(tally.documents, rows.height + tally.ignored), tally.ignored
    raise InputError(f"{file.uri}: holds no row: nothing to inspect")


def _values(rows: pl.DataFrame, seen: Seen) -> dict[str, str]:
    """What the mapped columns hold: counts and ranges, never the texts of people."""
    told: dict[str, str] = {}
    for field in ("page", "query", "item", "user", "session"):
        column = rows[_SEEN_AS.get(field, field)]
        if column.count():
            told[field] = f"{column.drop_nulls().n_unique()} different in {column.count()} rows"
    ranks = rows["rank"].drop_nulls()
    if ranks.len():
        told["rank"] = f"{ranks.min()} to {ranks.max()}, {(ranks == ranks.min()).mean():.0%} at {ranks.min()}"
    if "click" in seen.mapped:
        shares = rows["clicked"].cast(pl.String).value_counts(sort=True).head(5).rows()
        told["click"] = ", ".join(f"{str(v)[:20]} {n}" for v, n in shares)
    return told


def _bases(rows: pl.DataFrame) -> dict[str, int]:
    """Rank base by application: 0 where a percent of the ranks are 0."""
    ranked = rows.filter(pl.col("rank").is_not_null()).with_columns(pl.col("application").fill_null(""))
    shares = ranked.group_by("application").agg((pl.col("rank") == 0).mean().alias("zeros"))
    bases = {a: int(z > 0.01) ^ 1 for a, z in shares.sort("application").iter_rows()}
    if set(bases.values()) <= {1}:
        return {"default": 1}
    if set(bases.values()) == {0}:
        return {"default": 0}
    return {**{a: b for a, b in bases.items() if b == 0}, "default": 1}


def _time_forms(rows: pl.DataFrame) -> dict[str, int]:
    times = rows["time"].drop_nulls()
    if times.dtype != pl.String:
        return {f"typed column {times.dtype}": times.len()}
    found = {name: int(times.str.contains(form).sum()) for name, form in _FORMS.items()}
    found["other"] = times.len() - sum(found.values())
    return {name: n for name, n in found.items() if n}


def _note(seen: Seen) -> None:
    for name in seen.missing:
        seen.notes.append(f"no column was recognised for {name}: pass --columns {name}=COLUMN; ingest needs it")
    for name in seen.unsure:
        seen.notes.append(f"uncertain: columns.{name} = {seen.mapped[name]!r} is guessed from its name alone; check it")
    if seen.format != "ubi" and "time" not in seen.mapped:
        seen.notes.append("the rows have no times: pass --day YYYY-MM-DD to ingest, which dates them all")
    if seen.format != "ubi" and "user" not in seen.mapped:
        seen.notes.append("no column tells users: no query can reach the min_users of evidence")
    if seen.times.get("ISO without offset") or seen.times.get("date only"):
        seen.notes.append("some times have no offset: declare their zone as time_zone, or these rows are refused")
    if seen.times.get("other"):
        seen.notes.append("some times have a form of their own: declare it as values = { time = '%d.%m.%Y %H:%M:%S' }")
    if seen.format == "ubi" and "click" not in seen.proposed_actions.values():
        seen.notes.append("no action was recognised as a click: add the right name to actions")
    if "arrived" not in seen.mapped and "{day}" not in seen.path:
        seen.notes.append(
            "nothing tells when rows arrived: arrival is unguarded; map columns.arrived or use {day} in the path"
        )
    for column in (c for c in seen.columns if plain(c) in AMOUNTS and c not in seen.mapped.values()):
        seen.notes.append(f"{column!r} may be an amount of interaction: columns.interaction, values.interaction_scale")
    _note_bases(seen)


def _note_bases(seen: Seen) -> None:
    """A base that nothing shows is a guess."""
    told = seen.values.get("rank", "")
    if seen.bases == {"default": 1} and told and not told.startswith("1 to"):
        seen.notes.append(f"uncertain: rank_base: ranks are {told}; declare the rank of the first place")

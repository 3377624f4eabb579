"""`hindcast impressions inspect`: a sample of a log, what it holds, and the [[sources]] block that would read it.

Guesses are printed for a person to check; `ingest` itself never guesses.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice

import polars as pl

from jobs.core.errors import InputError
from jobs.core.storage import filesystem
from jobs.impressions.canonical import join_documents
from jobs.impressions.checks import Rules, check
from jobs.impressions.documents import Kind
from jobs.impressions.inputs import InputFile, list_files
from jobs.impressions.layout import OWN_NAMES, Layout
from jobs.impressions.lines import Line, read_lines, unpacked
from jobs.impressions.privacy import make_salt
from jobs.impressions.proposal import Seen
from jobs.impressions.reading import read_batches
from jobs.impressions.ubi import load

SAMPLE_LINES = 20_000
"""Read from the start of the first file: seconds of work, and enough to see what a percent of the rows do."""

NAMES = {
    "page": ("search_id", "serp_id", "page_id", "request_id", "search_request_id", "query_id"),
    "query": (
        "query",
        "user_query",
        "query_text",
        "search_term",
        "search_query",
        "keyword",
        "keywords",
        "q",
        "query_id",
    ),
    "item": ("item_id", "doc_id", "document_id", "product_id", "object_id", "item", "asin", "sku", "url"),
    "rank": ("rank", "position", "ordinal", "pos", "place"),
    "click": ("clicked", "click", "is_click", "is_clicked", "n_clicks", "clicks"),
    "time": ("shown_at", "timestamp", "time", "event_time", "ts", "created_at", "datetime", "date"),
    "arrived": ("arrived_at", "ingested_at", "received_at", "inserted_at"),
    "click_arrived": ("click_arrived_at",),
    "locale": ("locale", "language", "lang", "market", "country"),
    "segment": ("segment", "device", "device_class", "platform"),
    "ranker": ("ranker", "variant", "system", "algorithm", "bucket", "experiment"),
    "randomised": ("randomised", "randomized", "is_random"),
    "user": ("user_id", "client_id", "visitor_id", "user", "uid"),
    "session": ("session_id", "session"),
    "event": ("event_id",),
    "interaction": ("interaction",),
}
"""Column names met in published logs, best first; a column serves one field only."""

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
    """Read a sample of the files behind a path; InputError where there are none or no row can be read."""
    files = list_files(path)
    first = next((f for f in files if f.size), None)
    if first is None:
        raise InputError(f"{path}: every file is empty: nothing to inspect")
    seen = Seen(path=path, files=len(files), format=form or _format_of(first))
    lines = [] if seen.format in ("parquet", "delta") else _sample_lines(first)
    seen.columns = _columns_of(first, seen.format, lines)
    seen.mapped = {**_guessed(seen), **(columns or {})}
    _look_at_ubi(seen, lines)
    _try(seen, first, lines)
    _note(seen)
    return seen


def _format_of(file: InputFile) -> str:
    start = _head(file)
    if start.startswith(b"PAR1"):
        return "parquet"
    text = next((line for line in start.split(b"\n") if line.strip()), b"")
    if not text.lstrip().startswith(b"{"):
        return "csv"
    document, _ = load(Line(1, 0, text, False))
    names = {n.lower() for n in document or {}}
    if names & set(NAMES["rank"]) and names & set(NAMES["item"]):
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


def _columns_of(file: InputFile, form: str, lines: list[Line]) -> list[str]:
    if form == "ubi":
        return []
    if form in ("parquet", "delta"):
        import pyarrow.parquet as pq

        fs, path = filesystem(file.uri)
        return pq.ParquetFile(fs.open_input_file(path)).schema_arrow.names
    if form == "csv":
        header = lines[0].content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        return [c.strip().strip('"') for c in header.split("\t" if ".tsv" in file.uri else ",")]
    names: dict[str, None] = {}
    for line in lines[:1000]:
        document, reason = load(line)
        names.update(dict.fromkeys(document if reason is None else ()))
    return list(names)


def _guessed(seen: Seen) -> dict[str, str]:
    """Field to column, by name, each column once; the query's own text wins over an id of it."""
    left = list(seen.columns)
    found: dict[str, str] = {}
    for name in ("query", "page", *[n for n in NAMES if n not in ("query", "page")]):
        fits = [c for want in NAMES[name] for c in left if c.lower() == want]
        if (
            name == "query"
            and fits[:1] == ["query_id"]
            and not set(left) & {"serp_id", "search_id", "page_id", "request_id"}
        ):
            continue
        if fits:
            found[name] = fits[0]
            left.remove(fits[0])
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
    for name in ("ranker", "locale", "segment", "randomised"):
        fits = [a for want in NAMES[name] for a in attributes if a.lower() == want]
        if fits:
            seen.mapped.setdefault(name, f"query_attributes.{fits[0]}")


def _proposed_actions(actions: Counter) -> dict[str, str | float]:
    found: dict[str, str | float] = {}
    for role, names in ROLES.items():
        found |= {a: role for a in actions if a.lower() in names}
    return found | {a: VALUES[a.lower()] for a in actions if a.lower() in VALUES}


def _layout(seen: Seen) -> Layout:
    columns = {f: c for f, c in seen.mapped.items() if c != OWN_NAMES.get(f) or seen.format == "ubi"}
    day = "2000-01-01" if "time" not in seen.mapped and seen.format != "ubi" else ""
    return Layout(
        source="sample", corpus="sample", format=seen.format, columns=columns, rank_base=seen.bases or {"default": 1},
        time_zone="UTC", actions=seen.proposed_actions, day=day,
        defaults={} if "click" in seen.mapped or seen.format == "ubi" else {"click": "false"},
    )  # fmt: skip


def _try(seen: Seen, file: InputFile, lines: list[Line]) -> None:
    """Read, check and join the sample with what is proposed so far, once to see ranks and times, once to count."""
    seen.missing = [f for f in ("page", "query", "item", "rank") if seen.format != "ubi" and f not in seen.mapped]
    if seen.missing:
        return
    rows, total, ignored = _sample_rows(seen, file)
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
    batches = read_batches(file.uri, layout=_layout(seen), salt=make_salt("sample"))
    for batch, tally in batches:
        rows = batch.rows.head(SAMPLE_LINES * 5)
        return rows, min(tally.documents, rows.height + tally.ignored), tally.ignored
    raise InputError(f"{file.uri}: holds no row: nothing to inspect")


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
    if seen.missing:
        seen.notes.append(
            f"no column was recognised for {', '.join(seen.missing)}: pass --columns {seen.missing[0]}=COLUMN"
        )
    if seen.format != "ubi" and "time" not in seen.mapped:
        seen.notes.append("the rows have no times: pass --day YYYY-MM-DD to ingest, which dates them all")
    if seen.format != "ubi" and "click" not in seen.mapped:
        seen.notes.append("no column tells clicks: every row would count as not clicked")
    if seen.format != "ubi" and "user" not in seen.mapped:
        seen.notes.append("no column tells users: no query can reach the min_users of evidence")
    if seen.times.get("ISO without offset") or seen.times.get("date only"):
        seen.notes.append("some times have no offset: declare their zone as time_zone, or these rows are refused")
    if seen.format == "ubi" and "click" not in seen.proposed_actions.values():
        seen.notes.append("no action was recognised as a click: add the right name to actions")
    if "arrived" not in seen.mapped and "{day}" not in seen.path:
        seen.notes.append(
            "nothing tells when rows arrived: arrival is unguarded; map columns.arrived or use {day} in the path"
        )

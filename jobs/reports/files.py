"""A report on judgments and labels made elsewhere: any tool's files in, the same report out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from jobs.core.errors import InputError
from jobs.core.keys import key_from_hex, key_of
from jobs.reports.data import RUN_HEAD, ReportData
from schemas.cards import CARDS
from schemas.judgments import JUDGMENTS
from schemas.pages import PAGES

SHOWN_IDS = 3
"""Ids quoted in a message: enough to see how two files spell them."""


def from_files(
    *,
    judgments: Path,
    truth: Path | None,
    outcomes: Path | None = None,
    pages: Path | None = None,
    cards: Path | None = None,
) -> ReportData:
    """Read judgments.jsonl, truth.jsonl ({"page_id", "query_key", "truth", "human_label"}), outcomes.jsonl.

    `pages` and `cards` feed the explorer. InputError if a file cannot be read, or if no id of the two files match.
    """
    judged, doubled = judgment_frame(list(read_rows(judgments)), judgments)
    known = list(read_rows(truth)) if truth else []
    table = _page_frame(judged, known, list(read_rows(pages)) if pages else [], truth)
    problems = [*doubled, *_match(judged, known, judgments, truth)]
    results = outcome_frame(list(read_rows(outcomes)), outcomes) if outcomes else None
    models = sorted(set(judged["model"].unique().to_list()) - {"none"})
    return ReportData(
        run={**RUN_HEAD, "source": "files", "judge": ", ".join(models) or None, "models": models},
        pages=table,
        judgments=judged,
        cards=_card_frame(list(read_rows(cards)) if cards else []),
        outcomes=results,
        launch={"launch_id": "files"} if results is not None else None,
        problems=tuple(problems),
    )


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSON-lines or Parquet file; InputError names the file and line."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the option that names it")
    if path.suffix == ".parquet":
        yield from pl.read_parquet(path).iter_rows(named=True)
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _object(line, f"{path} line {number}")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where} is no JSON ({error}): mend the line") from None
    if not isinstance(row, dict):
        raise InputError(f"{where} holds {row!r:.40}, not an object with keys")
    return row


def query_number(given: Any, fallback: str) -> int:
    """A key as BIGINT: 16 hexadecimal digits as they are, whole numbers as they are, any other text by its hash."""
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    text = fallback if given is None else str(given)
    try:
        return key_from_hex(text)
    except ValueError:
        return key_of(text)


def judgment_frame(rows: list[dict[str, Any]], path: Path) -> tuple[pl.DataFrame, list[str]]:
    """Rows of the judgments table with defaults for what a foreign file leaves out, and sentences about doubles."""
    if not rows:
        raise InputError(f"{path} holds no judgment: give at least one line with page_id, variant and label")
    for number, row in enumerate(rows, 1):
        _check_judgment(row, f"{path} row {number}")
    frame = pl.DataFrame([_judgment(r) for r in rows], schema=JUDGMENTS.polars(), orient="row")
    key = ["page_id", "variant", "model", "sample"]
    distinct = frame.unique(maintain_order=True)
    clash = distinct.filter(pl.struct(key).is_duplicated())
    if clash.height:
        page, variant = clash.select("page_id", "variant").row(0)
        raise InputError(
            f"{path}: page {page!r} has two different rows of variant {variant!r}: give each sample a number"
        )
    lost = frame.height - distinct.height
    return distinct, [f"{lost} judgments were exact copies of others and were dropped."] if lost else []


def _check_judgment(row: dict[str, Any], where: str) -> None:
    for name in ("page_id", "variant"):
        if not isinstance(row.get(name), str | int) or row[name] == "":
            raise InputError(f"{where}: {name} is {row.get(name)!r}, give it as text")
    label = row.get("label")
    if label is not None and (isinstance(label, bool) or not isinstance(label, int | float) or label != label):
        raise InputError(f"{where}: label is {label!r}, give a number or null")


def _judgment(row: dict[str, Any]) -> dict[str, Any]:
    page, label = str(row["page_id"]), row.get("label")
    default = {"int": 0, "bigint": 0, "boolean": False, "string": ""}
    base = {c.name: None if c.nullable else default.get(c.type) for c in JUDGMENTS.columns}
    given = {k: v for k, v in row.items() if k in base and v is not None}
    return {
        **base,
        **given,
        "page_id": page,
        "run": "files",
        "set": row.get("set") or ("launch" if row.get("system") in ("a", "b") else "other"),
        "corpus": row.get("corpus") or "default",
        "model": row.get("model") or "unknown",
        "configuration": row.get("configuration") or "shown",
        "query_key": query_number(row.get("query_key"), page),
        "label": None if label is None else float(label),
        "reason": row.get("reason") or (None if label is not None else "missing"),
        "cited": row.get("cited") or [],
        "members": row.get("members") or [],
    }


def _page_frame(
    judged: pl.DataFrame, truth: list[dict[str, Any]], pages: list[dict[str, Any]], path: Path | None
) -> pl.DataFrame:
    known = {str(r.get("page_id")): r for r in truth}
    if len(known) < len(truth):
        ids = [str(r.get("page_id")) for r in truth]
        raise InputError(f"{path}: page {max(ids, key=ids.count)!r} stands twice: give each page one truth")
    shown = {str(p["page_id"]): p for p in pages}
    first = judged.unique("page_id", keep="first", maintain_order=True)
    rows = [_page(j, known.get(j["page_id"], {}), shown.get(j["page_id"], {})) for j in first.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=PAGES.polars(), orient="row")


def _page(judgment: dict[str, Any], truth: dict[str, Any], page: dict[str, Any]) -> dict[str, Any]:
    both = {**page, **{k: v for k, v in truth.items() if v is not None}}
    key = truth.get("query_key", page.get("query_key"))
    context = page.get("context")
    return {
        **{c.name: both.get(c.name) for c in PAGES.columns},
        "run": "files",
        "set": page.get("set") or judgment["set"],
        "page_id": judgment["page_id"],
        "corpus": both.get("corpus") or judgment["corpus"],
        "locale": both.get("locale") or "",
        "query_key": judgment["query_key"] if key is None else query_number(key, judgment["page_id"]),
        "query": both.get("query") or "",
        "context": None if context is None else json.dumps(context, ensure_ascii=False),
        "system": judgment["system"] or page.get("system"),
        "instance": judgment["instance"],
        "configuration": both.get("configuration") or judgment["configuration"],
        "items": json.dumps(page.get("items") or [], ensure_ascii=False),
        "truth": _number(both.get("truth")),
        "truth_standard_error": _number(both.get("truth_standard_error")),
        "human_label": _number(both.get("human_label")),
        "made": json.dumps(page.get("made") or {}, ensure_ascii=False),
    }


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"{value!r} is no truth: give a number or null")
    return float(value)


def _card_frame(cards: list[dict[str, Any]]) -> pl.DataFrame:
    empty = {c.name: None if c.nullable else {"string": "", "date": None}.get(c.type, 0) for c in CARDS.columns}
    rows = []
    for card in cards:
        for place, row in enumerate(card.get("rows") or [], 1):
            given = {k: v for k, v in row.items() if k in empty}
            near = bool(row.get("near_duplicate"))
            ids = {"page_id": str(card["page_id"]), "item_id": str(card["item_id"]), "set": "other", "run": "files"}
            shown = {"row": None if near else place, "dropped": "near_duplicate" if near else None}
            rows.append({**empty, **given, **ids, **shown, "query_key": place})
    return pl.DataFrame(rows, schema=CARDS.polars(), orient="row") if rows else pl.DataFrame(schema=CARDS.polars())


def outcome_frame(rows: list[dict[str, Any]], path: Path | str) -> pl.DataFrame:
    """Outcomes with query_key as BIGINT; from corpus, locale and query where no key is given."""
    from jobs.core.keys import query_key
    from jobs.core.normalise import normalise_query

    found = []
    for number, row in enumerate(rows, 1):
        for name in ("system_a", "system_b"):
            if isinstance(row.get(name), bool) or not isinstance(row.get(name), int | float):
                raise InputError(f"{path} row {number}: {name} is {row.get(name)!r}, give a number (higher is better)")
        if row.get("query_key") is None and row.get("query") is None:
            raise InputError(f"{path} row {number}: give query_key, or corpus, locale and query")
        locale = row.get("locale") or ""
        key = (
            query_number(row["query_key"], "")
            if row.get("query_key") is not None
            else query_key(row.get("corpus") or "", locale, normalise_query(row["query"], locale=locale))
        )
        found.append({**{k: row.get(k) for k in OUTCOME_SCHEMA}, "query_key": key})
    frame = pl.DataFrame(found, schema=OUTCOME_SCHEMA, orient="row")
    if frame["query_key"].is_duplicated().any():
        raise InputError(f"{path}: a query stands twice: give each query one outcome")
    return frame


OUTCOME_SCHEMA = {
    "query_key": pl.Int64,
    "system_a": pl.Float64,
    "system_b": pl.Float64,
    "n_a": pl.Float64,
    "n_b": pl.Float64,
    "standard_error_a": pl.Float64,
    "standard_error_b": pl.Float64,
}


def _match(judged: pl.DataFrame, truth: list[dict[str, Any]], left: Path, right: Path | None) -> list[str]:
    """Sentences about ids that stand in one file only; InputError if none stands in both."""
    if right is None:
        return []
    ours = set(judged.filter(pl.col("set") != "launch")["page_id"].to_list())
    theirs = {str(r.get("page_id")) for r in truth}
    both, only_left, only_right = ours & theirs, sorted(ours - theirs), sorted(theirs - ours)
    told = f"{len(both)} page ids stand in both files"
    told += f", {len(only_left)} only in {left.name}{_examples(only_left)}"
    told += f", {len(only_right)} only in {right.name}{_examples(only_right)}."
    if not both and ours:
        raise InputError(f"{told[:-1]}: the two files spell their ids differently")
    return [told] if only_left or only_right else []


def _examples(ids: list[str]) -> str:
    return f" (such as {', '.join(repr(i) for i in ids[:SHOWN_IDS])})" if ids else ""

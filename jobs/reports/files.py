"""A report on judgments and labels made elsewhere: any tool's files in, the same report out."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from jobs.core.errors import InputError
from jobs.core.keys import key_from_hex, key_hex, key_of, query_key
from jobs.core.normalise import normalise_query
from jobs.reports.data import RUN_HEAD, ReportData
from jobs.reports.given import (
    GivenCard,
    GivenJudgment,
    GivenOutcome,
    GivenPage,
    GivenTruth,
    Row,
    checked,
    read_rows,
)
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

    `pages` and `cards` feed the explorer. InputError if a file cannot be read, or if no id of two files match.
    """
    judged, doubled = judgment_frame(read_rows(judgments), judgments)
    known = _truths(truth) if truth else {}
    shown = {page.page_id: page for _, page in checked(read_rows(pages), GivenPage)} if pages else {}
    table = _page_frame(judged, known, shown)
    problems = [*doubled, *_match(judged, set(known), judgments, truth), *_unseen(judged, shown, judgments, pages)]
    results = outcome_frame(read_rows(outcomes), outcomes) if outcomes else None
    if results is not None:
        problems += _match_queries(judged, table, results, judgments, outcomes)
    models = sorted(set(judged["model"].unique().to_list()) - {"none"})
    return ReportData(
        run={**RUN_HEAD, "source": "files", "judge": ", ".join(models) or None, "models": models},
        pages=table,
        judgments=judged,
        cards=_card_frame(cards) if cards else pl.DataFrame(schema=CARDS.polars()),
        outcomes=results,
        launch={"launch_id": "files"} if results is not None else None,
        problems=tuple(problems),
    )


def query_number(given: Any, fallback: str) -> int:
    """A key as BIGINT: 16 hexadecimal digits as they are, whole numbers as they are, any other text by its hash."""
    if isinstance(given, int) and not isinstance(given, bool) and -(2**63) <= given < 2**63:
        return given
    text = fallback if given is None else str(given)
    try:
        return key_from_hex(text)
    except ValueError:
        return key_of(text)


def judgment_frame(rows: Iterable[Row], path: Path) -> tuple[pl.DataFrame, list[str]]:
    """Rows of the judgments table with defaults for what a foreign file leaves out, and sentences about doubles."""
    found = [_judgment(given) for _, given in checked(rows, GivenJudgment)]
    if not found:
        raise InputError(f"{path} holds no judgment: give at least one line with page_id, variant and label")
    frame = pl.DataFrame(found, schema=JUDGMENTS.polars(), orient="row")
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


def _judgment(given: GivenJudgment) -> dict[str, Any]:
    return {
        **given.model_dump(),
        "run": "files",
        "set": given.set or ("launch" if given.system else "other"),
        "query_key": query_number(given.query_key, given.page_id),
        "reason": given.reason or (None if given.label is not None else "missing"),
    }


def _truths(path: Path) -> dict[str, GivenTruth]:
    found: dict[str, GivenTruth] = {}
    for where, row in checked(read_rows(path), GivenTruth):
        if row.page_id in found:
            raise InputError(f"{where}: page {row.page_id!r} stands twice: give each page one truth")
        found[row.page_id] = row
    if not found:
        raise InputError(f"{path} holds no truth: give at least one line with page_id and truth")
    return found


def _page_frame(judged: pl.DataFrame, known: dict[str, GivenTruth], shown: dict[str, GivenPage]) -> pl.DataFrame:
    first = judged.unique("page_id", keep="first", maintain_order=True)
    rows = [_page(j, known.get(j["page_id"]), shown.get(j["page_id"])) for j in first.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=PAGES.polars(), orient="row")


def _page(judgment: dict[str, Any], truth: GivenTruth | None, page: GivenPage | None) -> dict[str, Any]:
    both = {
        **(page.model_dump(exclude_none=True) if page else {}),
        **(truth.model_dump(exclude_none=True) if truth else {}),
    }
    items = [
        {**item, "rank": item["rank"] or place}
        for place, item in enumerate(page.model_dump()["items"] if page else [], 1)
    ]
    context = page.context if page else None
    return {
        **{c.name: both.get(c.name) for c in PAGES.columns},
        "run": "files",
        "set": _set_of(judgment, page, has_truth=both.get("truth") is not None),
        "page_id": judgment["page_id"],
        "corpus": both.get("corpus") or judgment["corpus"],
        "locale": both.get("locale") or "",
        "query_key": _key_of(judgment, both),
        "query": both.get("query") or "",
        "context": None if context is None else json.dumps(context, ensure_ascii=False),
        "system": judgment["system"] or (page.system if page else None),
        "instance": judgment["instance"],
        "configuration": both.get("configuration") or judgment["configuration"],
        "items": json.dumps(items, ensure_ascii=False),
        "made": json.dumps(page.made if page else {}, ensure_ascii=False),
    }


def _set_of(judgment: dict[str, Any], page: GivenPage | None, *, has_truth: bool) -> str:
    """The set that a file names; a page of human labels that has a measured truth too counts with the measured ones."""
    named = (page.set if page else None) or judgment["set"]
    return "other" if named == "human" and has_truth else named


def _key_of(judgment: dict[str, Any], both: dict[str, Any]) -> int:
    given = both.get("query_key")
    return judgment["query_key"] if given is None else query_number(given, judgment["page_id"])


def _card_frame(path: Path) -> pl.DataFrame:
    empty = {c.name: None if c.nullable else {"string": "", "date": None}.get(c.type, 0) for c in CARDS.columns}
    rows = []
    for _, card in checked(read_rows(path), GivenCard):
        for place, row in enumerate(card.rows, 1):
            given = row.model_dump(exclude={"near_duplicate"})
            ids = {"page_id": card.page_id, "item_id": card.item_id, "set": "other", "run": "files"}
            near = row.near_duplicate
            marks = {"row": None if near else place, "dropped": "near_duplicate" if near else None}
            rows.append({**empty, **given, **ids, **marks, "query_key": place})
    return pl.DataFrame(rows, schema=CARDS.polars(), orient="row")


def outcome_frame(rows: Iterable[Row], path: Path | str) -> pl.DataFrame:
    """Outcomes with query_key as BIGINT; from corpus, locale and query where no key is given."""
    found: dict[int, dict[str, Any]] = {}
    for where, given in checked(rows, GivenOutcome):
        if given.query_key is None and given.query is None:
            raise InputError(f"{where}: give query_key, or corpus, locale and query")
        key = _outcome_key(given)
        if key in found:
            raise InputError(f"{where}: its query stands twice: give each query one outcome")
        found[key] = {**{k: getattr(given, k) for k in OUTCOME_SCHEMA}, "query_key": key}
    if not found:
        raise InputError(f"{path} holds no outcome: give at least one line with query_key, system_a and system_b")
    return pl.DataFrame(list(found.values()), schema=OUTCOME_SCHEMA, orient="row")


def _outcome_key(given: GivenOutcome) -> int:
    if given.query_key is not None:
        return query_number(given.query_key, "")
    return query_key(given.corpus, given.locale, normalise_query(given.query or "", locale=given.locale))


OUTCOME_SCHEMA = {
    "query_key": pl.Int64,
    "system_a": pl.Float64,
    "system_b": pl.Float64,
    "n_a": pl.Float64,
    "n_b": pl.Float64,
    "standard_error_a": pl.Float64,
    "standard_error_b": pl.Float64,
}


def _match(judged: pl.DataFrame, theirs: set[str], left: Path, right: Path | None) -> list[str]:
    """Sentences about page ids that stand in one file only; InputError if none stands in both.

    Pages of systems a and b need no truth: those that have one are counted, and all of them where there are no others.
    """
    if right is None:
        return []
    ids = set(judged["page_id"].to_list())
    of_launch = set(judged.filter(pl.col("set") == "launch")["page_id"].to_list())
    ours = ids - (of_launch - theirs) or ids
    return _told("page ids", ours, theirs, left, right)


def _unseen(judged: pl.DataFrame, shown: dict[str, GivenPage], left: Path, right: Path | None) -> list[str]:
    """A sentence about judged pages that the file of pages does not hold: they stand in the explorer without items."""
    if right is None:
        return []
    return _told("page ids", set(judged["page_id"].to_list()), set(shown), left, right)


def _match_queries(
    judged: pl.DataFrame, table: pl.DataFrame, results: pl.DataFrame, left: Path, right: Path
) -> list[str]:
    """Sentences about queries that were judged for both systems or have an outcome, but not both."""
    launch = judged.filter((pl.col("set") == "launch") & pl.col("system").is_not_null())
    if not launch.height:
        raise InputError(
            f"{left} holds no page of system a or b, so {right} says nothing about it: give each judgment its system"
        )
    ours, theirs = ({key_hex(k) for k in frame["query_key"]} for frame in (launch, results))
    return _told("query keys", ours, theirs, left, right)


def _told(what: str, ours: set[str], theirs: set[str], left: Path, right: Path) -> list[str]:
    both, only_left, only_right = ours & theirs, sorted(ours - theirs), sorted(theirs - ours)
    told = f"{len(both)} {what} stand in both files"
    told += f", {len(only_left)} only in {left.name}{_examples(only_left)}"
    told += f", {len(only_right)} only in {right.name}{_examples(only_right)}."
    if not both:
        raise InputError(f"{told[:-1]}: the two files spell their ids differently")
    return [told] if only_left or only_right else []


def _examples(ids: list[str]) -> str:
    return f" (such as {', '.join(repr(i) for i in ids[:SHOWN_IDS])})" if ids else ""

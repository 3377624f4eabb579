"""Outcomes of an A/B test: read, keyed, and joined with the pages of the launch by query_key."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.core.errors import InputError
from jobs.core.keys import key_from_hex, key_hex, query_key
from jobs.core.normalise import normalise_query
from jobs.pages.files import read_rows
from jobs.pages.labelmap import as_number

OPTIONAL = ("n_a", "n_b", "standard_error_a", "standard_error_b")


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Outcome rows by query_key (16 hexadecimal digits), and the refused lines as (line number, reason)."""

    rows: dict[str, dict[str, float | None]]
    refused: list[tuple[int, str]]


def read_outcomes(path: Path, *, corpus: str = "", locale: str = "") -> Outcomes:
    """Read outcomes.jsonl (formats.md): {"query_key" or (corpus, locale, query), "system_a", "system_b", ...}.

    `corpus` and `locale` fill what a line leaves out. A second line of one query is refused. InputError if no line
    is one.
    """
    rows: dict[str, dict[str, float | None]] = {}
    refused: list[tuple[int, str]] = []
    for number, line in read_rows(path):
        parsed = line if isinstance(line, str) else _parsed(line, corpus, locale)
        if isinstance(parsed, tuple) and parsed[0] in rows:
            parsed = f"query_key {parsed[0]} stands twice"
        if isinstance(parsed, str):
            refused.append((number, parsed))
        else:
            rows[parsed[0]] = parsed[1]
    if not rows:
        raise InputError(
            f"{path}: holds no outcome ({refused[0][1] if refused else 'no lines'}): see formats, outcomes"
        )
    return Outcomes(rows=rows, refused=refused)


def join_counts(page_keys: set[str], outcome_keys: set[str]) -> dict[str, int]:
    """How pages and outcomes meet: queries in both, with pages only, with an outcome only."""
    return {
        "both": len(page_keys & outcome_keys),
        "pages_only": len(page_keys - outcome_keys),
        "outcomes_only": len(outcome_keys - page_keys),
    }


def _parsed(line: dict[str, Any], corpus: str, locale: str) -> tuple[str, dict[str, float | None]] | str:
    key = _key(line, corpus, locale)
    if key is None:
        return "neither a query_key of 16 hexadecimal digits nor a query"
    values = {name: as_number(line.get(name)) for name in ("system_a", "system_b", *OPTIONAL)}
    missing = [name for name in ("system_a", "system_b") if values[name] is None]
    return f"{missing[0]} is no number" if missing else (key, values)


def _key(line: dict[str, Any], corpus: str, locale: str) -> str | None:
    given = line.get("query_key")
    if isinstance(given, str) and given:
        try:
            return key_hex(key_from_hex(given))
        except ValueError:
            return None
    where = line.get("locale") or locale
    query = normalise_query(str(line.get("query") or ""), locale=where)
    return key_hex(query_key(line.get("corpus") or corpus, where, query)) if query else None

"""Prompts: rubric and templates as files, checked on load, rendered with untrusted text as data.

One rubric serves all variants. The user's message is the evidence block (or nothing) and then the page, so plain and
grounded prompts are the same bytes but for that block, and a server's prefix cache serves the rubric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from jobs.core.errors import UsageError
from jobs.judging.inputs import Item, Page
from jobs.judging.untrusted import quoted, quoted_json
from jobs.judging.views import SHOWN, ShownRow

Kind = Literal["page", "item"]

_FOLDER = Path(__file__).parent / "prompts"
_PLACEHOLDERS = {
    "rubric.md": ("reply",),
    "reply-page.md": (),
    "reply-item.md": (),
    "page.md": ("evidence", "page"),
    "evidence.md": ("legend", "rows"),
}
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")

_LEGENDS = {
    "impressions": '"shown": how often the result was shown for it (a round figure)',
    "ctr": '"clicked_share": share of those impressions that were clicked, as logged',
    "relevance": '"relevance": share that clicked among those who looked at the result, corrected for its position',
}
_ROW_NAMES = {"impressions": "shown", "ctr": "clicked_share", "relevance": "relevance"}


@dataclass(frozen=True, kw_only=True)
class PromptSet:
    """The loaded files. `rubric` is the system message; `page` and `evidence` are templates."""

    kind: Kind
    rubric: str
    page: str
    evidence: str
    item_fields: tuple[str, ...] = ()


def load_prompts(*, kind: Kind = "page", folder: str = "", item_fields: tuple[str, ...] = ()) -> PromptSet:
    """The packaged prompts, with the files of `folder` in place of those of the same name.

    Raises UsageError for a folder that does not exist, files of other names, and templates whose placeholders are not
    exactly the expected ones, once each.
    """
    own = _own_files(folder) if folder else {}
    texts = {name: own.get(name, _FOLDER / name).read_text(encoding="utf-8") for name in _PLACEHOLDERS}
    for name, text in texts.items():
        _check(own.get(name, Path(name)), text, expected=_PLACEHOLDERS[name])
    for field in item_fields:
        if not field or "\n" in field:
            raise UsageError(f"judging.item_fields holds {field!r}: give names of item metadata")
    rubric = _filled(texts["rubric.md"], reply=texts[f"reply-{kind}.md"].rstrip("\n")).rstrip("\n")
    return PromptSet(
        kind=kind, rubric=rubric, page=texts["page.md"], evidence=texts["evidence.md"], item_fields=tuple(item_fields)
    )


def check_fields(fields: Sequence[str], pages: Sequence[Page]) -> None:
    """Raise UsageError for a metadata field that no item of `pages` has: a misspelt one would silently show nothing."""
    known = {name for page in pages for item in page.items for name in item.metadata}
    missing = [name for name in fields if name not in known]
    if missing and pages:
        there = ", ".join(sorted(known)[:20]) or "none"
        raise UsageError(f"judging.item_fields names {missing[0]!r}, which no item has: there are {there}")


def render(prompts: PromptSet, page: Page, rows: Sequence[ShownRow], *, variant: str) -> str:
    """The user's message for `page` with the evidence `rows` that `variant` shows (none: the plain message)."""
    evidence = _evidence_block(prompts, rows, variant=variant) if rows else ""
    return _filled(prompts.page, evidence=evidence, page=_page_block(prompts, page)).rstrip("\n")


def least_similar_left_out(rows: Sequence[ShownRow], *, keep: int) -> tuple[ShownRow, ...]:
    """The `keep` most similar rows in their old order, numbered anew: what a prompt that is too long loses first."""
    if keep <= 0:
        return ()
    by_similarity = sorted(rows, key=lambda shown: (-shown.row.similarity, shown.number))[:keep]
    kept = sorted(by_similarity, key=lambda shown: shown.number)
    return tuple(ShownRow(number=n, item=shown.item, row=shown.row) for n, shown in enumerate(kept, start=1))


def rounded_share(value: float) -> float:
    """A share as prompts show it: steps of 0.05 from 0.1 on and 0.01 below, so that small changes buy no new label."""
    step = 0.05 if value >= 0.1 else 0.01
    return round(min(max(value, 0.0), 1.0) / step) * step


def rounded_count(value: int) -> int:
    """A count as prompts show it: the nearest of 1, 2, 5, 10, 20, 50, … on a logarithmic scale; 0 stays 0."""
    if value <= 0:
        return 0
    power = 10 ** math.floor(math.log10(value))
    return int(min((1, 2, 5, 10), key=lambda m: abs(math.log(value / (m * power)))) * power)


def _page_block(prompts: PromptSet, page: Page) -> str:
    lines = ["<page>", f"query: {quoted(page.query)}"]
    if page.locale:
        lines.append(f"locale: {quoted(page.locale)}")
    if page.context is not None and page.context != "":
        lines.append(f"context: {quoted_json(page.context)}")
    lines += [f"result {n}: {_item(item, prompts.item_fields)}" for n, item in enumerate(page.items, start=1)]
    return "\n".join([*lines, "</page>"])


def _item(item: Item, fields: tuple[str, ...]) -> str:
    body = {"title": item.title} | ({"type": item.type} if item.type else {})
    return quoted_json(body | {name: item.metadata[name] for name in fields if name in item.metadata})


def _evidence_block(prompts: PromptSet, rows: Sequence[ShownRow], *, variant: str) -> str:
    shown = SHOWN[variant]
    legend = '"earlier_query": what people had typed. ' + ". ".join(_LEGENDS[name] for name in shown) + "."
    lines = [f"[{s.number}] result {s.item}: {_numbers(s, shown)}" for s in rows]
    return _filled(prompts.evidence, legend=legend, rows="\n".join(["<evidence>", *lines, "</evidence>"]))


def _numbers(shown_row: ShownRow, shown: tuple[str, ...]) -> str:
    row = shown_row.row
    numbers = ", ".join([_number(name, getattr(row, name)) for name in shown])
    return f'{{"earlier_query": {quoted(row.query)}, {numbers}}}'


@lru_cache(maxsize=65_536)  # a run shows some thousand different values some million times
def _number(name: str, value: float) -> str:
    text = str(rounded_count(value)) if name == "impressions" else f"{rounded_share(value):.2f}"
    return f'"{_ROW_NAMES[name]}": {text}'


def _filled(template: str, **values: str) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], template)


def _own_files(folder: str) -> dict[str, Path]:
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(f"judging.prompts is {folder!r}, which is no folder: correct the path or leave it empty")
    files = {path.name: path for path in sorted(place.iterdir()) if not path.name.startswith(".")}
    unknown = sorted(set(files) - set(_PLACEHOLDERS))
    if unknown:
        raise UsageError(f"{folder}: {', '.join(unknown)} is no prompt file: use {', '.join(_PLACEHOLDERS)}")
    return files


def _check(path: Path, text: str, *, expected: tuple[str, ...]) -> None:
    found = [match.group(1) for match in _PLACEHOLDER.finditer(text)]
    if found != list(expected):
        want = ", ".join(f"{{{{{name}}}}}" for name in expected) or "none"
        have = ", ".join(f"{{{{{name}}}}}" for name in found) or "none"
        raise UsageError(f"{path}: its placeholders are {have}, but must be {want}, once each and in this order")
    if not _PLACEHOLDER.sub("", text).strip() and path.name != "page.md":
        raise UsageError(f"{path}: the file says nothing: write it, or remove it to use the packaged one")

"""A judge's reply, read strictly: an offered grade, or the reason why there is none. Nothing is guessed or clamped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.judgments import LABELS
from schemas.replies import GRADES


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What was read from one reply: a label, or a reason (schemas.judgments.REASONS), never both."""

    label: float | None = None
    reason: str | None = None
    expected_label: float | None = None
    rationale: str = ""
    cited: tuple[int, ...] = ()
    cited_invented: int = 0


class _Unscored(Exception):
    def __init__(self, reason: str):
        self.reason = reason


_FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_REFUSAL = re.compile(
    r"\b(?:i(?:'m| am)? (?:sorry|unable|not able)|i (?:cannot|can't|can not|won't|will not|must decline)|as an ai)\b",
    re.I,
)
_GRADE = re.compile(r'"grade"\s*:\s*([0-2])(?![0-9.eE])')
MAX_RATIONALE = 600  # characters kept of a rationale: two short sentences, with room for verbose models


def read_reply(body: Mapping[str, Any], *, rows: int, items: int | None = None) -> Verdict:
    """Read the body of a chat completion.

    rows: number of evidence rows shown (what `cited` may name). items: number of results for an item judge, whose label
    is the DCG-weighted mean of its grades brought to the nearest offered label (the mean itself is the expected label);
    None for a page judge. A reply that is cut off is never read, however complete it looks.
    """
    try:
        content, choice = _content(body)
        found = _object(content)
        rationale, (cited, invented) = _rationale(found), _cited(found, rows)
        label, expected = _page_label(found, choice) if items is None else _item_label(found, items)
    except _Unscored as unscored:
        return Verdict(reason=unscored.reason)
    return Verdict(label=label, expected_label=expected, rationale=rationale, cited=cited, cited_invented=invented)


def _content(body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise _Unscored("empty")
    choice = choices[0]
    message = choice.get("message") or {}
    if not isinstance(message, dict):
        raise _Unscored("malformed")
    if choice.get("finish_reason") == "length":
        raise _Unscored("cut_off")
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        raise _Unscored("refusal")
    content = message.get("content")
    if isinstance(content, list):  # some servers give parts
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if not isinstance(content, str) or not content.strip():
        raise _Unscored("empty")
    return content, choice


def _object(content: str) -> dict[str, Any]:
    """The reply's object: the whole text first, then the only fenced block."""
    candidates = [content.strip(), *(_FENCED.findall(content) if content.count("```") == 2 else [])]
    for text in candidates:
        try:
            found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    raise _Unscored("refusal" if _REFUSAL.search(content.replace("\u2019", "'")) else "malformed")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _page_label(found: dict[str, Any], choice: Mapping[str, Any]) -> tuple[float, float | None]:
    """`grade` in 0, 1, 2; or `label` in 0, 0.5, 1, as some models write; both only if they say the same."""
    labels = [_offered(found["grade"], GRADES) / 2] if "grade" in found else []
    labels += [_offered(found["label"], LABELS)] if "label" in found else []
    if not labels or len(set(labels)) > 1:
        raise _Unscored("malformed")
    return labels[0], _expected(choice)


def _item_label(found: dict[str, Any], items: int) -> tuple[float, float]:
    grades = found.get("grades")
    if not isinstance(grades, list):
        raise _Unscored("malformed")
    values = [_offered(grade, GRADES) / 2 for grade in grades]
    if len(values) != items:
        raise _Unscored("missing" if len(values) < items else "malformed")
    weights = [1 / math.log2(place + 1) for place in range(1, items + 1)]
    mean = math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)
    return min(LABELS, key=lambda label: (abs(label - mean), label)), mean


def _offered(value: Any, offered: Sequence[float]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unscored("malformed")
    if value not in offered:
        raise _Unscored("out_of_range")
    return float(value)


def _rationale(found: dict[str, Any]) -> str:
    text = found.get("rationale", "")
    if not isinstance(text, str):
        raise _Unscored("malformed")
    return text.encode("utf-8", "replace").decode()[:MAX_RATIONALE]


def _cited(found: dict[str, Any], rows: int) -> tuple[tuple[int, ...], int]:
    """Rows that were shown, each once and sorted, and how many others were named."""
    given = found.get("cited") or []
    if not isinstance(given, list):
        raise _Unscored("malformed")
    real = [n for n in given if isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= rows]
    return tuple(sorted(set(real))), len(given) - len(real)


def _expected(choice: Mapping[str, Any]) -> float | None:
    """Mean label over the three grade tokens at the place of the grade, renormalised; None without usable logprobs.

    Whatever a server puts there, the label stands: logprobs that cannot be read count as not served.
    """
    try:
        return _expected_of(choice["logprobs"]["content"])
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        return None


def _expected_of(tokens: Sequence[Mapping[str, Any]]) -> float | None:
    text = "".join(str(token.get("token", "")) for token in tokens)
    place = _GRADE.search(text)
    if place is None:
        return None
    token, before = _token_at(tokens, place.start(1))
    chances = dict.fromkeys(GRADES, 0.0)
    for other in token.get("top_logprobs") or []:
        spelled = str(other.get("token", ""))
        grade = spelled[len(before) :].strip() if spelled.startswith(before) else spelled.strip()
        if grade in {"0", "1", "2"} and isinstance(other.get("logprob"), int | float):
            chances[int(grade)] += math.exp(other["logprob"])
    total = math.fsum(chances.values())
    return math.fsum(g / 2 * p for g, p in chances.items()) / total if total > 0 else None


def _token_at(tokens: Sequence[Mapping[str, Any]], place: int) -> tuple[Mapping[str, Any], str]:
    """The token that covers character `place`, and what it holds before that character."""
    start = 0
    for token in tokens:
        spelled = str(token.get("token", ""))
        if start + len(spelled) > place:
            return token, spelled[: place - start]
        start += len(spelled)
    return {}, ""

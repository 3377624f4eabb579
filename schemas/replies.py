"""JSON schemas of what an LLM may reply, strict: no other keys, all keys required."""

from typing import Any


def _strict(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


GRADES = (0, 1, 2)
"""Grades as integers, because the texts "0" and "0.5" share their first token; label = grade / 2."""

_RATIONALE = {"type": "string"}
_CITED = {"type": "array", "items": {"type": "integer"}}

PAGE_REPLY = _strict({"grade": {"type": "integer", "enum": list(GRADES)}, "rationale": _RATIONALE, "cited": _CITED})
"""The grade stands first: its token is decided by the page, not by the rationale, and its logprobs are comparable."""

ITEM_REPLY = _strict(
    {
        "grades": {"type": "array", "items": {"type": "integer", "enum": list(GRADES)}},
        "rationale": _RATIONALE,
        "cited": _CITED,
    }
)
"""One grade per result, in the order of the page."""

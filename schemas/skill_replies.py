"""JSON schemas of the replies that the skills step asks of a language model (strict: no other keys, all required)."""

from typing import Any

TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SKILL = {"name": TEXT, "description": TEXT, "instruction": TEXT, "domains": TEXTS}

PROFILE_REPLY = _object({"domain": TEXT, "content_type": TEXT})
PROPOSAL_REPLY = _object({"skills": {"type": "array", "items": _object(SKILL)}})
MINED_REPLY = _object(SKILL)
REFINEMENT_REPLY = _object({"description": TEXT, "instruction": TEXT, "domains": TEXTS})
VERDICT_REPLY = _object({"verdict": {"type": "string", "enum": ["covered", "refine", "new"]}, "skill_id": TEXT})
ROUTE_REPLY = _object({"skill_id": TEXT})
REWRITE_REPLY = _object({"rewrite": TEXT})
PASSAGE_REPLY = _object({"passage": TEXT})
THOUGHT_REPLY = _object({"thought": TEXT, "addition": TEXT})
SYNTHESIS_REPLY = _object({"instruction": TEXT})

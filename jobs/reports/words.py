"""Keys of tables and manifests in words, for everything that a person reads."""

from jobs.pages import exclusions as pages

WORDS = {
    **pages.WORDS,
    # reasons of unscored pages (schemas/judgments.py)
    "refusal": "the judge refused",
    "malformed": "reply not readable",
    "out_of_range": "grade off the scale",
    "cut_off": "reply cut off",
    "too_long": "prompt too long",
    "empty": "empty reply",
    "missing": "no reply",
    "deadline": "the run's time was up",
    "endpoint": "endpoint did not answer",
    "budget": "budget spent",
    # card rows that were left out
    "near_duplicate": "near-duplicate",
    "exact_match": "exact match",
    "beyond_k": "beyond the top k",
    # trust checks
    "repeat": "the same question again",
    "evidence_order": "order of evidence rows turned round",
    "result_order": "order of results turned round",
    "anchors": "anchor pages, against their first night",
    "up": "raised",
    "down": "lowered",
    "same": "left as they were",
}


def words(key: object) -> str:
    """The key in words; one that nobody listed with spaces for its underscores."""
    text = str(key)
    return WORDS.get(text, text.replace("_", " "))

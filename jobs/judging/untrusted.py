"""Text that strangers wrote, made safe to stand inside a prompt.

Every value becomes one JSON string on one line, so that it can neither end its block nor start a line of its own.
Ordinary text of any language stays as it is, byte for byte; control characters, invisible and direction-changing ones
and look-alikes of delimiters or chat markers become their JSON escapes, so nothing is lost and nothing acts.
"""

import json
import re

import orjson

_CONTROLS = (
    "\x7f-\x9f"  # C1 and DEL; JSON itself escapes the ones below 0x20
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    "\u2028\u2029"  # line and paragraph separator
    "\u200b\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb"  # invisible; but the joiners 200c, 200d are spelling
    "\U000e0000-\U000e007f"  # tags: a hidden second alphabet
)
_WORDS = r"(?:page|evidence|rubric|system|user|assistant|tool|developer|instructions?|inst|sys|human)"
_ACTIVE = re.compile(
    rf"[{_CONTROLS}]"
    rf"|[<\uff1c\ufe64](?=\s*[/|!<\uff0f\uff5c]|\s*[^\W\d])"  # tags and chat markers; '<3' and '< 55' stay
    rf"|[\u2039\u3008\u300a\u27e8\u00ab\u1438](?=\s*[/\uff0f]?\s*{_WORDS}\b)"  # quotation marks elsewhere
    rf"|[\[\uff3b](?=\s*/?\s*{_WORDS}\s*[\]\uff3d])",
    re.IGNORECASE,
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def quoted(text: str) -> str:
    """`text` as a JSON string literal on one line with everything active escaped; `json.loads` gives it back.

    Lone surrogates, which no UTF-8 can carry, become U+FFFD.
    """
    return quoted_json(text)


def quoted_json(value: object) -> str:
    """Any JSON value on one line, its texts escaped as in `quoted`; keys keep their order."""
    try:
        literal = orjson.dumps(value).decode()
    except TypeError:  # lone surrogates, or integers beyond 64 bits
        literal = _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    if literal.isascii() and not ("<" in literal or "[" in literal or "\x7f" in literal):
        return literal  # nothing in it can match: most values, at a tenth of the time
    return _ACTIVE.sub(_escape, literal)


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))

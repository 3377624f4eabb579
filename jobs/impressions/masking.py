"""Refused rows as they may be kept: ids hashed, queries masked, whatever shape the bytes are in.

What can be read as an object (or as a row of its table) is masked by the names of its fields and kept as JSON, which
replay reads like the original. What cannot is masked by what looks like those fields; where even that is unknown, as
in a CSV row with too many fields, every field that may hold an id is hashed.
"""

import csv
import io
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jobs.impressions.lines import RAW_LIMIT
from jobs.impressions.privacy import Salt, mask_marks, mask_text
from jobs.impressions.values import id_text

_PART = re.compile(r"[\w.+@%-]{1,320}$")
_SHORTEST = 4
"""An id of fewer characters is only looked for as a whole value: inside other texts it would be anything."""


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Names of fields, at any depth of a document: query texts are masked, ids hashed, others dropped.

    `locales` are the declared ones of the corpus: phone numbers are masked as people there write them.
    """

    queries: frozenset[str]
    ids: frozenset[str]
    dropped: frozenset[str] = frozenset()
    locales: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Masker:
    """How the refused rows of one file are kept; `header` and `separator` only for CSV."""

    hidden: Hidden
    salt: Salt
    header: tuple[str, ...] = ()
    separator: str = ","

    def kept(self, content: bytes, *, cut: bool = False) -> str:
        """Masked content, at most RAW_LIMIT bytes; bytes that are no UTF-8 are written as \\xNN."""
        return clipped(self.masked(content, cut=cut).decode("utf-8", "backslashreplace"))

    def masked(self, content: bytes, *, cut: bool = False) -> bytes:
        """The whole masked content, in bytes that are as (un)readable as those that came."""
        text = content.decode("utf-8", "surrogateescape")
        document = None if cut else self._document(text)
        if document is not None:
            return _bytes(_dumped(mask_object(document, salt=self.salt, hidden=self.hidden)))
        cut, text = cut or len(text) > 2 * RAW_LIMIT, text[: 2 * RAW_LIMIT]
        if cut:
            text = _PART.sub("", text)  # half an address is an address that no pattern finds
        return _bytes(self._loose_row(text, cut=cut) if self.header else mask_loose(text, self.hidden, self.salt))

    def kept_object(self, document: dict[str, Any]) -> str:
        """A row of a columnar file as masked JSON, at most RAW_LIMIT bytes."""
        return clipped(_dumped(mask_object(document, salt=self.salt, hidden=self.hidden)))

    def _document(self, text: str) -> dict | None:
        try:
            if not self.header:
                document = json.loads(text)
                return document if isinstance(document, dict) else None
            row = next(csv.reader(io.StringIO(text, newline=""), delimiter=self.separator, strict=True), [])
        except (ValueError, RecursionError, csv.Error):
            return None
        return dict(zip(self.header, row, strict=True)) if len(row) == len(self.header) else None

    def _loose_row(self, text: str, *, cut: bool) -> str:
        """A row whose fields cannot be told apart: each one that may be an id, for all that is known, is hashed."""
        pieces = text.split(self.separator)
        more = len(pieces) - len(self.header)
        places: set[int] = set()
        for place in (i for i, name in enumerate(self.header) if name in self.hidden.ids):
            last = len(pieces) if cut else max(place, place + more) + 1
            places.update(range(place if cut else max(0, min(place, place + more)), last))
        told = [self._piece(p) if i in places else self._text(p) for i, p in enumerate(pieces)]
        return self.separator.join(told)

    def _piece(self, piece: str) -> str:
        bare = piece.strip(" \t\r\n\"'")
        return piece.replace(bare, self.salt.token(bare)) if bare else piece

    def _text(self, piece: str) -> str:
        return mask_text(piece, declared=self.hidden.locales)


def clipped(text: str) -> str:
    """At most RAW_LIMIT bytes of a text."""
    return text.encode("utf-8", "backslashreplace")[:RAW_LIMIT].decode("utf-8", "ignore")


def mask_object(document: dict[str, Any], *, salt: Salt, hidden: Hidden) -> dict[str, Any]:
    """A refused document as it may be kept. An id that stands elsewhere in it too, such as in a URL, goes there too."""
    found: set[str] = set()
    _collect(document, hidden, found)
    names = sorted(found, key=len, reverse=True)
    return _masked(document, salt, hidden, "", names)


def mask_loose(text: str, hidden: Hidden, salt: Salt) -> str:
    """Refused text that is no document: what looks like a hidden field is masked, and addresses and cards anywhere."""

    def mask(found: re.Match[str]) -> str:
        quote, value = found["open"] or "", found["value"]
        if found["name"] in hidden.dropped:
            return f"{found['key']}{quote}{quote}"
        if found["name"] in hidden.ids:
            return f"{found['key']}{quote}{salt.token(value)}{quote}" if value else found[0]
        inner = mask_loose(value, hidden, salt)  # a message may hold an object as text
        return f"{found['key']}{quote}{mask_text(inner, declared=hidden.locales)}{found['close'] or ''}"

    return mask_marks(_fields(hidden).sub(mask, text))


@lru_cache(maxsize=64)
def _fields(hidden: Hidden) -> re.Pattern[str]:
    """NAME: VALUE, NAME=VALUE and their quoted and escaped forms; a value may be cut off anywhere, or be an object."""
    names = "|".join(sorted(map(re.escape, hidden.ids | hidden.queries | hidden.dropped), key=len, reverse=True))
    return re.compile(
        rf"""(?P<key>(?<![\w])(?P<name>{names})(?:\\*["'])?\s*[:=]\s*)"""
        r"""(?P<open>\\*["'])?(?P<value>(?(open)(?:(?!(?P=open))(?:\\.|[^\\])|\\$)*"""
        r"""|(?:[\[{][^\]}]*|[^\s,;&}\]]*)))(?P<close>(?(open)(?P=open)?))""",
        re.DOTALL,
    )


def _collect(value: Any, hidden: Hidden, found: set[str], *, within: bool = False) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _collect(inner, hidden, found, within=within or name in hidden.ids)
    elif isinstance(value, list):
        for inner in value:
            _collect(inner, hidden, found, within=within)
    elif within and (told := id_text(value)) and not isinstance(value, bool):
        found.add(told)


def _masked(value: Any, salt: Salt, hidden: Hidden, name: str, ids: list[str]) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k not in hidden.dropped}
        inside = name if name in hidden.ids or name in hidden.queries else ""
        return {k: _masked(v, salt, hidden, inside or k, ids) for k, v in kept.items()}
    if isinstance(value, list):
        return [_masked(v, salt, hidden, name, ids) for v in value]
    if name in hidden.ids and value not in (None, "") and not isinstance(value, bool):
        return salt.token(id_text(value) or str(value))
    if not isinstance(value, str):
        return value
    if name in hidden.queries:
        return mask_text(mask_loose(value, hidden, salt), declared=hidden.locales)
    for user in ids:
        if value == user or (len(user) >= _SHORTEST and user in value):
            value = value.replace(user, salt.token(user))
            break
    return mask_loose(value, hidden, salt)  # an object within a text is masked like one without


def _dumped(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str)


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, written as an escape: it stays one
        return text.encode("utf-8", "backslashreplace")

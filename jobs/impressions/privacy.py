"""What must not be stored as it came: personal data in queries is masked, user ids are salted and hashed."""

import hashlib
import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_DIGITS = re.compile(r"(?<!\w)\+?(?:\d[ .\-/()]{0,2}){6,18}\d(?!\w)")
_CARD_START = re.compile(r"4|5[1-5]|2[2-7]|3[47]|6(?:011|4[4-9]|5)|35|62")
_CARD_LENGTHS = frozenset({15, 16, 19})
_HASHED = re.compile(r"hashed:([\w.-]{1,32}):([0-9a-f]{16})")

_REGIONS = {
    "en": ("US", "GB"),
    "de": ("DE",),
    "es": ("ES", "MX"),
    "fr": ("FR",),
    "it": ("IT",),
    "pt": ("BR", "PT"),
    "nl": ("NL",),
    "sv": ("SE",),
    "da": ("DK",),
    "nb": ("NO",),
    "no": ("NO",),
    "fi": ("FI",),
    "pl": ("PL",),
    "cs": ("CZ",),
    "tr": ("TR",),
    "ru": ("RU",),
    "uk": ("UA",),
    "ja": ("JP",),
    "ko": ("KR",),
    "zh": ("CN",),
    "hi": ("IN",),
    "el": ("GR",),
    "ar": ("SA",),
}
"""Language to the regions whose national phone numbers are looked for when a locale names no region."""


@dataclass(frozen=True, kw_only=True)
class Salt:
    """The secret that user ids are hashed with, and the public name of that secret."""

    secret: bytes
    name: str

    def __repr__(self) -> str:
        return f"Salt(name={self.name!r})"

    def key(self, text: str) -> int:
        """Signed 64-bit keyed hash of an id; an id that replay brings back hashed keeps its hash."""
        done = _HASHED.fullmatch(text)
        if done:
            return struct.unpack(">q", bytes.fromhex(done.group(2)))[0]
        return struct.unpack(">q", _digest(self.secret, text))[0]

    def token(self, text: str) -> str:
        """The id as it stands in quarantine: `hashed:SALT:HEX`, which `key` reads back."""
        if _HASHED.fullmatch(text):
            return text
        return f"hashed:{self.name}:{_digest(self.secret, text).hex()}"


def make_salt(secret: str, *, name: str = "") -> Salt:
    """A salt of a secret text; its name, where none is given, is a short hash that tells salts apart."""
    raw = secret.encode()
    return Salt(secret=hashlib.blake2b(raw, digest_size=32).digest(), name=name or hashlib.sha256(raw).hexdigest()[:8])


def _digest(secret: bytes, text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=secret, digest_size=8).digest()


def mask_text(text: str, *, locale: str = "") -> str:
    """`text` with e-mail addresses, payment card numbers and phone numbers replaced by <email>, <card>, <phone>.

    Cards need a Luhn check digit (python-stdnum) and an issuer's prefix, phones must be valid numbers of the locale's
    regions or international (phonenumbers), so that article numbers and years stay searchable.
    """
    if "@" in text:
        text = _EMAIL.sub("<email>", text)
    if sum(map(str.isdigit, text)) < 7:
        return text
    text = _DIGITS.sub(_masked_card, text)
    return _without_phones(text, locale) if sum(map(str.isdigit, text)) >= 7 else text


def _masked_card(found: re.Match[str]) -> str:
    from stdnum import luhn

    digits = re.sub(r"\D", "", found.group())
    card = len(digits) in _CARD_LENGTHS and _CARD_START.match(digits) and luhn.is_valid(digits)
    return "<card>" if card else found.group()


def _without_phones(text: str, locale: str) -> str:
    import phonenumbers

    for region in (None, *regions_of(locale)):
        spans = [(m.start, m.end) for m in phonenumbers.PhoneNumberMatcher(text, region)]
        for start, end in reversed(spans):
            text = f"{text[:start]}<phone>{text[end:]}"
    return text


@lru_cache(maxsize=256)
def regions_of(locale: str) -> tuple[str, ...]:
    """Regions whose national phone numbers are masked: that of the locale ("en-GB"), or those of its language."""
    parts = locale.replace("_", "-").split("-")
    region = [p.upper() for p in parts[1:] if len(p) == 2 and p.isalpha()]
    return tuple(region[:1]) or _REGIONS.get(parts[0].lower(), ())


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Names of fields, at any depth of a document: query texts are masked, ids hashed, others dropped."""

    queries: frozenset[str]
    ids: frozenset[str]
    dropped: frozenset[str]


def mask_object(document: dict[str, Any], *, salt: Salt, hidden: Hidden) -> bytes:
    """A refused document as it may be kept, as JSON bytes; replay reads it like the original."""
    return orjson.dumps(_masked(document, salt, hidden, ""), default=str)


def _masked(value: Any, salt: Salt, hidden: Hidden, name: str) -> Any:
    if isinstance(value, dict):
        return {k: _masked(v, salt, hidden, k) for k, v in value.items() if k not in hidden.dropped}
    if isinstance(value, list):
        return [_masked(v, salt, hidden, name) for v in value]
    if name in hidden.ids and value not in (None, "") and not isinstance(value, bool):
        return salt.token(str(value))
    if not isinstance(value, str):
        return value
    return mask_text(value) if name in hidden.queries else _EMAIL.sub("<email>", value)


def mask_loose(text: str) -> str:
    """Refused text that is no document: e-mail addresses and card numbers masked, ids cannot be told apart."""
    return _DIGITS.sub(_masked_card, _EMAIL.sub("<email>", text))

"""What must not be stored as it came: personal data in queries is masked, user ids are salted and hashed."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_DIGITS = re.compile(r"(?<!\w)\+?(?:\d[ .\-/()]{0,2}){6,18}\d(?!\w)")
_SEVEN = re.compile(r"(?:\d\D*){7}")
_GROUPED = re.compile(r"\d[ .\-/()]+\d")
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

_ALL_REGIONS = tuple(dict.fromkeys(r for regions in _REGIONS.values() for r in regions))


@dataclass(frozen=True, kw_only=True)
class Salt:
    """The secret that user ids are hashed with, and the public name of that secret."""

    secret: bytes
    name: str

    def __repr__(self) -> str:
        return f"Salt(name={self.name!r})"

    def key(self, text: str) -> int:
        """Signed 64-bit keyed hash of an id; an id that replay brings back hashed keeps its hash."""
        done = _HASHED.fullmatch(text) if text.startswith("hashed:") else None
        digest = bytes.fromhex(done.group(2)) if done else _digest(self.secret, text)
        return int.from_bytes(digest, "big", signed=True)

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
    digest = _keyed(secret).copy()  # the key is half of the work
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


@cache
def _keyed(secret: bytes) -> Any:
    return hashlib.blake2b(key=secret, digest_size=8)


def mask_text(text: str, *, locale: str = "", declared: tuple[str, ...] = ()) -> str:
    """`text` with e-mail addresses, payment card numbers and phone numbers replaced by <email>, <card>, <phone>.

    Cards need a Luhn check digit (python-stdnum) and an issuer's prefix, phones must be valid numbers of the locale's
    regions or international (phonenumbers), so that article numbers and years stay searchable. Without a locale that
    names a region, those of the `declared` ones count; without any, a number of any region that is written in groups,
    as phone numbers are.
    """
    if "@" in text:
        text = _EMAIL.sub("<email>", text)
    if not _SEVEN.search(text):
        return text
    text = _DIGITS.sub(_masked_card, text)
    return _without_phones(text, locale, declared) if _SEVEN.search(text) else text


def mask_marks(text: str) -> str:
    """`text` without e-mail addresses and card numbers, for values that are no query and hold many digits."""
    text = _EMAIL.sub("<email>", text) if "@" in text else text
    return _DIGITS.sub(_masked_card, text) if _SEVEN.search(text) else text


def _masked_card(found: re.Match[str]) -> str:
    from stdnum import luhn

    digits = re.sub(r"\D", "", found.group())
    card = len(digits) in _CARD_LENGTHS and _CARD_START.match(digits) and luhn.is_valid(digits)
    return "<card>" if card else found.group()


def _without_phones(text: str, locale: str, declared: tuple[str, ...]) -> str:
    from phonenumbers import Leniency, PhoneNumberMatcher

    regions = regions_of(locale) or tuple(dict.fromkeys(r for d in declared for r in regions_of(d)))
    for region in (None, *(regions or _ALL_REGIONS)):
        strict = region is not None and not regions
        leniency = Leniency.STRICT_GROUPING if strict else Leniency.VALID
        found = list(PhoneNumberMatcher(text, region, leniency=leniency))
        for match in reversed(found):
            if not strict or _GROUPED.search(match.raw_string):
                text = f"{text[: match.start]}<phone>{text[match.end :]}"
    return text


@lru_cache(maxsize=256)
def regions_of(locale: str) -> tuple[str, ...]:
    """Regions whose national phone numbers are masked: that of the locale ("en-GB"), or those of its language."""
    parts = locale.replace("_", "-").split("-")
    region = [p.upper() for p in parts[1:] if len(p) == 2 and p.isalpha()]
    return tuple(region[:1]) or _REGIONS.get(parts[0].lower(), ())

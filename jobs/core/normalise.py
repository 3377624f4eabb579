"""Normalisation of queries: one versioned function; a new version makes new keys, so manifests name it."""

import re
import unicodedata

NORMALISATION = "nfc-space-fold-1"
"""Version that run manifests record; change it with any change of `normalise_query`."""

_SPACE = re.compile(r"[\s\u0000-\u001f\u007f-\u009f\u200b\u2060\ufeff]+")
_TURKIC = str.maketrans({"I": "ı", "İ": "i"})


def normalise_query(text: str, *, locale: str = "") -> str:
    """Unicode NFC, runs of white space and control characters to one blank, and case folding by locale.

    Turkish and Azeri fold I to ı and İ to i (Unicode SpecialCasing); German ß stays distinct from ss, because users of
    one spelling seldom mean the other and titles keep it. An empty result means: no query.
    """
    folded = unicodedata.normalize("NFC", text)
    if locale.replace("_", "-").split("-")[0].lower() in {"tr", "az"}:
        folded = folded.translate(_TURKIC)
    return unicodedata.normalize("NFC", _SPACE.sub(" ", folded.lower()).strip())

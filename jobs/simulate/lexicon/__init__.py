"""Words and wordings by locale, as files; an unknown locale is an error that names the known ones."""

import functools
import tomllib
from importlib import resources

from jobs.core.errors import UsageError


@functools.cache
def lexicon(locale: str) -> dict:
    """The lexicon of a locale, as its file stands."""
    file = resources.files(__package__) / f"{locale}.toml"
    if not file.is_file():
        known = sorted(
            f.name.removesuffix(".toml") for f in resources.files(__package__).iterdir() if f.name.endswith(".toml")
        )
        raise UsageError(f"locale {locale!r} has no simulated lexicon: take one of {', '.join(known)}")
    return tomllib.loads(file.read_text(encoding="utf-8"))

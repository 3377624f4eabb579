"""Sensitive queries: a declared file of patterns; what matches never reaches evidence, a card, a page or a report."""

import re
from pathlib import Path

import polars as pl

from jobs.core.errors import SettingsError
from jobs.core.settings import Settings


def sensitive_patterns(settings: Settings) -> tuple[str, ...]:
    """The patterns of privacy.sensitive_queries: one regular expression a line, `#` starts a comment line.

    They are searched anywhere in the normalised query, whatever its case. Empty where no file is declared;
    SettingsError names a file that is missing and a line that is no pattern.
    """
    name = settings.path(settings.privacy.sensitive_queries)
    if not name:
        return ()
    try:
        lines = Path(name).read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise SettingsError(f"{name}: no such file; correct privacy.sensitive_queries") from None
    numbered = [(n, line.strip()) for n, line in enumerate(lines, start=1)]
    return tuple(_checked(name, n, line) for n, line in numbered if line and not line.startswith("#"))


def is_sensitive(patterns: tuple[str, ...], *, query: str = "query") -> pl.Expr:
    """True where the text column matches any pattern; always false without patterns."""
    if not patterns:
        return pl.lit(value=False)
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return pl.col(query).str.contains(f"(?i){joined}")


def _checked(name: str, number: int, pattern: str) -> str:
    try:
        re.compile(pattern)
        pl.DataFrame({"query": [""]}).select(is_sensitive((pattern,)))
    except (re.error, pl.exceptions.ComputeError) as error:
        why = " ".join(str(error).split())
        raise SettingsError(f"{name} line {number}: {pattern!r} is no pattern ({why}); mend or remove it") from None
    return pattern

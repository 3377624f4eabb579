"""What a person asks for on the command line: which source a file is read as, and which arrival day its place names."""

from dataclasses import replace
from typing import Any, get_args

from jobs.core.errors import UsageError
from jobs.core.settings import Settings, Source
from jobs.core.storage import filesystem
from jobs.impressions.inputs import InputFile, glob_pattern

FORMATS = get_args(Source.model_fields["format"].annotation)


def source_by_hand(
    settings: Settings, *, corpus: str, form: str, name: str, columns: dict[str, str], zone: str, base: int
) -> Source:
    """The declared source of that name or corpus, or a bare one, with the options laid over it.

    UsageError where no source fits, or more than one: which is meant is not guessed.
    """
    check_format(form)
    if base not in (-1, 0, 1):
        raise UsageError(f"--rank-base {base}: the first place is counted as 0 or as 1")
    if corpus and settings.corpora and corpus not in settings.corpora:
        known = ", ".join(sorted(settings.corpora))
        raise UsageError(f"--corpus {corpus}: the configuration declares {known}: add a [corpora.{corpus}] table")
    found = _declared(settings, corpus=corpus, form=form, name=name)
    if found is None and not (corpus and form):
        raise UsageError("no declared source fits: pass --corpus and --format, or --name of a source in --config")
    source = found or Source(name=name or corpus, corpus=corpus, path="", format=form)
    over: dict[str, Any] = {}
    if form:
        over["format"] = form
    if columns:
        over["columns"] = {**source.columns, **columns}
    if zone:
        over["time_zone"] = zone
    if base >= 0:
        over["rank_base"] = {"default": base}
    return Source.model_validate({**source.model_dump(), **over})


def _declared(settings: Settings, *, corpus: str, form: str, name: str) -> Source | None:
    fits = [s for s in settings.sources if (not name or s.name == name) and (not corpus or s.corpus == corpus)]
    if len(fits) > 1 and form:
        fits = [s for s in fits if s.format == form] or fits
    if len(fits) > 1:
        raise UsageError(f"the sources {', '.join(s.name for s in fits)} all fit: say which with --name")
    return fits[0] if fits else None


def check_format(form: str) -> None:
    """UsageError for a format that nothing reads; empty is fine."""
    if form and form not in FORMATS:
        raise UsageError(f"--format {form}: is no format: use {', '.join(FORMATS)}")


def pairs_of(text: str) -> dict[str, str]:
    """The option --columns as field to column; UsageError for a part without both."""
    pairs = [p.partition("=") for p in text.split(",") if p.strip()]
    wrong = [p for p in pairs if not p[1] or not p[0].strip() or not p[2].strip()]
    if wrong:
        raise UsageError(f"--columns {wrong[0][0]!r} names no column: write FIELD=COLUMN, such as query=query_text")
    return {field.strip(): column.strip() for field, _, column in pairs}


def dated(files: list[InputFile], *, path: str) -> list[InputFile]:
    """Files with the arrival day that their place names, where `path` (a source's own, resolved) has {day}.

    A file of a day's folder that is read by hand arrived on that day, as in the night that would read it.
    """
    if "{day}" not in path:
        return files
    pattern = glob_pattern(filesystem(path)[1])
    found = [(f, pattern.fullmatch(filesystem(f.uri)[1])) for f in files]
    return [replace(f, arrival_day=m.group("day")) if m and f.arrival_day is None else f for f, m in found]

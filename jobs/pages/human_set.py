"""The human set of a run: labels of every corpus that declares some, as pages of the table."""

from pathlib import Path
from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.sensitive import is_sensitive, sensitive_patterns
from jobs.core.settings import Settings
from jobs.pages.catalogue import catalogue, fill_titles
from jobs.pages.exclusions import undeclared_locales
from jobs.pages.labelmap import load_map
from jobs.pages.labels import import_labels
from jobs.pages.model import pages_frame


def human_pages(ctx: Context) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Rows of the table `pages` for the set `human`, and a summary by corpus; empty where no corpus has labels."""
    labelled = [name for name in ctx.corpora if ctx.settings.corpora[name].labels]
    frames, summaries = [pages_frame([], run=ctx.run.key, set_name="human")], {}
    items = catalogue(ctx, corpora=labelled) if labelled else pl.DataFrame()
    for corpus in labelled:
        pages, summaries[corpus] = _corpus_pages(ctx, corpus, items)
        frames.append(pages_frame(pages, run=ctx.run.key, set_name="human"))
    frame = pl.concat(frames)
    return frame, {"pages": frame.height, "labelled": frame["human_label"].count(), "corpora": summaries}


def without_sensitive(settings: Settings, pages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Pages whose query matches no sensitive pattern, and how many were left out."""
    patterns = sensitive_patterns(settings)
    if not patterns or not pages:
        return pages, 0
    hidden = pl.DataFrame({"query": [page["query"] for page in pages]}).select(is_sensitive(patterns)).to_series()
    kept = [page for page, hide in zip(pages, hidden, strict=True) if not hide]
    return kept, len(pages) - len(kept)


def _corpus_pages(ctx: Context, corpus: str, items: pl.DataFrame) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    declared = ctx.settings.corpora[corpus]
    map_path = Path(ctx.settings.path(declared.labels_map)) if declared.labels_map else None
    label_map = load_map(map_path)
    named = label_map.model_copy(update={"corpus": label_map.corpus or corpus, "locale": label_map.locale})
    path = Path(ctx.settings.path(declared.labels))
    imported = import_labels(path, label_map=named, folder=(map_path or path).parent)
    kept, sensitive = without_sensitive(ctx.settings, imported.pages)
    pages, untitled = fill_titles(kept, items)
    strange = undeclared_locales(ctx.settings, pages)
    counts = {"sensitive": sensitive, "items_without_title": untitled, "undeclared_locales": strange}
    return pages, {**imported.summary, **counts}

"""The A/B set of a launch: pages of two systems from files, or as two rankers of the log showed them."""

from typing import Any

import polars as pl

from jobs.core.context import Context
from jobs.core.errors import InputError
from jobs.pages.catalogue import catalogue, fill_titles
from jobs.pages.exclusions import undeclared_locales
from jobs.pages.files import content_rows, parse_pages
from jobs.pages.human_set import without_sensitive
from jobs.pages.model import pages_frame
from jobs.pages.shown import coverage, launch_window, sampled_pages


def launch_pages(ctx: Context) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Rows of the table `pages` for the set `launch`, and a summary: coverage of both systems, what was refused."""
    parameters = ctx.store.read_json(f"launches/{ctx.run.launch_id}/launch.json")
    found, summary = [], {}
    for system in ("a", "b"):
        if not parameters.get(f"ranker_{system}"):
            pages, summary[f"file_{system}"] = _from_file(ctx, system)
            found += pages
    rankers = {s: parameters[f"ranker_{s}"] for s in ("a", "b") if parameters.get(f"ranker_{s}")}
    if rankers:
        window, instances = launch_window(ctx, parameters), ctx.settings.pages.instances
        sampled, rare = sampled_pages(ctx, rankers=rankers, window=window, instances=instances)
        found += sampled
        summary |= {"sampled_within": str(window), "rare_queries": rare}
    kept, sensitive = without_sensitive(ctx.settings, found)
    pages, untitled = fill_titles(kept, catalogue(ctx, corpora=ctx.corpora))
    frame = pages_frame(pages, run=ctx.run.key, set_name="launch")
    counts = {
        "pages": frame.height,
        "sensitive": sensitive,
        "items_without_title": untitled,
        "undeclared_locales": undeclared_locales(ctx.settings, pages),
        "coverage": coverage(pages),
    }
    return frame, {**counts, **summary}


def _from_file(ctx: Context, system: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Pages of one system from the copy that the launch keeps; the system's letter goes into each page and its id."""
    name = f"launches/{ctx.run.launch_id}/pages-{system}.jsonl"
    content = ctx.store.documents.read_bytes(name)
    only = ctx.corpora[0] if len(ctx.corpora) == 1 else ""
    read = parse_pages(content_rows(content, name=name), name=name, defaults={"set": "launch", "corpus": only})
    pages = [_of_system(page, system) for page in read.pages]
    unknown = sorted({page["corpus"] for page in pages} - set(ctx.corpora))
    if unknown:
        raise InputError(f"{name}: corpora {unknown} have no [corpora.NAME] table: correct the pages or the settings")
    return pages, read.summary


def _of_system(page: dict[str, Any], system: str) -> dict[str, Any]:
    """The page with its system; the letter is put before an id that both files may use, so that ids stay apart."""
    own = page["page_id"] if page["system"] == system else f"{system}-{page['page_id']}"
    return {**page, "set": "launch", "system": system, "page_id": own}

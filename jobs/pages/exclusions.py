"""What the pages step left out and why, from its summary: counts by set, and sentences for people."""

from collections import Counter
from typing import Any

from jobs.core.settings import Settings

SETS = ("logs", "human", "launch")

WORDS = {
    # queries that got no pages
    "sensitive": "sensitive",
    "too_few_users": "issued by too few users",
    "too_many_users": "issued by too many users",
    "too_few_relevant_items": "too few relevant items shown on even and on odd days",
    "not_sampled": "not drawn into the sample",
    # pages of a launch
    "unreadable_lines": "lines that could not be read",
    "queries_a_only": "queries with pages of A only",
    "queries_b_only": "queries with pages of B only",
    "rare_queries": "queries of too few users",
    # human labels
    "too_little_rated": "under half of the weight rated",
    "no_query": "no query",
    "no_item": "no item",
    "no_label": "no label",
    "no_json": "no JSON",
    "label_off_scale": "label off the declared scale",
}
"""Reasons in words."""


def excluded(summary: dict[str, Any] | None) -> dict[str, Any]:
    """What the pages step left out, by set: counts by reason; {} for a set that it did not build.

    logs: queries. human: label rows and pages, per corpus. launch: lines of the pages files, and one-sided queries.
    """
    found = {name: (summary or {}).get(name) or {} for name in SETS}
    return {
        "logs": _positive(found["logs"].get("excluded_queries")),
        "human": {corpus: _of_labels(one) for corpus, one in (found["human"].get("corpora") or {}).items()},
        "launch": _of_launch(found["launch"]),
    }


def cautions(summary: dict[str, Any] | None) -> list[str]:
    """Sentences that a reader of figures on these pages must know; empty where nothing is amiss."""
    launch = excluded(summary)["launch"]
    found = []
    if launch.get("unreadable_lines"):
        found.append(f"{launch['unreadable_lines']:,} lines of the launch's pages could not be read and were left out")
    a, b = (launch.get(f"queries_{s}_only", 0) for s in ("a", "b"))
    if a + b:
        found.append(f"{a + b:,} queries have pages of one system only ({a:,} of A, {b:,} of B) and decide nothing")
    for name, one in _parts(summary):
        found += of_pages(name, one)
    return found


def _parts(summary: dict[str, Any] | None) -> list[tuple[str, dict[str, Any]]]:
    """What was said of each source of pages that people hand in: labels by corpus, and the launch."""
    human = ((summary or {}).get("human") or {}).get("corpora") or {}
    named = [(f"human labels of {corpus}", one) for corpus, one in human.items()]
    launch = (summary or {}).get("launch")
    return [*named, ("the launch's pages", launch)] if launch else named


def of_pages(name: str, one: dict[str, Any]) -> list[str]:
    """Sentences about locales that nobody declared and items without titles, from the counts of one source."""
    found, locales = [], one.get("undeclared_locales") or {}
    if locales:
        listed = ", ".join(f"{locale or 'none'} ({n:,})" for locale, n in sorted(locales.items()))
        found.append(f"{name}: {sum(locales.values()):,} pages are in locales that no setting declares: {listed}")
    if one.get("items_without_title"):
        found.append(f"{name}: {one['items_without_title']:,} items have no title, so judges see none")
    return found


def undeclared_locales(settings: Settings, pages: list[dict[str, Any]]) -> dict[str, int]:
    """Pages by locale, of those whose corpus declares locales and not theirs; such pages find no evidence."""
    declared = {name: set(corpus.locales) for name, corpus in settings.corpora.items()}
    strange = Counter(p["locale"] for p in pages if p["locale"] not in (declared.get(p["corpus"]) or {p["locale"]}))
    return dict(sorted(strange.items()))


def told(summary: dict[str, Any]) -> list[str]:
    """The summary of the pages step as lines for people who run it."""
    found = excluded(summary)
    lines = [f"logs: queries left out: {counted(found['logs'])}"] if found["logs"] else []
    lines += [f"human labels of {c}: left out: {counted(n)}" for c, n in found["human"].items() if n]
    for system in ("a", "b"):
        refused = (((summary.get("launch") or {}).get(f"file_{system}")) or {}).get("first_refused") or []
        lines += [f"launch, pages of {system.upper()}, line {one['line']}: {one['reason']}" for one in refused]
    return [f"pages: {line}" for line in [*lines, *cautions(summary)]]


def _of_labels(one: dict[str, Any]) -> dict[str, int]:
    sensitive = {"sensitive": one.get("sensitive", 0)}
    return _positive({**(one.get("rejected") or {}), **(one.get("unlabelled") or {}), **sensitive})


def _of_launch(one: dict[str, Any]) -> dict[str, int]:
    files = [one.get(f"file_{system}") or {} for system in ("a", "b")]
    coverage = one.get("coverage") or {}
    return _positive(
        {
            "unreadable_lines": sum(f.get("refused", 0) for f in files),
            "queries_a_only": coverage.get("queries_a_only", 0),
            "queries_b_only": coverage.get("queries_b_only", 0),
            "sensitive": one.get("sensitive", 0),
            "rare_queries": one.get("rare_queries", 0),
        }
    )


def _positive(counts: dict[str, int] | None) -> dict[str, int]:
    return {k: n for k, n in (counts or {}).items() if n}


def counted(counts: dict[str, int]) -> str:
    """Counts by reason as one text, largest first: "36 too few relevant items, 3 issued by too few users"."""
    there = sorted(
        ((n, WORDS.get(k, k.replace("_", " "))) for k, n in counts.items() if n), key=lambda pair: (-pair[0], pair[1])
    )
    return ", ".join(f"{n:,} {name}" for n, name in there)

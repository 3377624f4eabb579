"""Every declared table, and the generated data dictionary CATALOG.md (`python -m schemas.catalog` rewrites it)."""

import sys
from pathlib import Path

from schemas import cards, evidence, judgments, logs, metrics, pages, skills
from schemas.contract import Table

TABLES: dict[str, Table] = {
    t.name: t for part in (logs, evidence, pages, cards, judgments, skills, metrics) for t in part.TABLES
}


class UnknownTable(KeyError):
    """A table name that no contract declares."""


def table(name: str) -> Table:
    """The declaration of a table; UnknownTable names it and what there is."""
    if name not in TABLES:
        raise UnknownTable(f"no table {name!r}: declared are {', '.join(TABLES)}")
    return TABLES[name]


def catalog_markdown() -> str:
    """The data dictionary: one section a table, one line a column."""
    lines = ["# Data dictionary", "", "Generated from schemas/ by `python -m schemas.catalog`; do not edit.", ""]
    for spec in TABLES.values():
        by = ", ".join(f"`{p}`" for p in spec.partition) or "nothing"
        lines += [
            f"## {spec.name}",
            "",
            f"A row: {spec.meaning}. Partitioned by {by}. Contract version {spec.version}.",
            "",
        ]
        lines += ["| column | type | key | null | unit | meaning |", "|---|---|---|---|---|---|"]
        for c in spec.columns:
            marks = ("yes" if c.key else "", "yes" if c.nullable else "")
            lines.append(f"| {c.name} | {c.type} | {marks[0]} | {marks[1]} | {c.unit} | {c.meaning} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Rewrite CATALOG.md beside this file."""
    path = Path(__file__).with_name("CATALOG.md")
    path.write_text(catalog_markdown(), encoding="utf-8")
    sys.stdout.write(f"{path.name}: {len(TABLES)} tables\n")


if __name__ == "__main__":
    main()

"""Small inputs for tests of the report: pages and judgments with the columns of their tables."""

import json

import polars as pl

from schemas.judgments import JUDGMENTS
from schemas.pages import PAGES

_DEFAULTS = {"int": 0, "bigint": 0, "string": "", "boolean": False}


def _row(table, **given):
    blank = {c.name: None if c.nullable else _DEFAULTS.get(c.type) for c in table.columns}
    return {**blank, "run": "night-2026-11-20", "set": "logs", "corpus": "tracks", **given}


def pages(*rows: dict) -> pl.DataFrame:
    """Pages with defaults; `items` may be a list of (item_id, title)."""
    full = []
    for i, row in enumerate(rows):
        items = [{"item_id": k, "rank": r, "title": t, "type": "track", "metadata": {}}
                 for r, (k, t) in enumerate(row.get("items", [("i1", "One")]), 1)]  # fmt: skip
        base = {"page_id": f"p{i}", "query_key": i, "query": f"query {i}", "locale": "en", "configuration": "good",
                "made": "{}"}  # fmt: skip
        full.append(_row(PAGES, **{**base, **row, "items": json.dumps(items)}))
    return pl.DataFrame(full, schema=PAGES.polars(), orient="row")


def judgments(*rows: dict) -> pl.DataFrame:
    """Judgments with defaults."""
    base = {"variant": "plain", "model": "m", "configuration": "good", "cited": [], "members": []}
    full = [_row(JUDGMENTS, **{**base, **row}) for row in rows]
    return pl.DataFrame(full, schema=JUDGMENTS.polars(), orient="row")


def judged(labels: dict[str, list], truths: list, **columns) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Pages p0.. with these truths and one judgment per variant and page (None = unscored, refused)."""
    n = len(truths)
    rows = [{k: v[i] for k, v in columns.items()} | {"truth": truths[i]} for i in range(n)]
    answers = [
        {"page_id": f"p{i}", "query_key": i, "variant": v, "qri_count": columns.get("qri_count", [3] * n)[i],
         **({"expected_label": x[i]} if v == "evidence_only" else
            {"label": x[i], "reason": None if x[i] is not None else "refusal"})}
        for v, x in labels.items() for i in range(n)
    ]  # fmt: skip
    table = pages(*({k: v for k, v in r.items() if k != "qri_count"} for r in rows))
    return table, judgments(*answers)

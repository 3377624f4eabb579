"""How a judge uses its evidence: are cited rows real, and do labels move the way the evidence points?"""

from __future__ import annotations

from typing import Any

import polars as pl


def evidence_use(judgments: pl.DataFrame, *, variant: str) -> dict[str, Any] | None:
    """From judgments of a run (columns page_id, variant, label, expected_label, cited, cited_invented, evidence_rows).

    cited_share: share of grounded labels that name a row; invented_share: share that name a row which was not shown;
    moved: over pages with evidence that plain and the variant both labelled, by direction of the move, their number and
    the mean card value (evidence_only): labels that follow the evidence rise on high values and fall on low ones.
    None where the variant has no label with evidence.
    """
    mine = judgments.filter(
        (pl.col("variant") == variant) & (pl.col("evidence_rows") > 0) & pl.col("label").is_not_null()
    )
    if not mine.height:
        return None
    shares = mine.select(
        cited=(pl.col("cited").list.len() > 0).mean(), invented=(pl.col("cited_invented") > 0).mean()
    ).row(0, named=True)
    return {
        "n": mine.height,
        "cited_share": round(shares["cited"], 4),
        "invented_share": round(shares["invented"], 4),
        "moved": _moves(judgments, mine),
    }


def _moves(judgments: pl.DataFrame, mine: pl.DataFrame) -> dict[str, dict[str, Any]]:
    plain = judgments.filter(pl.col("variant") == "plain").select("page_id", plain="label")
    value = judgments.filter(pl.col("variant") == "evidence_only").select("page_id", value="expected_label")
    both = mine.select("page_id", "label").join(plain, on="page_id").join(value, on="page_id", how="left")
    step = pl.col("label") - pl.col("plain")
    direction = pl.when(step > 0).then(pl.lit("up")).when(step < 0).then(pl.lit("down")).otherwise(pl.lit("same"))
    table = both.drop_nulls("plain").group_by(direction=direction).agg(n=pl.len(), value=pl.col("value").mean())
    found = {row["direction"]: row for row in table.iter_rows(named=True)}
    return {name: {"n": row["n"], "mean_value": _rounded(row["value"])} for name, row in sorted(found.items())}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

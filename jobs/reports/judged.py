"""One set of pages with the labels of every variant side by side: the form in which all sections read judgments."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from schemas.judgments import GROUNDED, VARIANTS

BASELINE = "plain"
MAIN = "qri"


@dataclass(frozen=True, kw_only=True)
class JudgedSet:
    """Pages in the order of (query_key, page_id) with labels per variant; NaN where a variant gave no label.

    `pages` has page_id, query_key, corpus, locale, configuration, truth, truth_standard_error, qri_count and more;
    `unscored` counts reasons per variant; `excluded` says which pages stand in no figure, and why.
    """

    name: str
    pages: pl.DataFrame
    labels: dict[str, np.ndarray]
    unscored: dict[str, dict[str, int]]
    excluded: dict[str, int]

    @property
    def variants(self) -> list[str]:
        """Variants in the order of formats.md, foreign ones after them by name."""
        return list(self.labels)

    @property
    def baseline(self) -> str | None:
        """The variant without evidence: plain, or the first one of a foreign file."""
        return BASELINE if BASELINE in self.labels else next(iter(self.labels), None)

    @property
    def main(self) -> str | None:
        """The variant that is judged against the baseline: qri, or the next one there is."""
        others = [v for v in self.labels if v != self.baseline and v != "evidence_only"]
        return MAIN if MAIN in others else next(iter(others), None)

    @property
    def graded(self) -> list[str]:
        """Variants that answer with labels, which can flip; evidence_only has values on a scale of its own."""
        return [v for v in self.labels if v != "evidence_only"]

    @property
    def truth(self) -> np.ndarray:
        """Truth of each page, float64 (n,), never NaN."""
        return self.pages["truth"].to_numpy()

    @property
    def errors(self) -> tuple[np.ndarray, bool]:
        """Error of each page's truth, float64 (n,), NaN where unknown; True if its square is right on average.

        Pages made from the log carry such a variance in `made` (`truth_variance`); otherwise the standard error is
        taken, which may err on the safe side. A human label has neither.
        """
        if self.name == "human":
            return np.full(self.pages.height, np.nan), False
        variance = self.pages["made"].str.json_path_match("$.truth_variance").cast(pl.Float64, strict=False)
        if variance.null_count() < self.pages.height:
            return variance.sqrt().fill_null(float("nan")).to_numpy(), True
        return self.pages["truth_standard_error"].cast(pl.Float64).fill_null(float("nan")).to_numpy(), False

    @property
    def query(self) -> np.ndarray:
        """Query key of each page, int64 (n,): the unit that is resampled."""
        return self.pages["query_key"].to_numpy()

    def scored(self, *variants: str) -> np.ndarray:
        """Pages (boolean, n) that all of `variants` gave a label."""
        return np.logical_and.reduce([~np.isnan(self.labels[v]) for v in variants])

    def flipped(self, a: str, b: str) -> np.ndarray:
        """Pages (boolean, n) on which both gave a label and these differ."""
        return self.scored(a, b) & (self.labels[a] != self.labels[b])


def ordered_variants(names: Any) -> list[str]:
    """Known variants in their order, then others by name."""
    there = set(names)
    return [v for v in VARIANTS if v in there] + sorted(there - set(VARIANTS))


def with_value(judgments: pl.DataFrame) -> pl.DataFrame:
    """One row per page and variant with `value`: the label, or for evidence_only the card's value.

    Of several models or samples the first sample of the model with most rows counts (ties: by name).
    """
    models = (
        judgments.group_by("variant", "model").len().sort("variant", "len", "model", descending=[False, True, False])
    )
    chosen = models.group_by("variant", maintain_order=True).first().select("variant", "model")
    alone = pl.col("variant") == "evidence_only"
    value = pl.when(alone).then(pl.col("expected_label")).otherwise(pl.col("label"))
    rows = judgments.join(chosen, on=["variant", "model"], how="semi").sort("page_id", "variant", "sample")
    return rows.unique(["page_id", "variant"], keep="first", maintain_order=True).with_columns(value=value)


def judged_set(name: str, *, pages: pl.DataFrame, judgments: pl.DataFrame, truth: str = "truth") -> JudgedSet:
    """The pages of `pages` that have a `truth` column value, with all labels.

    Pages without truth, and judged pages that `pages` does not hold, are counted in `excluded`.
    """
    rows = with_value(judgments)
    known = pages.with_columns(pl.col(truth).alias("truth")).filter(pl.col("truth").is_not_null())
    counts = rows.group_by("page_id").agg(pl.col("qri_count").max())
    table = known.join(counts, on="page_id", how="left").with_columns(pl.col("qri_count").fill_null(0))
    table = table.sort("query_key", "page_id")
    labels = {v: _column(table, rows, v) for v in ordered_variants(rows["variant"].unique().to_list())}
    excluded = {
        "pages without truth": pages.height - known.height,
        "judged pages that are not in the set": rows.join(pages, on="page_id", how="anti")["page_id"].n_unique(),
        "pages never judged": table.join(rows, on="page_id", how="anti").height,
    }
    return JudgedSet(
        name=name,
        pages=table,
        labels=labels,
        unscored={v: _reasons(table, rows, v) for v in labels},
        excluded={k: n for k, n in excluded.items() if n},
    )


def _column(table: pl.DataFrame, rows: pl.DataFrame, variant: str) -> np.ndarray:
    own = rows.filter(pl.col("variant") == variant).select("page_id", "value")
    joined = table.select("page_id").join(own, on="page_id", how="left", maintain_order="left")
    return joined["value"].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _reasons(table: pl.DataFrame, rows: pl.DataFrame, variant: str) -> dict[str, int]:
    own = rows.filter(pl.col("variant") == variant).join(table, on="page_id", how="semi")
    lost = own.filter(pl.col("value").is_null())
    default = "no card" if variant == "evidence_only" else "missing"
    counts = lost.group_by(pl.col("reason").fill_null(default)).len().sort("reason")
    return dict(counts.iter_rows())


def is_grounded(variant: str) -> bool:
    """True for variants that show evidence to a judge."""
    return variant in GROUNDED

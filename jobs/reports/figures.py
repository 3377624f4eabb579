"""Every figure of the report, drawn from report.json alone, in the order of its sections."""

from collections.abc import Iterator
from typing import Any

from jobs.reports import figures_agreement as agreement
from jobs.reports import figures_pipeline as pipeline
from jobs.reports.figure_kit import STYLE, Drawing

MAKERS = (
    agreement.tiles,
    pipeline.windows,
    agreement.truth_by_label,
    agreement.label_share,
    agreement.drops,
    pipeline.curve,
    pipeline.propensity,
    pipeline.counts,
)


def drawings(report: dict[str, Any]) -> Iterator[Drawing]:
    """All figures that the report has data for."""
    import matplotlib

    matplotlib.use("Agg")
    with matplotlib.rc_context(STYLE):
        for make in MAKERS:
            yield from make(report)

"""Front door of the report's statistics; the pieces live in the modules named here."""

from jobs.reports.agreement import agree, cohen_kappa, krippendorff_alpha
from jobs.reports.alignment import alignment, compare_judges, online_noise, preferences
from jobs.reports.association import STATISTICS, association
from jobs.reports.ceilings import label_ceiling, noise_ceiling
from jobs.reports.paired import holm, mcnemar, swap_test, williams_t, zou_interval
from jobs.reports.resample import Subset, bootstrap, interval

__all__ = [
    "STATISTICS",
    "Subset",
    "agree",
    "alignment",
    "association",
    "bootstrap",
    "cohen_kappa",
    "compare_judges",
    "holm",
    "interval",
    "kendall_b",
    "kendall_c",
    "krippendorff_alpha",
    "label_ceiling",
    "mcnemar",
    "noise_ceiling",
    "online_noise",
    "pairwise_accuracy",
    "preferences",
    "spearman",
    "swap_test",
    "williams_t",
    "zou_interval",
]


def spearman(labels, truth) -> float | None:
    """Pearson correlation of mid-ranks; None where either input is constant or empty."""
    return _one("spearman", labels, truth)


def kendall_b(labels, truth) -> float | None:
    """Kendall's tau-b; None where either input is constant or empty."""
    return _one("kendall_b", labels, truth)


def kendall_c(labels, truth) -> float | None:
    """Stuart's tau-c; None where either input is constant or empty."""
    return _one("kendall_c", labels, truth)


def pairwise_accuracy(labels, truth) -> float | None:
    """Share of pairs of different truth ordered alike, a tie of labels counting half; None where undefined."""
    return _one("pairwise_accuracy", labels, truth)


def _one(name: str, labels, truth) -> float | None:
    value = association(labels, truth)[name]
    return None if value != value else value

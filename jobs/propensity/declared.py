"""Declared curves: a power law of the rank, or a table that somebody measured elsewhere."""

from jobs.core.errors import UsageError


def power_law(*, eta: float, ranks: int) -> list[float]:
    """p_k = 1 / k^eta for ranks 1..`ranks`. A wrong eta biases relevance: true 1, declared .5 gives -.117, 1.5
    +.221.
    """
    if eta < 0:
        raise UsageError(f"declared eta is {eta}: examination cannot rise with the rank, use 0 or more")
    return [1.0 / k**eta for k in range(1, ranks + 1)]


def from_table(table: dict[str, float], *, ranks: int, eta: float) -> list[float]:
    """A table {"1": 1.0, "2": .7, ...} relative to its rank 1; ranks that it lacks follow the power law `eta`."""
    values = {int(rank): float(value) for rank, value in table.items()}
    wrong = {rank: value for rank, value in values.items() if rank < 1 or not value > 0}
    if wrong or 1 not in values:
        raise UsageError(f"declared propensities {wrong or table} need 1-based ranks, rank 1 and values above 0")
    law = power_law(eta=eta, ranks=ranks)
    return [values.get(k, law[k - 1] * values[1]) / values[1] for k in range(1, ranks + 1)]

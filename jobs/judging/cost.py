"""What calls cost: a price table per model, and a budget that is reserved before each call, so it is never passed."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from jobs.core.errors import UsageError

_PACKAGED = Path(__file__).parent / "prices.toml"


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float

    def usd(self, *, tokens_in: int, tokens_out: int) -> float:
        """Dollars for so many tokens."""
        return (self.input * tokens_in + self.output * tokens_out) / 1e6


FREE = Price(input=0.0, output=0.0)


def price_of(model: str, *, batch: bool = False, table: str = "") -> Price | None:
    """The model's price from the file `table` (empty: the packaged one); None where it does not know the model."""
    path = Path(table) if table else _PACKAGED
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
        found = body["models"].get(model)
        share = float(body.get("batch", 1.0)) if batch else 1.0
        return Price(input=found["input"] * share, output=found["output"] * share) if found else None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"price table {path} cannot be read ({error}): write it like {_PACKAGED.name}") from None


class Budget:
    """Dollars that may be spent; without a limit nothing is held back.

    A call's cost is reserved at its estimate and settled at what it used, so that calls in flight together cannot pass
    the limit by more than the estimates were wrong.
    """

    def __init__(self, *, limit_usd: float | None):
        self.limit_usd = limit_usd
        self.spent_usd = 0.0
        self.refused = 0
        self._reserved = 0.0

    def take(self, usd: float) -> bool:
        """Reserve a call's estimated cost; False (and counted as refused) where it would pass the limit."""
        if self.limit_usd is not None and usd > 0 and self.spent_usd + self._reserved + usd > self.limit_usd:
            self.refused += 1
            return False
        self._reserved += usd
        return True

    def settle(self, reserved_usd: float, spent_usd: float) -> None:
        """Replace a reservation by what the call used."""
        self._reserved -= reserved_usd
        self.spent_usd += spent_usd

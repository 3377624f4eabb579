"""A line of a benchmark's table: figure, bound, verdict."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One figure. `verdict` is pass, FAIL or reported (no bound)."""

    name: str
    figure: str
    bound: str = ""
    verdict: str = "reported"
    note: str = ""


def at_most(name: str, value: float, bound: float, *, note: str = "") -> Line:
    """A figure that must not exceed its bound."""
    return Line(name, f"{value:.4f}", f"<= {bound:g}", "pass" if value <= bound else "FAIL", note)


def at_least(name: str, value: float, bound: float, *, note: str = "") -> Line:
    """A figure that must reach its bound."""
    return Line(name, f"{value:.4f}", f">= {bound:g}", "pass" if value >= bound else "FAIL", note)


def within(name: str, value: float, low: float, high: float, *, note: str = "") -> Line:
    """A figure that must lie between two bounds."""
    return Line(name, f"{value:.4f}", f"{low:g} to {high:g}", "pass" if low <= value <= high else "FAIL", note)


def holds(name: str, *, truth: bool, figure: str, note: str = "") -> Line:
    """A statement that must be true."""
    return Line(name, figure, "must hold", "pass" if truth else "FAIL", note)

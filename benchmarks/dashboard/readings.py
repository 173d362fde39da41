"""What was measured beside its budget."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One number: at most ``budget``, or at least it; without a budget it is only shown."""

    name: str
    value: float
    unit: str
    budget: float | None = None
    at_least: bool = False

    @property
    def kept(self) -> bool:
        """True when the number keeps its budget."""
        if self.budget is None:
            return True
        return self.value >= self.budget if self.at_least else self.value <= self.budget


HEAD = f"{'pages':<46} {'measured':>10} {'budget':>12}"


def line(one: Reading) -> str:
    """A reading as a line below :data:`HEAD`, with a mark if it is over its budget."""
    sign = "≥" if one.at_least else "≤"
    budget = "" if one.budget is None else f"{sign} {one.budget:g}"
    over = "" if one.kept else "   over"
    return f"  {one.name:<44} {one.value:>10.1f} {budget:>12} {one.unit}{over}"

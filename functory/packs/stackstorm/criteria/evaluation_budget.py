"""The budget of one evaluation of criteria: what it may read of an event, in characters.

Every test, every element that a key or a loop passes, and every value that a template writes or compares is counted
before the work is done. So neither a search in a search nor a loop in an operand multiplies beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The characters of one evaluation: some tenths of a second at the worst.
MAX_WORK = 20_000_000
# The cost of a step that Python makes, in characters: an element that is visited, a member that is looked up.
STEP_COST = 20
# The cost of an expression that an event brings, which RE2 compiles: some milliseconds at the worst.
COMPILE_COST = 200_000


class Spent(Exception):
    """The budget of one evaluation is used up."""


class EvaluationBudget:
    """What is left for one evaluation. Not thread-safe: each evaluation has its own."""

    def __init__(self) -> None:
        self._left = MAX_WORK
        self._compiled: set[tuple[str, str]] = set()

    def spend(self, characters: int) -> None:
        """Count work that is about to be done. Raises :class:`Spent`."""
        self._left -= characters
        if self._left < 0:
            raise Spent

    def spend_on_value(self, value: Any) -> None:
        """Count all characters, elements and members of a value. Raises :class:`Spent`."""
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Mapping):
                self.spend(STEP_COST + 2 * STEP_COST * len(item))
                waiting += [*item, *item.values()]
            elif isinstance(item, list | tuple):
                self.spend(STEP_COST + STEP_COST * len(item))
                waiting += item
            else:
                self.spend(STEP_COST + (len(item) if isinstance(item, str | bytes) else 0))

    def spend_on_expression(self, operator: str, expression: str) -> None:
        """Count the compilation of an expression that the event brings, once for each. Raises :class:`Spent`."""
        if (operator, expression) not in self._compiled:
            self.spend(COMPILE_COST)
            self._compiled.add((operator, expression))


def count_elements(value: Any) -> int:
    """Return how many comparisons an equality with ``value`` makes at most."""
    count = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        count += 1
        if isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
    return count

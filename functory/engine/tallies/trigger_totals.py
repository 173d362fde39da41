"""All that triggers have done: the sums of their hours, and what the tallier has not counted yet.

The cost follows the hours and the triggers. Rows are counted only from the cursor of the tallier on: usually those of
the last minute, and all of them where no scheduler has ever run. Hours are kept for 400 days, whatever the settings
say, so that the numbers outlive the firings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from functory.engine.database.transaction import Tx
from functory.engine.tallies import rows, tallier
from functory.engine.tallies.count import FIRED, trigger_counts


@dataclass
class TriggerTotals:
    """``fired`` are the executions that the trigger started, ``suppressed`` its other decisions."""

    fired: int = 0
    suppressed: int = 0

    def add(self, outcome: str, count: int) -> None:
        """Add decisions of one outcome."""
        if outcome == FIRED:
            self.fired += count
        else:
            self.suppressed += count


def read(tx: Tx, names: Sequence[str]) -> dict[str, TriggerTotals]:
    """Return the totals of these triggers. ``tx`` must see one snapshot: a row is counted, or it is behind the
    cursor.
    """
    found = {name: TriggerTotals() for name in names}
    if not names:
        return found
    for name, outcome, count in rows.sums(tx, "trigger", rows.HOUR, names):
        found[name].add(outcome, count)
    cursor = tallier.to_time(tallier.read_cursor(tx) or 0)
    for key, one in trigger_counts(tx, cursor).items():
        if key.name in found:
            found[key.name].add(key.outcome, one.count)
    return found

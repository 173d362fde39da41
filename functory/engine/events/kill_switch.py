"""Whether triggers are halted: the one question about the kill switch, for all who read it.

While they are halted, events stay pending and nothing is routed. :mod:`functory.engine.firings.kill_switch` throws and
releases the switch.
"""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine.database.schema import switch
from functory.engine.database.transaction import Tx

TRIGGERS = "triggers"

# True while triggers are halted: for statements that are written as text, and as a column or a condition.
HALTED_SQL = f"EXISTS (SELECT 1 FROM {switch.name} WHERE name = '{TRIGGERS}')"  # noqa: S608
HALTED = sa.literal_column(HALTED_SQL, sa.Boolean)
# Built once, because every round of a service asks.
_ASK = sa.select(HALTED)


def is_halted(tx: Tx) -> bool:
    """Return True while triggers are halted, as of this transaction."""
    return bool(tx.scalar(_ASK))

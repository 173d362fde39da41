"""The end of shadow: a trigger that begins to start functions begins with fresh flow control.

In shadow it has used idempotency keys and rates of its own, and matches wait in its buffers. Nothing of that may hold
back, or start, an execution: keys and rates are whole again, and the waiting matches are recorded as those of a shadow.
"""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine.database.schema import buffered_match, idempotency_key, match_buffer, rate_limit
from functory.engine.database.transaction import Tx
from functory.engine.firings import firings
from functory.engine.firings.admission import Suppress
from functory.engine.flow_control import buffers, circuit_breaker
from functory.engine.flow_control.trigger_row import FiringTrigger


def leave(tx: Tx, trigger: FiringTrigger) -> None:
    """Forget the flow control of a trigger (its row) in shadow, in the transaction that changes its state."""
    # In the order in which routers lock them.
    for table, owner in ((idempotency_key, "trigger_id"), (rate_limit, "owner_id")):
        mine = table.c[owner] == trigger.id
        key = table.primary_key.columns
        tx.rows(sa.select(*key).where(mine).order_by(*key).with_for_update())
        tx.execute(sa.delete(table).where(mine))
    circuit_breaker.close(tx, trigger.id)
    _drop_waiting(tx, trigger)


def _drop_waiting(tx: Tx, trigger: FiringTrigger) -> None:
    mine = match_buffer.c.trigger_id == trigger.id
    rows = tx.rows(sa.select(match_buffer.c.key).where(mine).order_by(match_buffer.c.key).with_for_update())
    waiting = buffers.load_matches(tx, [(trigger.id, row["key"]) for row in rows])
    stop = Suppress(trigger, "shadow", detail="it was waiting when the trigger left shadow mode")
    firings.write_suppressed(tx, [(match, stop) for line in waiting.values() for match in line])
    tx.execute(sa.delete(buffered_match).where(buffered_match.c.trigger_id == trigger.id))
    tx.execute(sa.delete(match_buffer).where(mine))

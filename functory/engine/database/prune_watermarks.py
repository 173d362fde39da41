"""How far pruning has got, so that what is missing is not taken for lost.

Two moments stand in table ``counter``: trees that ended before the one are gone, and log lines of executions that
ended before the other.
"""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from functory.engine.database.clock import lowest_id
from functory.engine.database.schema import counter
from functory.engine.database.transaction import Tx

TREES = "pruned.trees"
LOGS = "pruned.logs"


_WATERMARK = sa.select(counter.c.value).where(counter.c.name == sa.bindparam("what"))


def read(tx: Tx, what: str = TREES) -> datetime | None:
    """What ended before this moment may have been pruned; None when nothing ever was."""
    value = tx.scalar(_WATERMARK, {"what": what})
    return None if value is None else datetime.fromtimestamp(int(value) / 1000, UTC)


def advance(tx: Tx, what: str, cutoff: datetime) -> None:
    """Write down how far pruning gets in this transaction; never back."""
    value = int(cutoff.timestamp() * 1000) + 1
    tx.insert_new(counter, {"name": what, "value": value})
    tx.execute(sa.update(counter).where(counter.c.name == what, counter.c.value < value).values(value=value))


def why_missing(tx: Tx, id_: str) -> str:
    """Why an event or execution with this id is not there, as far as one can tell; empty when one cannot."""
    until = read(tx)
    if until is None or id_ >= lowest_id(until):
        return ""
    return f"it may have been pruned: what ended before {until:%Y-%m-%d %H:%M} UTC is gone"

"""Prune watermarks: how far pruning has got, so that pruned rows are not taken for lost ones.

Table ``counter`` has two of them: causal trees that ended before the first are deleted, and log lines of executions
that ended before the second.
"""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from functory.engine.database.clock import lowest_id
from functory.engine.database.schema import counter
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound

TREES = "pruned.trees"
LOGS = "pruned.logs"


_WATERMARK = sa.select(counter.c.value).where(counter.c.name == sa.bindparam("what"))


def read(tx: Tx, what: str = TREES) -> datetime | None:
    """Return the time before which ended trees may have been pruned; None when nothing was ever pruned."""
    value = tx.scalar(_WATERMARK, {"what": what})
    return None if value is None else datetime.fromtimestamp(int(value) / 1000, UTC)


def advance(tx: Tx, what: str, cutoff: datetime) -> None:
    """Raise the watermark to ``cutoff``; it never goes back."""
    value = int(cutoff.timestamp() * 1000) + 1
    tx.insert_missing(counter, [{"name": what, "value": value}])
    tx.execute(sa.update(counter).where(counter.c.name == what, counter.c.value < value).values(value=value))


def pruned_before(tx: Tx, id_: str) -> datetime | None:
    """Return the watermark when an event or execution with this id may have been pruned; else None."""
    until = read(tx)
    return None if until is None or id_ >= lowest_id(until) else until


def why_pruned(until: datetime) -> str:
    """Return the reason why a row may be missing that is older than the watermark."""
    return f"it may have been pruned: everything that ended before {until:%Y-%m-%d %H:%M} UTC is deleted"


def missing(tx: Tx, id_: str, what: str, try_: str = "") -> NotFound:
    """Return the error for a row with this id that is not there; it says so when the row may have been pruned."""
    until = pruned_before(tx, id_)
    return NotFound(what, why_pruned(until) if until else "", try_, pruned_before=until)

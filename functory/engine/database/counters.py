"""Named counters that only grow: a registry increments its counter in the transaction of each change.

The increment locks the row, so that changes of one registry happen one after the other. An unchanged counter means
that nothing changed.
"""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine.database.connection import Tx
from functory.engine.database.schema import counter

FUNCTIONS = "functions"
GRANTS = "grants"
MODELS = "models"
TRIGGERS = "triggers"
SOURCES = "sources"
EMBEDDINGS = "embeddings"


# Built once, because every role runs it in every round.
_VALUE = sa.select(counter.c.value).where(counter.c.name == sa.bindparam("name"))


def bump(tx: Tx, name: str) -> int:
    """Increment the counter and lock its row until the commit. Returns the new value."""
    statement = (
        sa.update(counter)
        .where(counter.c.name == name)
        .values(value=counter.c.value + 1)
        .returning(counter.c.value)
    )
    value = tx.scalar(statement)
    if value is None:
        tx.insert_missing(counter, [{"name": name, "value": 0}])
        value = tx.scalar(statement)
    return int(value)


def read(tx: Tx, name: str) -> int:
    """Return the counter's value; 0 before the first change."""
    return int(tx.scalar(_VALUE, {"name": name}) or 0)

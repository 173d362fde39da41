"""Named numbers that only grow: registries bump one in the transaction of each change.

Taking the number locks its row, so that changes of one registry follow one after the other, and a
reader who sees an unchanged number knows that nothing changed.
"""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine.database.connection import Tx
from functory.engine.database.schema import counter

FUNCTIONS = "functions"
GRANTS = "grants"
TRIGGERS = "triggers"
SOURCES = "sources"


# Asked by every round of every role: built once.
_VALUE = sa.select(counter.c.value).where(counter.c.name == sa.bindparam("name"))


def bump(tx: Tx, name: str) -> int:
    """Raise the counter and hold its row until the commit. Returns the new value."""
    statement = (
        sa.update(counter)
        .where(counter.c.name == name)
        .values(value=counter.c.value + 1)
        .returning(counter.c.value)
    )
    value = tx.scalar(statement)
    if value is None:
        tx.insert_new(counter, {"name": name, "value": 0})
        value = tx.scalar(statement)
    return int(value)


def read(tx: Tx, name: str) -> int:
    """The counter's value; 0 before the first change."""
    return int(tx.scalar(_VALUE, {"name": name}) or 0)

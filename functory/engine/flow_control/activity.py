"""Whether flow control holds anything back at all: one statement, so that an idle deployment costs hardly more."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from functory.engine.database import counters
from functory.engine.database.schema import cancellation, counter, execution, match_buffer
from functory.engine.database.transaction import Tx
from functory.engine.flow_control.concurrency import WAITING_FOR_SLOT


@dataclass(frozen=True)
class Activity:
    """``version`` is the number of the trigger set; ``buckets`` and ``lines`` say whether there are matches that wait,
    and events to carry out or executions that are held."""

    trigger_set_version: int
    has_buffers: bool
    has_pending_releases: bool


_VERSION = sa.select(counter.c.value).where(counter.c.name == counters.TRIGGERS).scalar_subquery()
# Asked in every turn: built once.
_ACTIVITY = sa.select(
    sa.func.coalesce(_VERSION, 0).label("version"),
    sa.exists(sa.select(match_buffer.c.key)).label("buckets"),
    sa.or_(
        sa.exists(sa.select(cancellation.c.rule)),
        sa.exists(sa.select(execution.c.id).where(WAITING_FOR_SLOT)),
    ).label("lines"),
)


def read(tx: Tx) -> Activity:
    """What there is. It locks nothing."""
    row = tx.first(_ACTIVITY)
    assert row is not None
    return Activity(int(row["version"]), bool(row["buckets"]), bool(row["lines"]))

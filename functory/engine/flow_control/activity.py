"""Activity of flow control: one query says whether any match or execution waits. Keeps idle polling cheap."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from functory.engine.database import counters
from functory.engine.database.schema import backlog, cancellation, counter, match_buffer
from functory.engine.database.transaction import Tx
from functory.engine.flow_control.concurrency import WAITING_FOR_SLOT


@dataclass(frozen=True)
class Activity:
    """``trigger_set_version`` is the number of the trigger set. ``has_buffers``: matches wait in buffers.
    ``has_pending_releases``: cancellations are pending, or executions wait for slots."""

    trigger_set_version: int
    has_buffers: bool
    has_pending_releases: bool


_VERSION = sa.select(counter.c.value).where(counter.c.name == counters.TRIGGERS).scalar_subquery()
# Built once, because flow control runs it in every round.
_ACTIVITY = sa.select(
    sa.func.coalesce(_VERSION, 0).label("version"),
    sa.exists(sa.select(match_buffer.c.key)).label("buffers"),
    sa.or_(
        sa.exists(sa.select(cancellation.c.rule)),
        sa.exists(sa.select(backlog.c.execution_id).where(WAITING_FOR_SLOT)),
    ).label("releases"),
)


def read(tx: Tx) -> Activity:
    """Return the current activity. Locks nothing."""
    row = tx.first(_ACTIVITY)
    assert row is not None
    return Activity(int(row["version"]), bool(row["buffers"]), bool(row["releases"]))

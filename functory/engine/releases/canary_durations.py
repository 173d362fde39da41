"""Durations of a version: what a canary compares its own with."""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine.database.schema import attempt, execution
from functory.engine.database.transaction import Tx
from functory.engine.functions.version_row import VersionRow
from functory.engine.releases.canary_counts import MOST_DURATIONS

# Executions of the function that are looked at, newest first: older versions have some of them.
LOOKED_AT = 5_000
# Of the deciding attempt, without the waits for other executions, and without any queue: what the version itself takes.
SECONDS = attempt.c.duration_seconds - sa.func.coalesce(attempt.c.waited_seconds, 0.0)


def of_version(tx: Tx, version: VersionRow) -> list[float]:
    """Return the seconds of the newest successful executions of a version, at most
    :data:`functory.engine.releases.canary_counts.MOST_DURATIONS`.
    """
    newest = (
        sa.select(execution.c.id, execution.c.version, execution.c.state, execution.c.fence)
        .where(execution.c.function == version.name)
        .order_by(execution.c.id.desc())
        .limit(LOOKED_AT)
        .subquery("newest")
    )
    statement = (
        sa.select(SECONDS)
        .select_from(newest)
        .join(
            attempt,
            sa.and_(attempt.c.execution_id == newest.c.id, attempt.c.fence == newest.c.fence),
        )
        .where(
            newest.c.version == version.number,
            newest.c.state == "succeeded",
            attempt.c.duration_seconds.is_not(None),
        )
        .order_by(newest.c.id.desc())
        .limit(MOST_DURATIONS)
    )
    return [float(seconds) for seconds in tx.execute(statement).scalars()]

"""Proves after a round that each event has all its rows: a path that leaves something out fails here first."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from benchmarks.speed.observer import Observer
from functory.engine.database import schema

event, firing, execution, attempt = schema.event, schema.firing, schema.execution, schema.attempt


class RowsMissing(RuntimeError):
    """A round has left something out; the message lists what."""


def check(observer: Observer, since: str, function: str, count: int, *, patience: float | None = 0) -> None:
    """Check the rows that a burst or stream of ``count`` events has made since the id ``since``, by functions whose
    names begin with ``function``. ``patience`` is that of the invariants.

    A worker gives back what it could not begin in time (many functions whose first runners start slowly). Such an
    attempt is no second run: it is left out of the counts.

    Raises :class:`RowsMissing`.
    """
    mine = sa.and_(execution.c.id > since, execution.c.function.startswith(function))
    ids = sa.select(execution.c.id).where(mine)
    succeeded = sa.and_(mine, execution.c.state == "succeeded")

    def number(table: sa.Table, *where: Any) -> int:
        return observer.one(sa.select(sa.func.count()).select_from(table).where(*where))

    def lifecycle(type_: str) -> int:
        return number(event, event.c.id > since, event.c.type == type_, event.c.cause_execution_id.in_(ids))

    routed = number(
        event, event.c.id > since, event.c.type.startswith(f"bench.{function}"), event.c.state == "routed"
    )
    found = {
        "events routed": routed,
        "firings": number(
            firing,
            firing.c.decision == "fired",
            firing.c.event_id.in_(sa.select(execution.c.event_id).where(mine)),
        ),
        "executions succeeded": number(execution, succeeded),
        "executions that ran once": number(
            execution, succeeded, execution.c.fence == 1 + execution.c.released, execution.c.attempt == 1
        ),
        "executions with a result": number(execution, succeeded, execution.c.result.is_not(None)),
        "executions in all": number(execution, mine),
        "attempts ended": number(
            attempt,
            attempt.c.execution_id.in_(ids),
            attempt.c.ended_at.is_not(None),
            attempt.c.outcome == "succeeded",
        ),
        "attempts in all but those given back": number(
            attempt, attempt.c.execution_id.in_(ids), attempt.c.outcome.is_distinct_from("released")
        ),
        "events execution.started": lifecycle("execution.started"),
        "events execution.succeeded": lifecycle("execution.succeeded"),
    }
    wrong = [f"{name}: {value:,} instead of {count:,}" for name, value in found.items() if value != count]
    wrong += observer.broken_invariants(since, patience)
    if wrong:
        raise RowsMissing("the rows of this round are not complete:\n  " + "\n  ".join(wrong))

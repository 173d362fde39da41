"""Compensable steps: finds the steps that a failed execution has to undo, and the failed execution of a late event.

A *step* is a success within an execution: an execution that it called or submitted and did not abandon, a dependency
that it called by its name, or what a trigger with ``compensate: true`` started from one of its events. A step without a
compensation is replaced by its own steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import (
    Id,
    Json,
    attempt,
    decided_by_version,
    event,
    execution,
    firing,
    function,
    function_version,
    span,
    trigger_version,
)
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.events.event_row import EventRow

# Final states after which steps are undone. An expired execution has never run.
COMPENSATED_STATES = ("failed", "timed_out", "dead", "cancelled")
OPEN = ("queued", "running")


@dataclass(frozen=True)
class Step:
    """A step that the function ``compensate`` undoes (name or name@number). Empty: it has no compensation, but maybe
    steps of its own.

    An execution, or with ``fence`` and ``seq`` one of its spans. ``ended`` is None while it is open.
    """

    step_id: str
    fence: int
    seq: int
    function: str
    compensate: str
    ended_at: datetime | None

    @property
    def key(self) -> tuple[str, int, int]:
        """The identity of the step."""
        return self.step_id, self.fence, self.seq


class Candidate(TypedRow, frozen=True):
    """What succeeded or is open directly below an execution: it may be a step.

    ``kind`` is trigger, call or span. ``ended`` minus ``back`` seconds is when it ended; ``definition`` is that of the
    trigger.
    """

    kind: str
    step_id: str
    fence: int
    seq: int
    parent_seq: int | None
    function: str
    compensate: str | None
    state: str
    ended: datetime | None
    back: float
    definition: Mapping[str, Any] | None


class _Ancestor(TypedRow, frozen=True):
    """An execution that an event came from, and what makes it a step of another one."""

    id: str
    state: str
    cause: str
    parent_id: str | None
    event_id: str | None
    trigger_id: str | None
    ends_with_parent: bool | None
    compensate: str | None


class _Call(TypedRow, frozen=True):
    """A span, and the one that it was called in."""

    execution_id: str
    fence: int
    seq: int
    parent_seq: int | None


class _StartingEvent(TypedRow, frozen=True):
    """What caused the event that started an execution, and the trigger's version that decided."""

    cause_execution_id: str | None
    definition: Mapping[str, Any]


def find(tx: Tx, id_: str) -> list[Step]:
    """Return the steps of an execution, the newest first. A step without compensation is replaced by its own steps."""
    found: dict[tuple[str, int, int], Step] = {}
    waiting, seen = [id_], {id_}
    while waiting:
        rows = tx.all(Candidate, _candidates(waiting))
        steps, within = select_steps(rows, _parents(tx, rows))
        found |= {step.key: step for step in steps if step.key not in found}
        waiting = [one for one in within if one not in seen]
        seen.update(waiting)
    return compensation_order(found.values())


def find_late_events(tx: Tx, rows: Iterable[EventRow]) -> dict[str, str]:
    """Return the event rows that came too late to start a step, each with its failed execution.

    That is the one that caused the event, or one that this is a step of. Those that have not failed are held until this
    transaction ends, so that what it starts is in the plan when they do.
    """
    found: dict[str, str] = {}
    held: set[str] = set()
    for row in rows:
        # Events about the failure come after it by nature: they are not late.
        if row.cause_execution_id is None or row.type in _FAILURES:
            continue
        # Read first, then locked from the oldest on, in the order of a failure; repeated until nothing has changed.
        while True:
            path = _ancestors(tx, row.cause_execution_id)
            unheld = sorted({one.id for one in path} - held)
            if not unheld or not tx.writes_concurrently:
                break
            tx.execute(
                sa.select(execution.c.id)
                .where(execution.c.id.in_(unheld))
                .order_by(execution.c.id)
                .with_for_update(read=True)
            )
            held.update(unheld)
        for one in path:
            if one.state in COMPENSATED_STATES:
                found[row.id] = one.id
    return found


_FAILURES = frozenset(f"execution.{state}" for state in COMPENSATED_STATES)


# Built once, because they run for every event that a running function has emitted.
_ANCESTOR = (
    sa.select(
        execution.c.id,
        execution.c.state,
        execution.c.cause,
        execution.c.parent_id,
        execution.c.event_id,
        execution.c.trigger_id,
        execution.c.ends_with_parent,
        function_version.c.compensate,
    )
    .join(function_version, function_version.c.id == execution.c.version_id)
    .where(execution.c.id == sa.bindparam("id", type_=Id))
)
_STARTING_EVENT = (
    sa.select(event.c.cause_execution_id, trigger_version.c.definition)
    .select_from(firing)
    .join(event, event.c.id == firing.c.event_id)
    .join(trigger_version, decided_by_version)
    .where(
        firing.c.trigger_id == sa.bindparam("trigger", type_=Id),
        firing.c.event_id == sa.bindparam("event", type_=Id),
    )
)


def _ancestors(tx: Tx, id_: str) -> list[_Ancestor]:
    """Return an execution and its ancestors that it is a step of, up to the first that has not succeeded."""
    path: list[_Ancestor] = []
    at: str | None = id_
    while at is not None:
        row = tx.one(_Ancestor, _ANCESTOR, {"id": at})
        if row is None:
            break
        path.append(row)
        at = _parent_step(tx, row) if row.state == "succeeded" else None
    return path


def _parent_step(tx: Tx, row: _Ancestor) -> str | None:
    """Return the execution that has this success as a step; None if the success has a compensation or no such
    execution.
    """
    if row.compensate:
        return None
    if row.cause == "parent":
        return row.parent_id if row.ends_with_parent else None
    if row.cause != "trigger":
        return None
    by = tx.one(_StartingEvent, _STARTING_EVENT, {"trigger": row.trigger_id, "event": row.event_id})
    return by.cause_execution_id if by and by.definition.get("compensate") else None


def select_steps(
    rows: Iterable[Candidate], parents: Mapping[tuple[str, int, int], int | None]
) -> tuple[list[Step], list[str]]:
    """Split candidates into steps and the ids of executions to search for steps.

    ``parents`` holds for the spans of an attempt by (execution, fence, seq) the number of the span that each was
    called in: what was done within a call that is undone is undone with it.
    """
    steps: list[Step] = []
    within: list[str] = []
    spans = {(row.step_id, row.fence, row.seq) for row in rows if row.kind == "span"}
    for row in rows:
        if row.kind == "span":
            if not _inside(row, spans, parents):
                ended = None if row.ended is None else row.ended - timedelta(seconds=row.back)
                steps.append(_step(row, ended))
            continue
        if row.kind == "trigger" and not (row.definition or {}).get("compensate"):
            continue
        if row.state in OPEN:
            steps.append(_step(row, None))
        elif row.compensate:
            steps.append(_step(row, row.ended))
        else:
            within.append(row.step_id)
    return steps, within


def compensation_order(steps: Iterable[Step]) -> list[Step]:
    """Return steps in the order of compensation: open ones, because they end last, then the newest first."""
    newest = datetime.max
    return sorted(
        steps,
        key=lambda step: (step.ended_at.replace(tzinfo=None) if step.ended_at else newest, *step.key),
        reverse=True,
    )


def _step(row: Candidate, ended: datetime | None) -> Step:
    return Step(row.step_id, row.fence, row.seq, row.function, row.compensate or "", ended)


def _inside(
    row: Candidate,
    spans: Collection[tuple[str, int, int]],
    parents: Mapping[tuple[str, int, int], int | None],
) -> bool:
    """Return True when a span was called within one of ``spans``."""
    id_, fence, above = row.step_id, row.fence, row.parent_seq
    while above is not None:
        if (id_, fence, above) in spans:
            return True
        above = parents.get((id_, fence, above))
    return False


def _parents(tx: Tx, rows: Sequence[Candidate]) -> dict[tuple[str, int, int], int | None]:
    """Return the parents of spans, for the attempts with a nested span that has a compensation."""
    nested = sorted(
        {(row.step_id, row.fence) for row in rows if row.kind == "span" and row.parent_seq is not None}
    )
    if not nested:
        return {}
    above = tx.all(
        _Call,
        sa.select(*columns(_Call, span)).where(one_of_keys((span.c.execution_id, span.c.fence), nested)),
    )
    return {(call.execution_id, call.fence, call.seq): call.parent_seq for call in above}


def _candidates(ids: Sequence[str]) -> sa.CompoundSelect[*tuple[Any, ...]]:
    """Return one statement for everything directly below these executions that succeeded or is open, in the order of
    the fields of :class:`Candidate`.
    """
    there = (*OPEN, "succeeded")
    nothing = sa.cast(sa.null(), sa.Integer)
    started = [
        execution.c.id.label("step_id"),
        sa.literal(0).label("fence"),
        sa.literal(0).label("seq"),
        nothing.label("parent_seq"),
        execution.c.function,
        function_version.c.compensate,
        execution.c.state,
        execution.c.finished_at.label("ended"),
        sa.literal(0.0).label("back"),
    ]
    fired = (
        # The first of the three determines the types of the columns.
        sa.select(sa.literal("trigger").label("kind"), *started, trigger_version.c.definition)
        .select_from(event)
        .join(firing, firing.c.event_id == event.c.id)
        .join(execution, execution.c.id == firing.c.execution_id)
        .join(function_version, function_version.c.id == execution.c.version_id)
        .join(trigger_version, decided_by_version)
        .where(event.c.cause_execution_id.in_(ids), execution.c.state.in_(there))
    )
    called = (
        sa.select(sa.literal("call"), *started, sa.cast(sa.null(), Json))
        .join(function_version, function_version.c.id == execution.c.version_id)
        .where(
            execution.c.parent_id.in_(ids),
            execution.c.cause == "parent",
            execution.c.ends_with_parent,
            execution.c.state.in_(there),
        )
    )
    recorded = (
        sa.select(
            sa.literal("span"),
            span.c.execution_id,
            span.c.fence,
            span.c.seq,
            span.c.parent_seq,
            span.c.function,
            function_version.c.compensate,
            sa.literal("succeeded"),
            # Counted back from the end of the attempt: the offsets do not include its start-up. An attempt that was
            # lost or released has no duration, and ended any time after the call: there it is counted from the start.
            sa.case(
                (
                    sa.and_(attempt.c.duration_seconds.is_(None), attempt.c.ended_at.is_not(None)),
                    attempt.c.started_at,
                ),
                else_=attempt.c.ended_at,
            ),
            sa.func.coalesce(attempt.c.duration_seconds, 0.0)
            - span.c.offset_seconds
            - sa.func.coalesce(span.c.duration_seconds, 0.0),
            sa.cast(sa.null(), Json),
        )
        .join(function, function.c.name == span.c.function)
        .join(
            function_version,
            sa.and_(
                function_version.c.function_id == function.c.id,
                function_version.c.number == span.c.version,
                function_version.c.compensate.is_not(None),
            ),
        )
        .join(
            attempt,
            sa.and_(attempt.c.execution_id == span.c.execution_id, attempt.c.fence == span.c.fence),
        )
        .where(span.c.execution_id.in_(ids), span.c.error.is_(None))
    )
    return sa.union_all(fired, called, recorded)

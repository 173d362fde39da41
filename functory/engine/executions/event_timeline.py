"""Where the time of an event went: its steps and those of its executions (``functory event why --times``); or of one
execution that no event started.

:func:`read` reads the rows of one event; :func:`timeline` makes the steps of them, and is pure. A time is one that a
transaction stored, which is the time of its beginning. What no row has is not guessed: the first line of a function and
the confirm of the broker for an event have no time.

The times come from several processes. Each measures the clock of the database server itself, so that two of them may
differ by a fraction of a millisecond. A step never comes before the one that it follows: a time that does is moved, and
the step says by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import prune_watermarks
from functory.engine.database.clock import time_of_id
from functory.engine.database.connection import Database
from functory.engine.database.schema import attempt, backlog, execution, firing, in_flight, outbox, trigger
from functory.engine.database.schema import event as event_table
from functory.engine.database.schema import routing_queue as queue
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.events import outbox as event_outbox
from functory.engine.events.store import as_id
from functory.engine.executions.attempt_row import ATTEMPT_COLUMNS, AttemptRow

# More executions of one event, or attempts of them, are left out.
MAX_ROWS = 500

# An id has whole milliseconds: a shorter time between the event and its id is not known.
_ID_STEP = timedelta(milliseconds=1)
# Below this many seconds the difference of two clocks is not worth a word.
_WORTH_A_WORD = 0.0001


class TimelineEvent(TypedRow, frozen=True):
    """When an event happened and was routed (columns of table ``event``)."""

    id: str
    type: str
    time: datetime
    routed_at: datetime | None
    route_attempts: int


class Unrouted(TypedRow, frozen=True):
    """Why an event is not routed (columns of table ``routing_queue``)."""

    quarantined: bool
    route_after: datetime | None


class TimelineExecution(TypedRow, frozen=True):
    """When an execution was created and finished (columns of table ``execution``), and of its firing the ``trigger``
    and whether it is ``joint``.
    """

    id: str
    function: str
    version: int
    state: str
    event_id: str | None
    has_concurrency: bool
    throttle: Mapping[str, Any] | None
    run_at: datetime
    created_at: datetime
    finished_at: datetime | None
    trigger: str | None = None
    joint: bool = False


class Queued(TypedRow, frozen=True):
    """What an execution that was not sent waits for (columns of table ``backlog``)."""

    execution_id: str
    waiting_for_slot: bool
    run_at: datetime
    throttle_key: str | None


class Sent(TypedRow, frozen=True):
    """When an execution was sent, and whether a worker has it (columns of table ``in_flight``)."""

    execution_id: str
    claimed: bool
    dispatched_at: datetime | None


@dataclass(frozen=True)
class Rows:
    """The rows of one event, or of an execution without one: ``executions`` with those of their attempts, oldest first.
    ``queued`` and ``sent`` are by execution.
    """

    event: TimelineEvent | None
    queue: Unrouted | None = None
    in_outbox: bool = False
    executions: Sequence[TimelineExecution] = ()
    attempts: Sequence[AttemptRow] = ()
    queued: Mapping[str, Queued] = field(default_factory=dict)
    sent: Mapping[str, Sent] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One step. ``at`` is None where no time is stored; ``since_event`` and ``difference`` (to the step before) are
    seconds, None where they are not known. ``clock_difference`` is by how many seconds ``at`` was moved.
    """

    name: str
    at: datetime | None
    since_event: float | None
    difference: float | None
    waited_for: str
    clock_difference: float = 0.0

    def fields(self) -> dict[str, Any]:
        """Return the fields of :class:`functory.rows.executions.TimelineStep`."""
        return {
            "step": self.name,
            "time": self.at,
            "since_seconds": self.since_event,
            "difference_seconds": self.difference,
            "waited_for": self.waited_for,
            "clock_difference_seconds": self.clock_difference,
        }


@dataclass(frozen=True)
class ExecutionSteps:
    """The steps of one execution of the event."""

    id: str
    function: str
    version: int
    trigger: str | None
    state: str
    steps: list[Step]


@dataclass(frozen=True)
class Timeline:
    """The steps of an event and of its executions. Without an event the times are since the execution was created."""

    event_id: str | None
    type: str | None
    steps: list[Step]
    executions: list[ExecutionSteps]

    def fields(self) -> dict[str, Any]:
        """Return the fields of :class:`functory.rows.executions.Times`."""
        return {
            "event_id": self.event_id,
            "event_type": self.type,
            "steps": [step.fields() for step in self.steps],
            "executions": [
                {
                    "id": one.id,
                    "function": one.function,
                    "version": one.version,
                    "trigger": one.trigger,
                    "state": one.state,
                    "steps": [step.fields() for step in one.steps],
                }
                for one in self.executions
            ],
        }


def read(database: Database, event_id: str) -> Rows:
    """Read the rows of an event. Raises :class:`NotFound`."""
    event_id = as_id(event_id, "event")
    with database.read() as tx:
        row = tx.one(
            TimelineEvent,
            sa.select(*columns(TimelineEvent, event_table)).where(event_table.c.id == event_id),
        )
        if row is None:
            raise prune_watermarks.missing(tx, event_id, f"event {event_id} not found", "functory event list")
        executions = tx.all(
            TimelineExecution,
            sa.select(*_EXECUTION, trigger.c.name, firing.c.joint)
            .join(firing, firing.c.execution_id == execution.c.id)
            .outerjoin(trigger, trigger.c.id == firing.c.trigger_id)
            .where(firing.c.event_id == event_id)
            .order_by(execution.c.id)
            .limit(MAX_ROWS),
        )
        unpublished = event_outbox.unpublished_ids().subquery()
        # Without an open batch no id is unpacked.
        stored = sa.select(sa.literal(1)).select_from(unpublished).where(unpublished.c.event_id == event_id)
        return Rows(
            row,
            tx.one(Unrouted, sa.select(*columns(Unrouted, queue)).where(queue.c.event_id == event_id)),
            tx.scalar(sa.select(outbox.c.id).limit(1)) is not None and tx.scalar(stored) is not None,
            executions,
            *_parts(tx, [row.id for row in executions]),
        )


def read_execution(database: Database, execution_id: str) -> Rows:
    """Read the rows of an execution; with those of the event that started it. Raises :class:`NotFound`."""
    execution_id = as_id(execution_id, "execution")
    with database.read() as tx:
        row = tx.one(TimelineExecution, sa.select(*_EXECUTION).where(execution.c.id == execution_id))
        if row is None:
            raise prune_watermarks.missing(
                tx, execution_id, f"execution {execution_id} not found", "functory execution list"
            )
        if row.event_id is None:
            return Rows(None, None, False, [row], *_parts(tx, [execution_id]))
    found = read(database, row.event_id)
    return replace(found, executions=[one for one in found.executions if one.id == execution_id])


def _parts(
    tx: Tx, ids: Sequence[str]
) -> tuple[Sequence[AttemptRow], Mapping[str, Queued], Mapping[str, Sent]]:
    """Return the attempts and the queue rows of these executions."""
    if not ids:
        return [], {}, {}
    attempts = tx.all(
        AttemptRow,
        sa.select(*ATTEMPT_COLUMNS)
        .where(attempt.c.execution_id.in_(ids))
        .order_by(attempt.c.execution_id, attempt.c.fence)
        .limit(MAX_ROWS),
    )
    queued = tx.all(Queued, sa.select(*columns(Queued, backlog)).where(backlog.c.execution_id.in_(ids)))
    sent = tx.all(Sent, sa.select(*columns(Sent, in_flight)).where(in_flight.c.execution_id.in_(ids)))
    return attempts, {row.execution_id: row for row in queued}, {row.execution_id: row for row in sent}


# Those of the table; what the firing adds comes last.
_EXECUTION = [execution.c[name] for name in TimelineExecution.__struct_fields__ if name in execution.c]


def timeline(rows: Rows, now: datetime) -> Timeline:
    """Return the steps of an event; ``now`` says whether what is open is due."""
    event = rows.event
    line = _Line(rows.executions[0].created_at) if event is None else _event_steps(event, rows)
    attempts: dict[str, list[AttemptRow]] = {}
    for row in rows.attempts:
        attempts.setdefault(row.execution_id, []).append(row)
    return Timeline(
        None if event is None else event.id,
        None if event is None else event.type,
        line.steps,
        [
            ExecutionSteps(
                row.id,
                row.function,
                row.version,
                row.trigger,
                row.state,
                _execution_steps(rows, row, attempts.get(row.id, []), line.copy(), now),
            )
            for row in rows.executions
        ],
    )


class _Line:
    """Steps in their order, each not before the one that it follows."""

    def __init__(self, origin: datetime, last: datetime | None = None) -> None:
        self.origin = origin
        self._last = origin if last is None else last
        self._begun = last is not None
        # The part of the time since the last step that steps without a time of their own have used.
        self._used = 0.0
        self.steps: list[Step] = []

    def copy(self) -> _Line:
        """Return a line without steps that goes on at the last one."""
        return _Line(self.origin, self._last)

    def add(self, name: str, at: datetime, waited_for: str = "") -> None:
        behind = (self._last - at).total_seconds()
        at = max(at, self._last)
        difference = max(0.0, (at - self._last).total_seconds() - self._used)
        self.steps.append(
            Step(
                name,
                at,
                (at - self.origin).total_seconds(),
                difference if self._begun else None,
                waited_for,
                behind if behind >= _WORTH_A_WORD else 0.0,
            )
        )
        self._last, self._used, self._begun = at, 0.0, True

    def add_timeless(self, name: str, waited_for: str, seconds: float | None = None) -> None:
        """Add a step of which no time is stored, at most how long it took."""
        self._used += seconds or 0.0
        self.steps.append(Step(name, None, None, seconds, waited_for))


def _event_steps(event: TimelineEvent, rows: Rows) -> _Line:
    waiting = rows.queue
    happened, made = event.time, time_of_id(event.id)
    # A source may give the event any time. One that is after its own id cannot be when it began.
    foreign = happened > made + _ID_STEP
    line = _Line(made if foreign else happened)
    line.add("emitted", line.origin, "the event names a later time" if foreign else "")
    routed = event.routed_at
    if happened + _ID_STEP < made and (routed is None or made <= routed):
        line.add("written", made, "its source, and the transaction that writes it")
    if routed is not None:
        tries = event.route_attempts
        failed = f"; {tries} {'try' if tries == 1 else 'tries'} failed before" if tries else ""
        line.add("routed", routed, f"the commit of the event, and a router{failed}")
        if rows.in_outbox:
            line.add_timeless("published", "not yet: it is in the outbox")
        else:
            line.add_timeless(
                "published",
                "it is not in the outbox: published, or there is no broker; the time is not stored",
            )
    elif waiting is not None and waiting.quarantined:
        line.add_timeless("routed", "not yet: it is quarantined. To try it again: functory event release")
    elif waiting is not None and waiting.route_after is not None:
        why = "a try has failed, and the next one" if event.route_attempts else "its source is paused, and it"
        line.add_timeless("routed", f"not yet: {why} is due later")
    else:
        line.add_timeless("routed", "not yet: it waits for a router")
    return line


def _execution_steps(
    rows: Rows, row: TimelineExecution, attempts: Sequence[AttemptRow], line: _Line, now: datetime
) -> list[Step]:
    line.add("created", row.created_at, _creation(rows.event, row))
    sent, queued = rows.sent.get(row.id), rows.queued.get(row.id)
    # A retry has overwritten the time at which the first attempt was due.
    delayed = len(attempts) <= 1 and row.run_at > row.created_at
    if delayed and (attempts or row.run_at <= now):
        line.add("due", row.run_at, "its delay")
    for number, one in enumerate(attempts):
        name = f"attempt {one.number}: " if len(attempts) > 1 else ""
        _attempt_steps(line, name, one, _sending(row, retry=number > 0))
    if row.finished_at is None:
        _open_steps(line, row, queued, sent, attempts, now)
        return line.steps
    ended_at = attempts[-1].ended_at if attempts else None
    if ended_at is None or ended_at < row.finished_at:
        line.add("finished", row.finished_at, f"it ended without a run of its own: {row.state}")
    return line.steps


def _attempt_steps(line: _Line, name: str, row: AttemptRow, sending: str) -> None:
    started, waited = row.started_at, row.queued_seconds
    if waited is not None:
        line.add(f"{name}sent", started - timedelta(seconds=waited), sending)
        line.add(
            f"{name}claimed", started, "the commit of the sending, the broker, and a free slot of a worker"
        )
    else:
        line.add(f"{name}claimed", started, f"{sending}; a worker took it without a message")
    if row.ended_at is None:
        line.add_timeless(f"{name}ran", "not ended yet")
        return
    if row.duration_seconds is not None:
        children = row.waited_seconds or 0.0
        inside = f", {children * 1000:.1f} ms of it for child executions" if children else ""
        line.add_timeless(
            f"{name}ran",
            f"the function{inside}; the time of its first line is not stored",
            row.duration_seconds,
        )
        line.add(
            f"{name}finished",
            row.ended_at,
            f"a place in the sandbox, and the transaction that stores the result: {row.outcome}",
        )
    else:
        line.add(f"{name}finished", row.ended_at, f"its end: {row.outcome}")


def _open_steps(
    line: _Line,
    row: TimelineExecution,
    queued: Queued | None,
    sent: Sent | None,
    attempts: Sequence[AttemptRow],
    now: datetime,
) -> None:
    name = f"attempt {attempts[-1].number + 1}: " if attempts else ""
    if queued is not None:
        line.add_timeless(f"{name}sent", f"not yet: it waits for {_obstacle(queued, now)}")
    elif sent is not None and not sent.claimed:
        if sent.dispatched_at is not None:
            line.add(f"{name}sent", sent.dispatched_at, _sending(row, retry=bool(attempts)))
        line.add_timeless(f"{name}claimed", "not yet: it waits for a free slot of a worker")


def _obstacle(queued: Queued, now: datetime) -> str:
    if queued.waiting_for_slot:
        return "a slot of its concurrency limit"
    if queued.run_at > now:
        return "its throttle, and its due time" if queued.throttle_key is not None else "its due time"
    return "a dispatcher, and room among the executions in flight"


def _creation(event: TimelineEvent | None, row: TimelineExecution) -> str:
    """What an execution that is newer than the decision about its event has waited for."""
    if event is None:
        return ""
    if event.routed_at is None or row.created_at <= event.routed_at:
        return "nothing: the transaction that routed the event wrote it"
    if row.joint:
        return "the other events that started it together, or the timer that ended the wait for them"
    return "flow control of the trigger (debounce, batch, a timer), or a replay"


def _sending(row: TimelineExecution, *, retry: bool) -> str:
    reasons = ["the delay of the retry"] if retry else ["the commit of the execution"]
    if row.has_concurrency:
        reasons.append("a slot of its concurrency limit")
    if row.throttle is not None:
        reasons.append("its throttle")
    return ", ".join([*reasons, "a dispatcher, and room among the executions in flight"])

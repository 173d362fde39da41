"""Counts what happened in an interval, from the rows of events, executions and firings.

All of it is found by ranges of ids and of one index by time, so the cost follows the interval and not the history. An
id is drawn, and the time of a firing is taken, in the transaction that writes the row. A transaction that is committed
late therefore adds rows to an interval that is over. The tallier waits for it before it counts
(:mod:`functory.engine.tallies.tallier`).

- An execution counts when it ends, at the event of its end, for its function and version.
- A trigger's ``fired`` are the executions that it started; its other outcomes are the reasons of suppressions.
- An event counts when it was written, by its type, and for the source that wrote it. Events about a
  source (``source.…``) are none of its own.
- The totals are those of all functions and of all events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from functory.engine.database.clock import lowest_id, time_of_id
from functory.engine.database.schema import Id, Instant, event, execution, firing, source, trigger
from functory.engine.database.transaction import Tx
from functory.engine.tallies import histogram

# How executions end, and which of these ends are failures.
OUTCOMES = ("succeeded", "failed", "timed_out", "cancelled", "dead", "expired")
FAILURES = ("failed", "timed_out", "dead")
# The outcome of an event in the totals, and of a trigger that started an execution.
EVENT, FIRED = "event", "fired"
# The time from an event to its decision is taken from the first events of an interval only.
LAG_SAMPLE = 100
_NO_END = datetime(9000, 1, 1, tzinfo=UTC)


class Key(NamedTuple):
    """What is counted: a row of table ``tally`` without its interval."""

    kind: str
    name: str
    version: int
    outcome: str


@dataclass
class Count:
    """How often it happened, with the histograms of table ``tally``."""

    count: int = 0
    queued: Counter[int] = field(default_factory=Counter)
    run: Counter[int] = field(default_factory=Counter)

    def add(self, other: Count) -> None:
        """Add another count of the same key."""
        self.count += other.count
        self.queued.update(other.queued)
        self.run.update(other.run)


Counts = dict[Key, Count]


def count(tx: Tx, start: datetime, end: datetime) -> Counts:
    """Count what happened from ``start`` on and before ``end``, by whole milliseconds."""
    interval = _interval(start, end)
    found: Counts = {}
    for function, version, type_, queued, run, number in _tuples(tx, _ENDED, interval):
        outcome = type_.removeprefix("execution.")
        for key in (Key("function", function, version, outcome), Key("total", "", 0, outcome)):
            one = found.setdefault(key, Count())
            one.count += number
            if queued is not None:
                one.queued[queued] += number
            if run is not None:
                one.run[run] += number
    by_address: Counter[str] = Counter()
    for type_, address, number in _tuples(tx, _EVENTS, interval):
        for key in (Key("event", type_, 0, ""), Key("total", "", 0, EVENT)):
            found.setdefault(key, Count()).count += number
        if address is not None:
            by_address[address] += number
    found |= _of_sources(tx, by_address)
    found |= _of_triggers(tx, interval)
    events = found.get(Key("total", "", 0, EVENT))
    if events is not None:
        events.queued.update(_lag(tx, interval))
    return found


def source_key(kind: str, name: str) -> str:
    """Return the name under which the events of a source are counted."""
    return f"{kind}/{name}"


def trigger_counts(tx: Tx, start: datetime) -> Counts:
    """Count what triggers did from ``start`` on, by whole milliseconds."""
    return _of_triggers(tx, _interval(start, _NO_END))


def merged(parts: Iterable[Mapping[Key, Count]]) -> Counts:
    """Return the sum of several counts."""
    total: Counts = {}
    for part in parts:
        for key, one in part.items():
            total.setdefault(key, Count()).add(one)
    return total


def _interval(start: datetime, end: datetime) -> dict[str, Any]:
    return {"first": lowest_id(start), "last": lowest_id(end), "start": start, "end": end}


def _of_sources(tx: Tx, by_address: Mapping[str, int]) -> Counts:
    if not by_address:
        return {}
    keys = (source_key(kind, name) for kind, name in _tuples(tx, _SOURCES, {}))
    # A source's events carry its address, as functory.engine.sources.store.event_source makes it.
    return {
        Key("source", key, 0, ""): Count(by_address[_ENGINE + key])
        for key in keys
        if _ENGINE + key in by_address
    }


def _of_triggers(tx: Tx, interval: Mapping[str, Any]) -> Counts:
    found: Counts = {}
    for statement in (_FIRED, _SUPPRESSED):
        for name, outcome, number in _tuples(tx, statement, interval):
            found.setdefault(Key("trigger", name, 0, outcome), Count()).count += number
    return found


def _lag(tx: Tx, interval: Mapping[str, Any]) -> Counter[int]:
    return Counter(
        histogram.bucket_of(((routed_at or tx.now) - time_of_id(id_)).total_seconds())
        for id_, routed_at in _tuples(tx, _SAMPLE, interval)
    )


def _tuples(tx: Tx, statement: sa.Executable, interval: Mapping[str, Any]) -> Iterable[Any]:
    return tx.execute(statement, interval)


_FIRST, _LAST = sa.bindparam("first", type_=Id), sa.bindparam("last", type_=Id)
_NUMBER = sa.func.count().label("number")


def _within(id_: Any) -> tuple[Any, Any]:
    return id_ >= _FIRST, id_ < _LAST


# A delay that was asked for is no waiting. A retry has overwritten the time at which the first attempt was due.
_DUE = sa.case((execution.c.attempt <= 1, execution.c.run_at), else_=execution.c.created_at)
_QUEUED = histogram.BucketBetween(_DUE, execution.c.started_at)
_RUN = histogram.BucketBetween(execution.c.started_at, execution.c.finished_at)

# Built once, because the tallier and every reader run them.
_ENDED = (
    sa.select(execution.c.function, execution.c.version, event.c.type, _QUEUED, _RUN, _NUMBER)
    .select_from(event)
    .join(execution, execution.c.id == event.c.cause_execution_id)
    .where(*_within(event.c.id), event.c.type.in_([f"execution.{outcome}" for outcome in OUTCOMES]))
    .group_by(*(sa.text(str(number)) for number in range(1, 6)))
)
_ENGINE = "/functory/"
# Each execution has an address of its own, and strangers may send any.
_ADDRESS = sa.case(
    (
        sa.and_(
            event.c.source.startswith(_ENGINE),
            sa.not_(event.c.source.startswith(f"{_ENGINE}executions/")),
            sa.not_(event.c.type.startswith("source.")),
        ),
        event.c.source,
    )
)
_EVENTS = (
    sa.select(event.c.type, _ADDRESS, _NUMBER)
    .where(*_within(event.c.id))
    .group_by(*(sa.text(str(number)) for number in range(1, 3)))
)
_SOURCES = sa.select(source.c.kind, source.c.name)
_SAMPLE = (
    sa.select(event.c.id, event.c.routed_at)
    .where(*_within(event.c.id))
    .order_by(event.c.id)
    .limit(LAG_SAMPLE)
)
_STARTED = (
    sa.select(execution.c.trigger_id, _NUMBER)
    .where(*_within(execution.c.id), execution.c.cause == "trigger")
    .group_by(execution.c.trigger_id)
    .subquery()
)
_FIRED = sa.select(trigger.c.name, sa.literal_column(f"'{FIRED}'"), _STARTED.c.number).join(
    _STARTED, _STARTED.c.trigger_id == trigger.c.id
)
_STOPPED = (
    sa.select(firing.c.trigger_id, firing.c.reason, _NUMBER)
    .where(
        firing.c.decision == "suppressed",
        firing.c.time >= sa.bindparam("start", type_=Instant),
        firing.c.time < sa.bindparam("end", type_=Instant),
    )
    .group_by(firing.c.trigger_id, firing.c.reason)
    .subquery()
)
_SUPPRESSED = sa.select(trigger.c.name, _STOPPED.c.reason, _STOPPED.c.number).join(
    _STOPPED, _STOPPED.c.trigger_id == trigger.c.id
)

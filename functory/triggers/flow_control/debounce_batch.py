"""Debounce and batch: matches of one key that wait for others of their kind.

**Debounce** runs once a key has been quiet for ``period``, and at the latest ``timeout`` after its first match. With
``keep`` ``last`` the newest event runs (by event id, which is the order in which events were written) and the others
are recorded as suppressed, ``debounced``; with ``all`` one execution gets all of them. A later match starts a new
wait.

**Batch** runs as soon as ``max_size`` events or ``max_bytes`` of their data wait, with exactly the first of them in the
order of their ids, and ``timeout`` after the first began to wait. The remaining events start a new wait. An event for
which ``if`` is false, or cannot be evaluated, does not wait: it runs at once, in a list of one.

Both use the time at which events are routed, not the events' own times. The semantics and limits are Inngest's (its
documentation of debounce and batching, 2026) with two differences: batches can be combined with concurrency keys,
priority, idempotency and rate limits, and a timeout may be as long as ten minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from functory.engine.errors import Invalid
from functory.engine.flow_control.controls import NO_KEY, Key
from functory.engine.serialization.durations import parse
from functory.triggers.expressions.conditions import Condition, compile_condition
from functory.triggers.expressions.values import ValueExpression
from functory.triggers.flow_control import fields
from functory.triggers.flow_control.buffered_match import (
    BufferDecision,
    BufferMemory,
    DroppedMatch,
    Firing,
    WaitingMatch,
)

DAY = 86_400.0

# Limits of one execution, in bytes of data and in events (Inngest's 10 MiB, and ten times its 100).
MAX_BYTES = 10_485_760
MAX_EVENTS = 1000

# A debounced key with more matches drops all but the newest before it is quiet.
MAX_DEBOUNCED = 1000


@dataclass(frozen=True)
class Debounce:
    """A debounce: seconds of silence, maximum delay in seconds (None: no limit), the key, and the events to keep."""

    period: float
    timeout: float | None = None
    key: ValueExpression | None = None
    keep: Literal["last", "all"] = "last"

    kind: ClassVar[str] = "debounce"

    @property
    def delivers_list(self) -> bool:
        return self.keep == "all"

    def due_at(
        self, state: BufferMemory, count: int, size: int, match: WaitingMatch, now: datetime
    ) -> datetime | None:
        """``min(now + period, opened + timeout)``; ``now`` when too many matches wait."""
        if count > MAX_DEBOUNCED or (self.delivers_list and (count >= MAX_EVENTS or size >= MAX_BYTES)):
            return now
        return self._deadline(state, now)

    def decide(self, state: BufferMemory, waiting: Sequence[WaitingMatch], now: datetime) -> BufferDecision:
        """Fire the due matches; before that, only drop matches beyond the limit."""
        line = sorted(waiting, key=lambda one: one.id)
        if not line:
            return BufferDecision()
        due = self._deadline(state, max(one.since for one in line))
        if self.delivers_list:
            fired, rest = _cut(line, MAX_EVENTS, MAX_BYTES, whole=due <= now)
            return BufferDecision(fired, due_at=due if rest else None)
        last = line[-1].id
        if due > now:
            excess = line[:-1] if len(line) > MAX_DEBOUNCED else []
            return BufferDecision(dropped=[_debounced(one, last) for one in excess], due_at=due)
        return BufferDecision([Firing((last,), last)], [_debounced(one, last) for one in line[:-1]])

    def _deadline(self, state: BufferMemory, latest: datetime) -> datetime:
        quiet = latest + timedelta(seconds=self.period)
        if self.timeout is None:
            return quiet
        return min(quiet, state.opened_at + timedelta(seconds=self.timeout))


@dataclass(frozen=True)
class Batch:
    """A batch: the events, seconds and bytes that complete it, the key, and the condition of its events."""

    max_size: int
    timeout: float
    max_bytes: int = MAX_BYTES
    key: ValueExpression | None = None
    condition: Condition | None = None

    kind: ClassVar[str] = "batch"

    @property
    def delivers_list(self) -> bool:
        return True

    def accepts(self, event: Mapping[str, Any], now: datetime) -> bool:
        """True when an event waits for others. Otherwise it runs alone."""
        return self.condition is None or self.condition.evaluate(event, now, {}).matched

    def due_at(
        self, state: BufferMemory, count: int, size: int, match: WaitingMatch, now: datetime
    ) -> datetime | None:
        """``now`` when the batch is full, else the time at which its first match has waited ``timeout`` seconds."""
        if count >= self.max_size or size >= self.max_bytes:
            return now
        return state.opened_at + timedelta(seconds=self.timeout)

    def decide(self, state: BufferMemory, waiting: Sequence[WaitingMatch], now: datetime) -> BufferDecision:
        """Fire full batches, oldest first, and the rest when its first match has waited ``timeout`` seconds."""
        line = sorted(waiting, key=lambda one: one.id)
        fired, rest = _cut(line, self.max_size, self.max_bytes, whole=False)
        if not rest:
            return BufferDecision(fired)
        due = min(one.since for one in rest) + timedelta(seconds=self.timeout)
        if due > now:
            return BufferDecision(fired, due_at=due)
        return BufferDecision([*fired, _together(rest)])


def _cut(
    line: Sequence[WaitingMatch], most: int, size: int, *, whole: bool
) -> tuple[list[Firing], list[WaitingMatch]]:
    """The full groups from the oldest match on, and the remaining matches; with ``whole`` the rest is a group too."""
    groups: list[Firing] = []
    group: list[WaitingMatch] = []
    bytes_ = 0
    for one in line:
        if group and bytes_ + one.size > size:
            groups.append(_together(group))
            group, bytes_ = [], 0
        group.append(one)
        bytes_ += one.size
        if len(group) >= most or bytes_ >= size:
            groups.append(_together(group))
            group, bytes_ = [], 0
    if group and whole:
        groups.append(_together(group))
        group = []
    return groups, group


def _together(group: Sequence[WaitingMatch]) -> Firing:
    return Firing(tuple(one.id for one in group), group[-1].id)


def _debounced(one: WaitingMatch, by: str) -> DroppedMatch:
    return DroppedMatch(one.id, "debounced", f"the event {by} came after it")


def compile_debounce(given: Any) -> Debounce:
    """Read a ``debounce``. Raises :class:`Invalid`."""
    example = '"debounce": {"period": "10s"}'
    found = fields.check_object(given, "debounce", ("period", "timeout", "key", "keep"), example)
    period = parse(fields.needed(found, "period", "debounce", example), "period of debounce", 1.0, 7 * DAY)
    timeout = found.get("timeout")
    most = None if timeout is None else parse(timeout, "timeout of debounce", 1.0, 365 * DAY)
    if most is not None and most < period:
        raise Invalid(
            "the timeout of debounce is shorter than its period",
            "it would end every wait before the key was quiet",
            "make it longer than the period, or leave it out",
        )
    keep: Any = fields.choice(found.get("keep", "last"), "keep of debounce", ("last", "all"))
    return Debounce(period, most, fields.compile_key(found, "debounce"), keep)


def compile_batch(given: Any) -> Batch:
    """Read a ``batch``. Raises :class:`Invalid`."""
    example = '"batch": {"max_size": 100, "timeout": "60s"}'
    found = fields.check_object(given, "batch", ("max_size", "timeout", "max_bytes", "key", "if"), example)
    condition = found.get("if")
    return Batch(
        fields.integer(
            fields.needed(found, "max_size", "batch", example), "max_size of batch", 1, MAX_EVENTS
        ),
        parse(fields.needed(found, "timeout", "batch", example), "timeout of batch", 1.0, 600.0),
        fields.integer(found.get("max_bytes", MAX_BYTES), "max_bytes of batch", 1, MAX_BYTES),
        fields.compile_key(found, "batch"),
        None if condition is None else compile_condition(condition),
    )


def key_of_event(value: ValueExpression | None, event: Mapping[str, Any]) -> Key:
    """The key of an event (its envelope). Raises :class:`Invalid` when its evaluation fails."""
    if value is None:
        return NO_KEY
    return Key.of(value.evaluate({"event": event, "data": event.get("data")}))

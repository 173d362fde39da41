"""Rows of events and of what triggers decided about them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from functory.rows.base import Body, Instant, Redacted, Row, Text

# What an event in a list has of its payload.
PAYLOADS_OF_ROW = ("subject", "extensions", "problem")


class EventRow(Row):
    """An event in a list. ``fired`` and ``suppressed`` count the triggers that did."""

    id: str
    type: str
    subject: Text | None
    source: str
    time: Instant
    state: str
    depth: int
    root_id: str
    cause_execution_id: str | None
    extensions: dict[str, Any] | Redacted | None = Field(
        description="Attributes of the CloudEvent that have no field of their own."
    )
    problem: Text | None
    fired: int
    suppressed: int


class Firing(Row):
    """The recorded decision of a trigger about an event."""

    trigger: str | None
    trigger_id: str
    version: int
    decision: str
    reason: str | None
    limit: int | None
    value: int | None
    detail: Text | None
    execution_id: str | None
    time: Instant


class Event(EventRow):
    """One event with its data."""

    data_bytes: int
    data: Any
    chain: list[dict[str, Any]]
    dedup_key: Text | None
    routed_at: Instant | None
    firings: list[Firing]


class Clause(Row):
    """One clause of a trigger's pattern or conditions, compared with the event."""

    path: str
    expected: str
    found: Text
    matched: bool


class Decision(Row):
    """What a trigger decided about an event, or why it does not match."""

    trigger: str
    version: int
    state: str
    decision: str
    reason: Text | None = None
    limit: int | None = None
    value: int | None = None
    detail: Text | None = None
    execution_id: str | None = None
    chain: list[str] = Field(default=[])
    failed_clauses: int = 0
    clauses: list[Clause] = Field(default=[])


class NewEvent(Body):
    """An event to write."""

    type: str
    data: Any = None
    subject: str | None = None
    dedup_key: str | None = Field(default=None, description="A second event with it is not written.")


class NewEvents(Body):
    """Events to write, all of them or none."""

    events: list[NewEvent] = Field(min_length=1, max_length=10_000)


class Emitted(Row):
    """The ids of the events, in the order in which they were sent. Those of known keys are the first events' ids."""

    ids: list[str]

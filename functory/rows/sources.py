"""Rows of sources of events: schedules, watches, webhooks, queues and others."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Row, Text


class SourceRow(Row):
    """A source in a list. The fields of a schedule are null for other kinds."""

    kind: str
    name: str
    state: Literal["enabled", "paused"]
    version: int
    note: str | None
    paused_until: Instant | None = Field(
        description="When a pause by its breaker ends; null for any other pause."
    )
    problem: str | None
    problem_at: Instant | None
    last_event_at: Instant | None
    events_last_hour: int = Field(description="Events that it wrote in the last 60 minutes.")
    refused: int = Field(description="Requests and messages that became no event, since it was made.")
    waiting: int | None = Field(description="Messages of a queue that are not taken yet, some seconds ago.")
    looked_at: Instant | None = Field(
        description="When the process that runs it last looked at its queue, table, or all of its files."
    )
    lag_seconds: float | None = Field(
        description="How far behind now it is: a schedule since its oldest time without an event was due, others since "
        "the last look while no process runs it. Null for one that is paused, has ended, or waits for requests."
    )
    holder: str | None = Field(description="The process that runs it; null for kinds that no process runs.")
    author: str
    updated_at: Instant
    when: str | None = Field(default=None, description="The times of a schedule, in words.")
    timezone: str | None = None
    next_at: Instant | None = None
    last_at: Instant | None = None
    missed: int | None = None
    function: str | None = None
    url: str | None = Field(default=None, description="The address of a webhook.")
    about: str | None = Field(
        default=None, description="The folder, table or queue that it reads; how a webhook knows its senders."
    )


class Refusal(Row):
    """Why requests or messages of a source became no event."""

    reason: str = Field(description="A word of a closed list: never a text of the sender.")
    what: str = Field(description="The reason in words.")
    count: int
    last_at: Instant


class Source(SourceRow):
    """A source with its configuration."""

    refusals: list[Refusal] = Field(description="By reason, newest first; at most 15.")
    config: dict[str, Any]
    created_at: Instant
    lease_until: Instant | None = Field(description="Until then no other process runs it.")
    cursor: Any = Field(description="How far it has read; each kind has a form of its own.")
    trigger: str | None = Field(default=None, description="The trigger that runs the function of a schedule.")


class SavedSource(Source):
    """What a save has made. ``created`` is False when nothing changed."""

    created: bool
    warnings: list[str]


class ResumedSource(Source):
    """A source that was resumed. Of a schedule that was paused: since when, and how many times passed meanwhile."""

    paused_at: Instant | None
    passed: int


class KnownFile(Row):
    """A file that a watch knows. ``problem`` says why it cannot be read."""

    path: Text
    size: int
    mtime_ns: int
    sha256: str | None
    problem: Text | None
    seen_at: Instant


class KnownFiles(Row):
    """The first files of a watch, and the number of all."""

    items: list[KnownFile]
    count: int


class Kind(Row):
    """A kind of sources that is installed."""

    kind: str
    summary: str
    types: list[str]
    config_schema: dict[str, Any]


class NextTime(Row):
    """A time to come, in UTC and in the schedule's zone; ``due`` has its jitter."""

    fire_time: Instant
    local_time: str
    due: Instant


class PreviewedTimes(Row):
    """The next times of a configuration, or what is wrong with it."""

    times: list[NextTime]
    after_changes: list[NextTime] = Field(
        description="The first times after the next changes of the clocks: at most 4, among the next 1,000 times."
    )
    problem: str | None


class Tick(Row):
    """A time that became an event."""

    fire_time: Instant
    local_time: str
    origin: str
    written_at: Instant
    event_id: str
    execution_id: str | None
    reason: str | None = Field(description="Why a trigger was suppressed for it.")


class Ticks(Row):
    """The newest ticks of a schedule, and how many times passed without one: a pause, a downtime, ``catch_up``."""

    items: list[Tick]
    missed: int
    state: str
    note: str | None
    problem: str | None


class BackfillTime(Row):
    """A time of a backfill."""

    fire_time: Instant
    local_time: str
    status: Literal["fired before", "to be fired", "fired"]
    event_id: str | None


class BackfillAnswer(Row):
    """The times of a range."""

    dry_run: bool
    items: list[BackfillTime]


class TriggeredSchedule(Row):
    """The event of a schedule that was fired by hand."""

    event_id: str


class SourceSave(Body):
    """The configuration of a source. ``function`` and ``input`` are for schedules: the trigger that runs it."""

    config: dict[str, Any]
    function: str | None = None
    input: Any = None


class SchedulePreview(Body):
    """The configuration of a schedule that is not saved."""

    config: dict[str, Any]
    count: int = Field(default=3, ge=1, le=1000)


class PauseSource(Body):
    """A pause with its reason."""

    note: str = Field(default="", max_length=2000)


class FireSchedule(Body):
    """What happens if the previous execution still runs."""

    overlap: str | None = None


class Rescan(Body):
    """How a watch compares its files."""

    content: bool = Field(
        default=False, description="Read every file, even if its size and time did not change."
    )


class BackfillRequest(Body):
    """A range of times, ISO 8601; without an offset in the schedule's zone."""

    from_: str = Field(alias="from")
    until: str
    overlap: str | None = None
    dry_run: bool = True

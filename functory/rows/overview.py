"""The overview: whether anything is wrong now."""

from __future__ import annotations

from pydantic import Field

from functory.rows.base import Instant, Row


class Halted(Row):
    """Who has thrown the kill switch."""

    by: str
    note: str | None
    at: Instant


class Numbers(Row):
    """The top bar: what happens now, and which installation this is."""

    failed_1h: int
    running: int
    queued: int
    router_lag_seconds: float
    halted: Halted | None
    name: str
    color: str


class NeedsYou(Row):
    """Something that waits for a person: how many, in words, and the page of the dashboard that shows them."""

    kind: str
    count: int
    what: str
    link_path: str


class Series(Row):
    """The last 60 minutes, oldest first; the last one is the current minute. Null: nothing was measured."""

    events: list[int] | None = Field(description="Null for callers that are limited by labels.")
    succeeded: list[int]
    failed: list[int]
    queue_p95: list[float | None] = Field(description="Seconds until executions started.")
    router_lag: list[float | None] | None = Field(
        description="Seconds until events were routed. Null for callers that are limited by labels."
    )


class Failing(Row):
    """A function that has failed in the last 24 hours, and the version that failed most."""

    function: str
    version: int
    failures: int
    runs: int
    spark: list[int] = Field(description="Failures by hour, oldest first.")


class Stopped(Row):
    """A guard that has stopped matches of a trigger in the last 24 hours. ``root_id`` is the tree of the last one."""

    trigger: str
    reason: str
    count: int
    root_id: str
    last_at: Instant


class Workers(Row):
    """The workers that are alive: their slots, and how many by isolation tier."""

    alive: int
    slots: int
    busy: int
    tiers: dict[str, int]


class Verification(Row):
    """The last check of the invariants: ``ok`` of ``of`` hold. ``checked_at`` is null before the first one."""

    checked_at: Instant | None
    ok: int
    of: int


class Overview(Row):
    """What the first page shows."""

    is_new: bool = Field(description="Nothing has ever happened in this installation, in any function.")
    needs_you: list[NeedsYou]
    series: Series
    failing: list[Failing]
    stopped: list[Stopped]
    workers: Workers
    verification: Verification | None = Field(description="Null for callers that are limited by labels.")
    bar: Numbers

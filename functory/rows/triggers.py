"""Rows of triggers, their firings, and previews of drafts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Row, Text
from functory.rows.events import Clause


class Breaker(Row):
    """An open circuit breaker."""

    trips: int
    since: Instant
    open_until: Instant


class TriggerRow(Row):
    """A trigger in a list, with its numbers of the last 24 hours."""

    name: str
    state: Literal["enabled", "paused", "shadow"]
    version: int
    on: str = Field(description="The pattern, or the composite, on one line.")
    function: str
    labels: list[str]
    fired_24h: int = Field(description="Executions that it started.")
    suppressed_24h: int
    spark: list[int] = Field(description="Executions in each of the last 24 hours, oldest first.")
    last_at: Instant | None
    breaker: Breaker | None
    note: str | None
    updated_at: Instant


class TriggerDefinition(Row):
    """A trigger with its definition, and the numbers of all of its decisions."""

    name: str
    state: Literal["enabled", "paused", "shadow"]
    version: int
    definition: dict[str, Any]
    labels: list[str]
    note: str | None
    author: str
    fired: int
    suppressed: int
    last_at: Instant | None
    created_at: Instant
    updated_at: Instant


class CycleStep(Row):
    """A step of a cycle: the trigger runs the function, whose event may start the next trigger."""

    trigger: str
    function: str
    event: str
    subject: str | None
    target: str
    certain: bool


class TriggerFunction(Row):
    """A trigger, and the function that it runs."""

    name: str
    function: str


class TriggerGraph(Row):
    """Which trigger may start which: a step for each event that may do so, and every cycle as its steps."""

    triggers: list[TriggerFunction]
    steps: list[CycleStep]
    cycles: list[list[CycleStep]]


class CycleGuard(Row):
    """The guards by which a trigger of a cycle stops it."""

    trigger: str
    max_revisits: int
    max_depth: int | None
    acknowledge_cycle: int | None


class Cycle(Row):
    """The shortest cycle through a trigger."""

    path: str
    steps: list[CycleStep]
    guards: list[CycleGuard]


class Failure(Row):
    """The last failed match of a trigger."""

    count: int
    version: int
    event_id: str
    reason: str
    error: Text
    at: Instant


class Trigger(TriggerRow):
    """A trigger with its definition."""

    id: str
    definition: dict[str, Any]
    origin: str
    author: str
    sha256: str
    created_at: Instant
    warnings: list[str]
    cycle: Cycle | None
    failure: Failure | None
    fired: int | None = Field(
        default=None, description="All executions that it started; null unless asked for."
    )
    suppressed: int | None = Field(default=None, description="All matches that were suppressed, likewise.")


class SavedTrigger(Trigger):
    """What a save has made. ``created`` is False for a definition that was stored already."""

    created: bool


class TriggerVersion(Row):
    """A version of a trigger."""

    number: int
    definition: dict[str, Any]
    sha256: str
    author: str
    created_at: Instant


class FiringRow(Row):
    """What a trigger decided about one event. A field of an event that was deleted since is null."""

    event_id: str
    event_type: str | None
    subject: Text | None
    time: Instant
    decision: Literal["fired", "suppressed"]
    reason: str | None
    limit: int | None
    value: int | None
    detail: Text | None
    execution_id: str | None
    execution_state: str | None
    version: int


class Verdict(Row):
    """Whether a trigger matches an event. ``reason`` is the first clause that does not hold."""

    matched: bool
    reason: Text | None
    failed_clauses: int


class Recorded(Row):
    """What the stored trigger has decided about an event."""

    decision: Literal["fired", "suppressed"]
    reason: str | None
    version: int
    execution_id: str | None


class PreviewEvent(Verdict):
    """The verdict of a draft about one event, beside that of the stored version and what was decided then."""

    event: PreviewedEvent
    decision: Literal["would fire", "no match"]
    clauses: list[Clause]
    stored: Verdict | None
    recorded: Recorded | None


class PreviewedEvent(Row):
    """The event of a preview."""

    id: str
    type: str
    subject: Text | None
    source: str
    time: Instant
    depth: int
    root_id: str


class Counts(Row):
    """How many events match."""

    matched: int
    of: int


class StoredCounts(Counts):
    """How many events the stored version matches, and how many of them the draft adds and leaves out."""

    version: int
    added: int
    removed: int


class RenderedInput(Row):
    """The input that the function would get for one event."""

    event_id: str
    input: Any
    problem: Text | None


class DraftProblem(Row):
    """A fault of a draft. ``pointer`` is its place (RFC 6901). ``certain``: it cannot be saved so."""

    pointer: str
    what: str
    why: str
    try_: str = Field(serialization_alias="try", validation_alias="try")
    certain: bool


class Preview(Row):
    """What a draft would decide about the newest events of its types."""

    events: list[PreviewEvent]
    counts: Counts
    stored: StoredCounts | None
    input: RenderedInput | None
    cycle: Cycle | None
    problems: list[DraftProblem]


class Condition(Row):
    """The condition of a trigger for one event."""

    text: str
    holds: bool
    problem: Text | None


class DryRun(Row):
    """What a trigger would decide about one event by itself. ``undecided`` names the controls that decide after."""

    trigger: str
    version: int
    fires: bool
    clauses: list[Clause]
    condition: Condition | None
    function: str
    input: Any
    problem: Text | None
    undecided: list[str]


class Fired(Row):
    """The answer to a manual firing: the decision, and the execution that was started."""

    decision: DryRun
    execution_id: str | None


class FlowPart(Row):
    """The first rows of one control, and the number of all."""

    rows: list[dict[str, Any]]
    count: int


class Flow(Row):
    """What waits for a trigger, by control."""

    now: Instant
    trigger: str
    version: int
    state: str
    note: str | None
    function: str
    flow: dict[str, Any] | None
    composite: dict[str, Any] | None
    halted: bool
    pending: int
    breaker: dict[str, Any] | None
    key: Text | None
    buffers: FlowPart
    matches: int
    concurrency_groups: FlowPart
    throttle: FlowPart
    rate_limit: FlowPart
    dropped: int
    idempotency_keys: FlowPart
    cancellations: FlowPart
    executions: FlowPart
    states: dict[str, int]
    suppressed: dict[str, int]
    advice: str = Field(description="What holds it up, and what to do: one sentence.")


class TriggerSave(Body):
    """A definition in either spelling, with what a save needs beside it."""

    definition: dict[str, Any]
    shadow: bool = Field(default=False, description="A new trigger records its decisions and runs nothing.")


class TestEvent(Body):
    """The event of a test: the id of a stored one, or the members of an envelope."""

    event: str | dict[str, Any]


class Pause(Body):
    """A pause with its reason."""

    note: str = Field(default="", max_length=2000)


class Fire(Body):
    """A manual firing for a stored event."""

    event: str
    dry_run: bool = False


class PreviewRequest(Body):
    """A draft to try. ``event`` is the one that its input is rendered for; else the newest that matches."""

    draft: dict[str, Any]
    name: str | None = Field(default=None, max_length=200)
    limit: int = Field(default=50, ge=1, le=200)
    event: str | None = None

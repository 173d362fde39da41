"""Rows of executions and of their parts."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from functory.rows.base import Body, Instant, Redacted, Row, Text
from functory.rows.trees import Outline


class ExecutionRow(Row):
    """An execution in a list."""

    id: str
    function: str
    version: int
    state: str
    # The subject of the event that started it, or the first fields of its input.
    about: Text | None
    cause: str
    # The trigger or the function that started it.
    cause_name: str | None
    trigger: str | None
    trigger_id: str | None
    event_id: str | None
    parent_id: str | None
    replay_of: str | None
    resolved_by: str | None
    root_id: str
    depth: int
    attempt: int
    max_attempts: int
    created_at: Instant
    run_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    queued_seconds: float | None
    run_seconds: float | None
    error_type: str | None
    # Who cancelled it, or asked its worker to stop it: a person, a trigger, or ``execution`` and its parent's id. None
    # also when the caller does not see who.
    cancelled_by: str | None


class Error(Row):
    """Why an execution or an attempt has no result. ``final``: why it was not retried although it has retries."""

    type: str | None = None
    message: Text | None = None
    traceback: Text | None = None
    frames: list[dict[str, Any]] | Redacted | None = None
    final: str | None = None


class Slot(Row):
    """A slot of a concurrency group that an execution holds or waits for."""

    group: Text
    capacity: int
    taken_at: Instant | None
    ahead: int
    running: int


class Compensation(Row):
    """A step that is undone because an execution failed."""

    position: int
    step_id: str
    function: str
    compensate: str
    state: str
    execution_id: str | None
    problem: Text | None
    saga_id: str


class DecidingEvent(Row):
    """The event that started an execution; of several the last one."""

    id: str
    type: str
    subject: Text | None
    source: str
    cause_execution_id: str | None


class ErrorSource(Row):
    """The lines of the stored version around the line that raised an error.

    ``changed`` says that the version before does not have the line.
    """

    function: str
    version: int
    # A module of the function's own.
    module: str | None
    author: str | None
    created_at: Instant
    line: int
    first_line: int
    lines: list[str]
    changed: bool


class Execution(ExecutionRow):
    """One execution, without its input and its result."""

    version_id: str
    trigger_version: int | None
    # None also when the caller does not see the event, or it is gone.
    event: DecidingEvent | None
    # The events that started it, at most 100.
    events: list[str]
    input_bytes: int
    result_bytes: int | None
    error: Error | None
    # None without a line of user code, and without the right payload:read.
    error_source: ErrorSource | None
    warnings: list[Any] | Redacted | None
    result_kind: str | None
    # The version of each function that it called.
    versions: list[str] | None
    chain: list[dict[str, Any]]
    idempotency_key: str | None
    priority: int
    failures: int
    retries: int
    expires_at: Instant | None
    cancel_requested_at: Instant | None
    # Of a child: whether it is cancelled when its parent ends without success. None: it is no child, or an old one.
    ends_with_parent: bool | None
    waiting_for_slot: bool
    worker_id: str | None
    slots: list[Slot]
    compensations: list[Compensation]
    undoes: Compensation | None
    children_open: list[str]
    replays: list[str]
    # The present one of its function: which log lines are kept.
    log_policy: str | None


class Attempt(Row):
    """One attempt to run an execution."""

    fence: int
    number: int
    worker_id: str
    isolation: str | None
    started_at: Instant
    ended_at: Instant | None
    outcome: str | None
    error: Error | None
    duration_seconds: float | None
    waited_seconds: float | None
    queued_seconds: float | None
    sandbox: dict[str, Any] | None


class Span(Row):
    """A function that an execution called in its own process."""

    fence: int
    seq: int
    parent_seq: int | None
    function: str
    version: int
    input: Any
    output: Any
    error: Error | None
    offset_seconds: float
    duration_seconds: float | None


class Trace(Row):
    """What happened in an execution: the outline of what it caused, its attempts, and the functions that it called."""

    outline: Outline
    attempts: list[Attempt]
    spans: list[Span]


class LogLine(Row):
    """A line that an execution has printed or logged."""

    fence: int
    seq: int
    stream: str
    level: str
    text: Text
    offset_seconds: float


class Start(Body):
    """What an execution is started with."""

    function: str = Field(description="A name, or name@version.", max_length=250)
    input: dict[str, Any] = Field(default={})
    version: int | None = Field(default=None, ge=1, le=2**31 - 1)
    delay: float = Field(default=0.0, ge=0, le=31_536_000, description="Seconds.")
    priority: int | None = Field(default=None, ge=-100, le=100)


class StartMany(Body):
    """What several executions of one function are started with."""

    function: str = Field(description="A name, or name@version.", max_length=250)
    inputs: list[dict[str, Any]] = Field(min_length=1, max_length=10_000)
    version: int | None = Field(default=None, ge=1, le=2**31 - 1)
    delay: float = Field(default=0.0, ge=0, le=31_536_000, description="Seconds.")
    priority: int | None = Field(default=None, ge=-100, le=100)


class Started(Row):
    """The executions that were started, in the order of their inputs."""

    ids: list[str]


class Again(Body):
    """How an execution is run again."""

    latest: bool = Field(default=False, description="The active version instead of the version that ran.")


class Cancel(Body):
    """How far a cancel reaches."""

    tree: bool = Field(
        default=False,
        description="Cancel everything that it has caused as well, also when it has ended itself.",
    )


class Compensate(Body):
    """How a compensation that has stopped goes on."""

    skip: bool = Field(default=False, description="Leave the step as it is and go on with the one before it.")
    reason: str = Field(default="", max_length=1000)


class SuppressedMatch(Row):
    """A match of an event of the execution that a guard stopped."""

    trigger: str | None
    version: int
    event_type: str
    event_id: str
    reason: str | None
    limit: int | None
    value: int | None
    detail: Text | None


class Why(Row):
    """Why an execution ran, waits or failed. ``sentences`` say what to do, too."""

    sentences: list[str]
    event_id: str | None
    trigger: str | None
    parent_id: str | None
    waits_for: list[str]
    suppressed: list[SuppressedMatch]


class TimelineStep(Row):
    """A step of an event or execution. Without a time, none is stored."""

    step: str
    time: Instant | None
    since_seconds: float | None
    difference_seconds: float | None
    waited_for: str
    clock_difference_seconds: float


class TimelineExecution(Row):
    """The steps of one execution."""

    id: str
    function: str
    version: int
    trigger: str | None
    state: str
    steps: list[TimelineStep]


class Times(Row):
    """Where the time went: since the event, or since an execution without one was created."""

    event_id: str | None
    event_type: str | None
    steps: list[TimelineStep]
    executions: list[TimelineExecution]

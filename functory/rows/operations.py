"""Rows of what operators look after: grants, secrets, state, switches, workers, health, settings, packs, audit."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from functory.rows.base import Body, Instant, Number, Redacted, Row, Text


class Grant(Row):
    """A grant of a version. ``status``: in effect by the author's declaration or an operator's approval, or waiting."""

    function: str
    version: int | None
    sha256: str
    kind: str
    value: str
    status: Literal["author", "operator", "pending"]
    author: str
    reason: str | None
    created_at: Instant


class GrantChange(Body):
    """A grant of one version; without a version, of the active one."""

    function: str = Field(max_length=200)
    version: Number | None = None
    kind: str
    value: str = ""
    reason: str = Field(max_length=2000)


class GrantDecision(Row):
    """A decision about a grant."""

    function: str
    version: int | None
    kind: str
    value: str
    changed: bool


class SecretUser(Row):
    """A function or source that uses a secret."""

    kind: str
    name: str


class Secret(Row):
    """A secret, without its value. Nothing returns a value."""

    name: str
    version: int | None = Field(description="null: it is used and not set.")
    created_at: Instant | None
    updated_at: Instant | None
    used_by: list[SecretUser]


class SecretValue(Body):
    """The value of a secret. It is stored sealed and never returned."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    value: str


class SecretSet(Row):
    """A secret that was set."""

    name: str
    version: int


class StateRow(Row):
    """A value that a function keeps."""

    function: str
    key: str
    value: Any
    bytes: int
    version: int
    updated_at: Instant


class StateValue(Body):
    """A JSON value."""

    value: Any


class Switch(Row):
    """A kill switch."""

    name: str
    on: bool
    note: str | None
    author: str | None
    time: Instant | None


class SwitchNote(Body):
    """Why a switch is thrown."""

    note: str = Field(default="", max_length=2000)


class Worker(Row):
    """A worker that is alive."""

    id: str
    slots: int
    isolation: str
    started_at: Instant
    seen_at: Instant


class Part(Row):
    """A part of the installation."""

    name: str
    ok: bool
    what: str | None = None
    why: str | None = None
    try_: str | None = Field(default=None, serialization_alias="try", validation_alias="try")


class InvariantResult(Row):
    """The last check of an invariant: ``count`` violations."""

    code: str
    what: str
    count: int
    examples: list[Any]
    time: Instant


class Health(Row):
    """Parts, workers, open work and invariants."""

    parts: list[Part]
    database: str
    schema_: str | None = Field(serialization_alias="schema", validation_alias="schema")
    broker: str
    workers: list[Worker]
    tiers: dict[str, int]
    slots: int
    open: dict[str, int]
    sources: dict[str, int]
    verification: list[InvariantResult]


class StatusDatabase(Row):
    """The database, and how long it takes to answer."""

    name: str
    reachable: bool
    round_trip_seconds: float
    schema_: str | None = Field(serialization_alias="schema", validation_alias="schema")


class StatusBroker(Row):
    """The broker. ``kind`` is memory where all roles run in one process."""

    kind: str
    reachable: bool
    problem: str | None


class SourceProblem(Row):
    """A source with a problem."""

    kind: str
    name: str
    problem: str
    problem_at: Instant | None


class StatusSources(Row):
    """How many sources there are, and those with a problem."""

    enabled: int
    paused: int
    problems: list[SourceProblem]


class FailedMatches(Row):
    """The last failed match of a trigger, and how many have failed."""

    trigger: str
    version: int
    count: int
    reason: str
    error: Text
    event_id: str
    at: Instant


class DroppedMatches(Row):
    """What a trigger has dropped for one reason. ``paused_until``: its circuit breaker is open."""

    trigger_id: str
    trigger: str
    reason: str
    count: int
    last_at: Instant
    paused_until: Instant | None


class Status(Row):
    """What is there, what is open, and what went wrong within a day."""

    database: StatusDatabase
    broker: StatusBroker
    workers: list[Worker]
    open: dict[str, int]
    totals: dict[str, int]
    functions: int
    triggers: int
    sources: StatusSources
    failed_matches: list[FailedMatches]
    dropped_by_guards: list[DroppedMatches]


class Setting(Row):
    """A setting in force. Passwords and keys are masked."""

    name: str
    value: Any
    source: str
    description: str


class Pack(Row):
    """A pack that was imported: what came with it."""

    name: str
    functions: list[str]
    triggers: list[str]


class AuditRow(Row):
    """An action. ``refused`` ones were tried and not allowed: ``count`` times in that minute."""

    id: str
    time: Instant
    author: str
    action: str
    subject: str
    data: dict[str, Any] | None
    origin: str | None
    before_sha256: str | None
    after_sha256: str | None
    refused: bool
    count: int


class Suppression(Row):
    """Suppressed matches of a trigger in one tree, for one reason."""

    trigger: str | None
    trigger_id: str
    root_id: str
    reason: str
    count: int
    resumed: int
    first_event_id: str
    first_at: Instant
    last_at: Instant


class SuppressedFiring(Row):
    """A suppressed match that was not resumed."""

    time: Instant
    trigger: str
    reason: str
    event_id: str
    root_id: str
    detail: Text | None


class ReplayMatch(Body):
    """A suppressed match."""

    trigger: str
    event: str


class Replayed(Row):
    """The execution that was started."""

    execution_id: str


class ResumeMatches(Body):
    """Suppressed matches: of a trigger, of a tree (any event or execution in it), for these reasons.

    Without reasons, those that tell of a fault: guards, a pause, a missing function, a wrong input.
    """

    trigger: str | None = None
    root: str | None = None
    reasons: list[str] = []
    everything: bool = Field(default=False, description="The matches of all triggers.")
    dry_run: bool = False


class ResumedCount(Row):
    """Resumed matches of a trigger and a reason."""

    trigger: str
    reason: str
    count: int


class ResumeProblem(Row):
    """A match that has no execution."""

    trigger: str
    event_id: str
    error: str | Redacted


class ResumedMatches(Row):
    """What was resumed, or would be."""

    dry_run: bool
    total: int
    matches: list[ResumedCount]
    failed: int
    problems: list[ResumeProblem]

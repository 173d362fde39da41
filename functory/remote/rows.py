"""Rows as the API returns them: made from its description by ``python -m tests.support.remote_client``.

A value that the caller may not read is a :class:`Redacted`, or a mapping with ``redacted`` where mappings are expected.
"""

# ruff: noqa: E501

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class ActivationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which a version was active. The current one has no end."""

    at: datetime
    author: str
    cause_execution_id: str | None
    ended_at: datetime | None
    ended_by: str | None
    mark: Mark | None
    previous: int | None
    reason: str
    version: int


class ActiveFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function: how many of its executions run now, and those that ended in the last minutes."""

    failures: int
    name: str
    queued_p95_seconds: float | None
    run_p95_seconds: float | None
    running: int
    runs: int


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What happens now. The functions and the executions are the busiest ones, and the ones that have run longest."""

    at: datetime
    executions: list[RunningExecution]
    failures: int
    functions: list[ActiveFunction]
    minutes: int
    queued: int
    running: int
    runs: int
    slots: int
    workers: int


class AddedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that was stored; ``added`` is false for a text that was there, which became more important."""

    added: bool
    author: str
    created_at: datetime
    expires_at: datetime | None
    id: str
    importance: float
    kind: str
    owner: str
    run_id: str | None
    scope: str
    source_execution_id: str | None
    text: str | Redacted
    untrusted: bool


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What the numbers say, with the figures behind it, and what to do."""

    code: str
    figures: dict[str, float | int | str]
    says: str
    try_: str = msgspec.field(name="try")


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent with its newest definition. A name that the caller's labels hide is ``(hidden)``."""

    author: str
    created_at: datetime
    definition: AgentDefinition
    name: str
    state: str
    updated_at: datetime
    version: int


class AgentDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is: the function of its steps, and what its runs may use and spend."""

    agents: list[str]
    ask_before: list[str] = msgspec.field(default_factory=list)
    checks: list[str]
    description: str
    function: str
    limits: dict[str, Any]
    memo: Any
    model: str | None
    tools: list[str]


class AgentVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of an agent. Runs keep the one with which they began."""

    author: str
    created_at: datetime
    definition: AgentDefinition
    number: int


class AppliesTo(msgspec.Struct, frozen=True, kw_only=True):
    """The functions that a policy holds for: these, and those with one of the labels. Without both: all."""

    functions: list[str] = msgspec.field(default_factory=list)
    labels: list[str] = msgspec.field(default_factory=list)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to run an execution."""

    duration_seconds: float | None
    ended_at: datetime | None
    error: Error | None
    fence: int
    isolation: str | None
    number: int
    outcome: str | None
    queued_seconds: float | None
    sandbox: dict[str, Any] | None
    started_at: datetime
    waited_seconds: float | None
    worker_id: str


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """An action. ``refused`` ones were tried and not allowed: ``count`` times in that minute."""

    action: str
    after_sha256: str | None
    author: str
    before_sha256: str | None
    count: int
    data: dict[str, Any] | None
    id: str
    origin: str | None
    refused: bool
    subject: str
    time: datetime


class BackfillAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a range."""

    dry_run: bool
    items: list[BackfillTime]


class BackfillTime(msgspec.Struct, frozen=True, kw_only=True):
    """A time of a backfill."""

    event_id: str | None
    fire_time: datetime
    local_time: str
    status: str


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    """A backtest with its result. ``partial`` has that of the newest part of the time, while the whole runs."""

    author: str
    created_at: datetime
    done: int
    draft: dict[str, Any] | None
    finished_at: datetime | None
    id: str
    partial: dict[str, Any] | None
    problem: str | Redacted | None
    result: dict[str, Any] | None
    since: datetime
    state: str
    total: int | None
    trigger: str


class BacktestRow(msgspec.Struct, frozen=True, kw_only=True):
    """A backtest in a list. ``done`` of ``total`` events are decided about."""

    author: str
    created_at: datetime
    done: int
    finished_at: datetime | None
    id: str
    problem: str | Redacted | None
    since: datetime
    state: str
    total: int | None
    trigger: str


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch and how far it is. ``total`` is null when there were too many executions to count."""

    action: str
    author: str
    created_at: datetime
    done: int
    failed: int
    filters: dict[str, Any] | None
    finished_at: datetime | None
    id: str
    ids: list[str] | None
    latest: bool
    limit: int
    problems: list[Problem]
    reason: str | Redacted
    seen: int
    state: str
    total: int | None


class BatchCount(msgspec.Struct, frozen=True, kw_only=True):
    """The executions that a batch would handle. ``complete`` is false when there are more than were counted."""

    complete: bool
    count: int
    dry_run: bool
    examples: list[ExecutionRow]


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """An open circuit breaker."""

    open_until: datetime
    since: datetime
    trips: int


class BrokenContract(msgspec.Struct, frozen=True, kw_only=True):
    """A problem that a trigger gets by a version. ``certain``: a part of the trigger can never work then."""

    certain: bool
    trigger: str
    try_: str = msgspec.field(name="try", default="")
    what: str
    why: str


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How many executions the tree has caused, and how many it may."""

    maximum: int
    used: int


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its request, its answer and its tries."""

    agent: str | None
    asked: str
    cost: float
    created_at: datetime
    due_at: datetime
    ended_at: datetime | None
    error: CallError | None
    estimated: bool
    execution_id: str | None
    finish_reason: str | None
    function: str
    gateway: str | None
    id: str
    kind: str
    max_tokens: int
    model: str
    model_tries: int
    nth: int
    number: int
    partial: str | Redacted | None
    request: Any
    request_sha256: str
    reserved: float
    reserved_tokens: int
    response: Any
    root_id: str
    sent_at: datetime | None
    state: str
    stream: bool
    tokens_cached: int
    tokens_in: int
    tokens_out: int
    tried: list[CallTry]
    tries: int
    user_name: str | None


class CallError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call has no answer. ``limit``: what may be spent does not allow it."""

    answer: str | Redacted | None = None
    limit: dict[str, Any] | None = None
    message: str | Redacted | None = None
    status: int | None = None


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a model in a list, without its request and its answer."""

    agent: str | None
    asked: str
    cost: float
    created_at: datetime
    due_at: datetime
    ended_at: datetime | None
    error: CallError | None
    estimated: bool
    execution_id: str | None
    finish_reason: str | None
    function: str
    gateway: str | None
    id: str
    kind: str
    max_tokens: int
    model: str
    model_tries: int
    nth: int
    number: int
    request_sha256: str
    reserved: float
    reserved_tokens: int
    root_id: str
    sent_at: datetime | None
    state: str
    stream: bool
    tokens_cached: int
    tokens_in: int
    tokens_out: int
    tries: int
    user_name: str | None


class CallStats(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of another function inside these executions; ``share`` is the part of their time that it took."""

    calls: int
    failed: int
    function: str
    mean_seconds: float
    seconds: float
    share: float


class CallTry(msgspec.Struct, frozen=True, kw_only=True):
    """One time that a call was sent."""

    at: datetime
    cost: float
    model: str
    number: int
    problem: str | Redacted | None
    retry_after: float | None
    seconds: float
    status: int | None


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """A canary. Its ``version`` gets a share of the executions of the function, and ``base`` the others."""

    author: str
    base: int
    counts: CanaryArms
    deadline: datetime
    decided_at: datetime | None
    decided_by: str | None
    evidence: float
    function: str
    id: str
    proposal_id: str | None
    reason: str | None
    share: float
    started_at: datetime
    state: str
    unit: str
    unmet: list[str]
    version: int


class CanaryArms(msgspec.Struct, frozen=True, kw_only=True):
    """Units of both versions."""

    base: CanaryCounts
    canary: CanaryCounts


class CanaryCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Units of one version. A unit is a causal tree, or a subject of events."""

    attempt_failed: int
    failed: int
    left_out: int
    units: int


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model can do, and how it takes tools and schemas."""

    dimensions: int | None
    length: str
    schema: str
    stream: bool
    tools: str
    vision: bool


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """What a save would make; everything else is empty when there is a ``problem``."""

    changed: list[str] = msgspec.field(default_factory=list)
    contract: list[BrokenContract] = msgspec.field(default_factory=list)
    dependents: list[Dependent] = msgspec.field(default_factory=list)
    findings: list[Finding] = msgspec.field(default_factory=list)
    imports: list[Any] = msgspec.field(default_factory=list)
    inactive_reason: str | None = None
    input_schema: dict[str, Any] | bool | None = None
    number: int | None = None
    output_schema: dict[str, Any] | bool | None = None
    packages_known: bool = True
    parameters: list[dict[str, Any]] = msgspec.field(default_factory=list)
    problem: Fault | None
    warnings: list[str] = msgspec.field(default_factory=list)


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One clause of a trigger's pattern or conditions, compared with the event."""

    expected: str
    found: str | Redacted
    matched: bool
    path: str


class Compensation(msgspec.Struct, frozen=True, kw_only=True):
    """A step that is undone because an execution failed."""

    compensate: str
    execution_id: str | None
    function: str
    position: int
    problem: str | Redacted | None
    saga_id: str
    state: str
    step_id: str


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """The condition of a trigger for one event."""

    holds: bool
    problem: str | Redacted | None
    text: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Calls, tokens and cost in sum. ``of`` is null where calls have none."""

    calls: int
    cost: float
    of: str | None
    tokens_in: int
    tokens_out: int


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many events match."""

    matched: int
    of: int


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """The shortest cycle through a trigger."""

    guards: list[CycleGuard]
    path: str
    steps: list[CycleStep]


class CycleGuard(msgspec.Struct, frozen=True, kw_only=True):
    """The guards by which a trigger of a cycle stops it."""

    acknowledge_cycle: int | None
    max_depth: int | None
    max_revisits: int
    trigger: str


class CycleStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a cycle: the trigger runs the function, whose event may start the next trigger."""

    certain: bool
    event: str
    function: str
    subject: str | None
    target: str
    trigger: str


class CycleStop(msgspec.Struct, frozen=True, kw_only=True):
    """The guard that stops a cycle: it refuses a match of ``trigger``. ``executions`` run before. ``guard`` is the reason of the suppression."""

    executions: int
    guard: str
    limit: int
    trigger: str


class DecidingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The event that started an execution; of several the last one."""

    cause_execution_id: str | None
    id: str
    source: str
    subject: str | Redacted | None
    type: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger decided about an event, or why it does not match."""

    chain: list[str] = msgspec.field(default_factory=list)
    clauses: list[Clause] = msgspec.field(default_factory=list)
    decision: str
    detail: str | Redacted | None = None
    execution_id: str | None = None
    failed_clauses: int = 0
    limit: int | None = None
    reason: str | Redacted | None = None
    state: str
    trigger: str
    value: int | None = None
    version: int


class Dependent(msgspec.Struct, frozen=True, kw_only=True):
    """A function or trigger that uses a function."""

    kind: str
    name: str


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What a function does in words, for people and for models that choose tools. It is no part of a version. All are null for a function that has only the descriptions of its versions."""

    at: datetime | None = None
    author: str | None = None
    source_execution_id: str | None = None
    value: str | None = None


class DiffSide(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a difference."""

    author: str
    created_at: datetime
    number: int
    sha256: str
    source: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Two versions side by side. ``fields`` are those that differ, beside the source; ``modules`` are texts."""

    a: DiffSide
    b: DiffSide
    fields: dict[str, dict[str, Any]]
    modules: dict[str, dict[str, str | None]]
    unified: str


class DraftProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of a draft. ``pointer`` is its place (RFC 6901). ``certain``: it cannot be saved so."""

    certain: bool
    pointer: str
    try_: str = msgspec.field(name="try")
    what: str
    why: str


class DroppedMatches(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger has dropped for one reason. ``paused_until``: its circuit breaker is open."""

    count: int
    last_at: datetime
    paused_until: datetime | None
    reason: str
    trigger: str
    trigger_id: str


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger would decide about one event by itself. ``undecided`` names the controls that decide after."""

    clauses: list[Clause]
    condition: Condition | None
    fires: bool
    function: str
    input: Any
    problem: str | Redacted | None
    trigger: str
    undecided: list[str]
    version: int


class Emitted(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the events, in the order in which they were sent. Those of known keys are the first events' ids."""

    ids: list[str]


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """Why an execution or an attempt has no result. ``final``: why it was not retried although it has retries."""

    final: str | None = None
    frames: list[dict[str, Any]] | Redacted | None = None
    message: str | Redacted | None = None
    traceback: str | Redacted | None = None
    type: str | None = None


class ErrorCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the newest failed attempts had an error of this type."""

    count: int
    type: str


class ErrorSource(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of the stored version around the line that raised an error. ``changed`` says that the version before does not have the line."""

    author: str | None
    changed: bool
    created_at: datetime
    first_line: int
    function: str
    line: int
    lines: list[str]
    module: str | None
    version: int


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event with its data."""

    cause_execution_id: str | None
    chain: list[dict[str, Any]]
    data: Any
    data_bytes: int
    dedup_key: str | Redacted | None
    depth: int
    extensions: Any
    fired: int
    firings: list[Firing]
    id: str
    problem: str | Redacted | None
    root_id: str
    routed_at: datetime | None
    source: str
    state: str
    subject: str | Redacted | None
    suppressed: int
    time: datetime
    type: str


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """An event in a list. ``fired`` and ``suppressed`` count the triggers that did."""

    cause_execution_id: str | None
    depth: int
    extensions: Any
    fired: int
    id: str
    problem: str | Redacted | None
    root_id: str
    source: str
    state: str
    subject: str | Redacted | None
    suppressed: int
    time: datetime
    type: str


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One execution, without its input and its result."""

    about: str | Redacted | None
    attempt: int
    cancel_requested_at: datetime | None
    cancelled_by: str | None
    cause: str
    cause_name: str | None
    chain: list[dict[str, Any]]
    children_open: list[str]
    compensations: list[Compensation]
    created_at: datetime
    depth: int
    ends_with_parent: bool | None
    error: Error | None
    error_source: ErrorSource | None
    error_type: str | None
    event: DecidingEvent | None
    event_id: str | None
    events: list[str]
    expires_at: datetime | None
    failures: int
    finished_at: datetime | None
    function: str
    id: str
    idempotency_key: str | None
    input_bytes: int
    log_policy: str | None
    max_attempts: int
    parent_id: str | None
    priority: int
    queued_seconds: float | None
    replay_of: str | None
    replays: list[str]
    resolved_by: str | None
    result_bytes: int | None
    result_kind: str | None
    retries: int
    root_id: str
    run_at: datetime
    run_seconds: float | None
    slots: list[Slot]
    started_at: datetime | None
    state: str
    trigger: str | None
    trigger_id: str | None
    trigger_version: int | None
    undoes: Compensation | None
    version: int
    version_id: str
    versions: list[str] | None
    waiting_for_slot: bool
    warnings: list[Any] | Redacted | None
    worker_id: str | None


class ExecutionRow(msgspec.Struct, frozen=True, kw_only=True):
    """An execution in a list."""

    about: str | Redacted | None
    attempt: int
    cancelled_by: str | None
    cause: str
    cause_name: str | None
    created_at: datetime
    depth: int
    error_type: str | None
    event_id: str | None
    finished_at: datetime | None
    function: str
    id: str
    max_attempts: int
    parent_id: str | None
    queued_seconds: float | None
    replay_of: str | None
    resolved_by: str | None
    root_id: str
    run_at: datetime
    run_seconds: float | None
    started_at: datetime | None
    state: str
    trigger: str | None
    trigger_id: str | None
    version: int


class FailedMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The last failed match of a trigger, and how many have failed."""

    at: datetime
    count: int
    error: str | Redacted
    event_id: str
    reason: str
    trigger: str
    version: int


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """A function that has failed in the last 24 hours, and the version that failed most."""

    failures: int
    function: str
    runs: int
    spark: list[int]
    version: int


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The last failed match of a trigger."""

    at: datetime
    count: int
    error: str | Redacted
    event_id: str
    reason: str
    version: int


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Why a source cannot be saved, with its place when it has one. ``line`` counts from 1, ``column`` from 0."""

    column: int | None
    line: int | None
    try_: str = msgspec.field(name="try", default="")
    what: str
    why: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Advice about a source. ``line`` counts from 1, ``column`` from 0; a line of 0 is no place."""

    column: int
    detail: str = ""
    kind: str
    line: int
    message: str
    severity: str


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a manual firing: the decision, and the execution that was started."""

    decision: DryRun
    execution_id: str | None


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded decision of a trigger about an event."""

    decision: str
    detail: str | Redacted | None
    execution_id: str | None
    limit: int | None
    reason: str | None
    time: datetime
    trigger: str | None
    trigger_id: str
    value: int | None
    version: int


class FiringRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger decided about one event. A field of an event that was deleted since is null."""

    decision: str
    detail: str | Redacted | None
    event_id: str
    event_type: str | None
    execution_id: str | None
    execution_state: str | None
    limit: int | None
    reason: str | None
    subject: str | Redacted | None
    time: datetime
    value: int | None
    version: int


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for a trigger, by control."""

    advice: str
    breaker: dict[str, Any] | None
    buffers: FlowPart
    cancellations: FlowPart
    composite: dict[str, Any] | None
    concurrency_groups: FlowPart
    dropped: int
    executions: FlowPart
    flow: dict[str, Any] | None
    function: str
    halted: bool
    idempotency_keys: FlowPart
    key: str | Redacted | None
    matches: int
    note: str | None
    now: datetime
    pending: int
    rate_limit: FlowPart
    state: str
    states: dict[str, int]
    suppressed: dict[str, int]
    throttle: FlowPart
    trigger: str
    version: int


class FlowPart(msgspec.Struct, frozen=True, kw_only=True):
    """The first rows of one control, and the number of all."""

    count: int
    rows: list[dict[str, Any]]


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """How many memories were deleted."""

    count: int


class FoundFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function that fits a goal, as a model sees it."""

    description: str
    effect: str | None
    name: str
    parameters: dict[str, Any]
    score: float


class FoundMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that fits a query."""

    author: str
    created_at: datetime
    expires_at: datetime | None
    id: str
    importance: float
    kind: str
    owner: str
    run_id: str | None
    scope: str
    score: float
    source_execution_id: str | None
    text: str | Redacted
    untrusted: bool


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function with its active version, or its newest one while none is active."""

    active: int | None
    author: str
    cause_execution_id: str | None
    compensate: str | None
    created_at: datetime
    declared: dict[str, bool]
    dependencies: list[dict[str, Any]]
    environment: str | None
    environment_error: str | None
    findings: list[Finding]
    grants: dict[str, Any]
    imports: list[Any]
    input_schema: dict[str, Any] | bool | None
    is_async: bool
    labels: list[str]
    latest: int
    limits: dict[str, Any]
    log_policy: str
    mark: Mark | None
    metadata: dict[str, Any]
    modules: dict[str, str]
    name: str
    number: int
    output_patterns: dict[str, Any]
    output_schema: dict[str, Any] | bool | None
    parameters: list[dict[str, Any]]
    pending_grants: list[str]
    permissions: list[str]
    requirements: list[str]
    reuse: bool
    secrets: list[str]
    sha256: str
    source: str
    source_sha256: str
    state: str
    triggers: list[str]
    updated_at: datetime
    warnings: list[str]


class FunctionGate(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for proposals of a function, and the policies that they come from."""

    policies: list[str]
    rules: GateRules


class FunctionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A function in a list, with its numbers of the last 24 hours."""

    active: int | None
    environment_error: str | None
    failure_spark: list[int]
    failures_24h: int
    labels: list[str]
    latest: int
    log_policy: str
    name: str
    p95_seconds: float | None
    pending_grants: list[str]
    runs_24h: int
    spark: list[int]
    state: str
    triggers: list[str]
    updated_at: datetime


class FunctionStats(msgspec.Struct, frozen=True, kw_only=True):
    """A function over time: by minute up to three hours, else by hour. ``recent``, ``calls``, ``limits`` and ``change`` are about ``version``: the active one, or the newest while none is."""

    advice: list[Advice]
    calls: list[CallStats]
    change: VersionChange | None
    interval_seconds: int
    limits: dict[str, Any]
    name: str
    recent: RecentRuns
    series: list[Interval]
    since: datetime
    total: TotalStats
    version: int
    versions: list[VersionStats]


class GateCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check of a proposal. The values in the report of its tests are payloads."""

    name: str
    report: dict[str, Any]
    seconds: float | None
    state: str
    tries: int
    updated_at: datetime


class GatePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy of the gate. A change makes a new number."""

    applies_to: AppliesTo
    author: str
    created_at: datetime
    name: str
    number: int
    rules: GateRules


class GateRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a proposal must show, and who approves it."""

    approval: dict[str, str]
    canary: float
    days: int
    mutants: float
    tests: str


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A grant of a version. ``status``: in effect by the author's declaration or an operator's approval, or waiting."""

    author: str
    created_at: datetime
    function: str
    kind: str
    reason: str | None
    sha256: str
    status: str
    value: str
    version: int | None


class GrantDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about a grant."""

    changed: bool
    function: str
    kind: str
    value: str
    version: int | None


class Halted(msgspec.Struct, frozen=True, kw_only=True):
    """Who has thrown the kill switch."""

    at: datetime
    by: str
    note: str | None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Parts, workers, open work and invariants."""

    broker: str
    database: str
    open: dict[str, int]
    parts: list[Part]
    schema: str | None
    slots: int
    sources: dict[str, int]
    tiers: dict[str, int]
    verification: list[InvariantResult]
    workers: list[Worker]


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """What tells this installation from others."""

    color: str
    name: str


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A minute or an hour of a function."""

    failures: int
    p50_queued_seconds: float | None
    p50_run_seconds: float | None
    p95_queued_seconds: float | None
    p95_run_seconds: float | None
    p99_queued_seconds: float | None
    p99_run_seconds: float | None
    runs: int
    time: datetime


class InvariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """The last check of an invariant: ``count`` violations."""

    code: str
    count: int
    examples: list[Any]
    time: datetime
    what: str


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of sources that is installed."""

    config_schema: dict[str, Any]
    kind: str
    summary: str
    types: list[str]


class KnownFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a watch knows. ``problem`` says why it cannot be read."""

    mtime_ns: int
    path: str | Redacted
    problem: str | Redacted | None
    seen_at: datetime
    sha256: str | None
    size: int


class KnownFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The first files of a watch, and the number of all."""

    count: int
    items: list[KnownFile]


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """The labels after a change."""

    labels: list[str]


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that an execution has printed or logged."""

    fence: int
    level: str
    offset_seconds: float
    seq: int
    stream: str
    text: str | Redacted


class LogPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy after a change."""

    log_policy: str


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """An open login."""

    address: str
    agent: str
    created_at: datetime
    current: bool
    expires_at: datetime
    id: str
    seen_at: datetime
    user: str


class LoginWays(msgspec.Struct, frozen=True, kw_only=True):
    """How one can log in here."""

    advice: str | None
    installation: Installation
    link: bool
    password: bool
    provider: str | None


class Map(msgspec.Struct, frozen=True, kw_only=True):
    """What can start what. ``truncated``: there are more nodes than can be shown."""

    cycles: list[MapCycle]
    edges: list[MapEdge]
    nodes: list[MapNode]
    truncated: bool


class MapCycle(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of nodes in their order, and what stops the cycle: while its events are about one subject, and else."""

    nodes: list[str]
    other_subjects: CycleStop
    same_subject: CycleStop


class MapEdge(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger runs a function, a function or source emits an event, an event starts a trigger. Not ``certain``: the type is computed by the code."""

    certain: bool
    from_: str = msgspec.field(name="from")
    kind: str
    to: str


class MapNode(msgspec.Struct, frozen=True, kw_only=True):
    """A function, trigger, event type or source."""

    id: str
    kind: str
    name: str
    state: str | None


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a version from its use."""

    at: datetime
    by: str
    mark: str
    reason: str


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The caller."""

    confirmed_until: datetime | None
    has_password: bool
    installation: Installation
    kind: str
    labels: list[str] | None
    login_expires_at: datetime | None
    name: str
    preferences: dict[str, Any]
    rights: list[str]
    role: str
    version: str


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, and where it comes from."""

    author: str
    created_at: datetime
    expires_at: datetime | None
    id: str
    importance: float
    kind: str
    owner: str
    run_id: str | None
    scope: str
    source_execution_id: str | None
    text: str | Redacted
    untrusted: bool


class Meter(msgspec.Struct, frozen=True, kw_only=True):
    """What a tree may spend on models, and has. Reserved: by calls that are sent."""

    calls: int
    calls_limit: int
    children: int
    children_limit: int
    created_at: datetime
    deadline_at: datetime
    exceeded_at: datetime | None
    proposals: int
    proposals_limit: int
    root_id: str
    tokens_limit: int
    tokens_reserved: int
    tokens_spent: int
    tool_calls: int
    tool_calls_limit: int
    usd_limit: float
    usd_reserved: float
    usd_spent: float
    warned_at: datetime | None


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A language model. The secret is named; no key is ever returned. Prices are for a million tokens."""

    adapter: str
    api_base: str | None
    author: str
    calls_per_minute: int | None
    calls_today: int
    capabilities: Capabilities
    context: int
    cost_today: float
    created_at: datetime
    fallbacks: list[str]
    health: ModelHealth
    max_output: int
    name: str
    note: str
    open_calls: int
    price_cached: float
    price_in: float
    price_out: float
    provider_model: str
    secret: str | None
    secret_set: bool | None
    slots: int
    state: str
    timeout: float
    tokens_per_minute: int | None
    updated_at: datetime


class ModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the steps of a run have asked of one model."""

    calls: int
    cost: float
    model: str
    tokens_in: int
    tokens_out: int


class ModelHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a model answers. ``open_until``: its circuit breaker is open."""

    failures: int
    open_until: datetime | None
    problem: str | Redacted | None


class ModelTest(msgspec.Struct, frozen=True, kw_only=True):
    """One test of a model. ``problem`` is null when it passed, and while it runs."""

    answer: str | None
    call_id: str | None
    cost: float
    problem: str | None
    state: str
    test: str


class ModelTests(msgspec.Struct, frozen=True, kw_only=True):
    """The tests of a model, begun together."""

    ended: bool
    root_id: str
    tests: list[ModelTest]


class NameUse(msgspec.Struct, frozen=True, kw_only=True):
    """What uses the name of a function: its kind and name, or the number of them."""

    how: str
    kind: str
    name: str


class NeedsYou(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a person: how many, in words, and the page of the dashboard that shows them."""

    count: int
    kind: str
    link_path: str
    what: str


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was just made: the only answer with its text."""

    created_at: datetime
    expires_at: datetime
    id: str
    labels: list[str] | None
    last_used_at: datetime | None
    name: str
    prefix: str
    rights: list[str]
    role: str
    token: str
    user: str


class NextTime(msgspec.Struct, frozen=True, kw_only=True):
    """A time to come, in UTC and in the schedule's zone; ``due`` has its jitter."""

    due: datetime
    fire_time: datetime
    local_time: str


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """The top bar: what happens now, and which installation this is."""

    color: str
    failed_1h: int
    halted: Halted | None
    name: str
    queued: int
    router_lag_seconds: float
    running: int


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a tree, breadth first. ``path`` are the nodes above ``at``, the top first."""

    at: str | None
    nodes: list[OutlineNode]
    path: list[OutlineNode]
    root_id: str
    total: int
    truncated: bool


class OutlineNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a tree. ``kind`` is event, execution, suppressed (a match that a guard stopped), joined (a match whose execution is below another event) or group (equal siblings). ``children`` counts the direct children, ``left_out`` those that are not in the answer, ``worst`` is the worst state among and below them."""

    about: str | Redacted | None
    attempt: int | None
    cancelled_by: str | None
    cause: str | None
    children: int
    count: int | None
    created_at: datetime | None
    error_type: str | None
    execution_id: str | None
    finished_at: datetime | None
    id: str
    kind: str
    left_out: int
    max_seconds: float | None
    median_seconds: float | None
    min_seconds: float | None
    name: str
    parent: str | None
    queued_seconds: float | None
    reason: str | None
    resolved_by: str | None
    run_seconds: float | None
    start: datetime | None
    state: str
    trigger: str | None
    version: int | None
    worst: str | None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What the first page shows."""

    bar: Numbers
    failing: list[Failing]
    is_new: bool
    needs_you: list[NeedsYou]
    series: Series
    stopped: list[Stopped]
    verification: Verification | None
    workers: Workers


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """A pack that was imported: what came with it."""

    functions: list[str]
    name: str
    triggers: list[str]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the installation."""

    name: str
    ok: bool
    try_: str | None = msgspec.field(name="try", default=None)
    what: str | None = None
    why: str | None = None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a draft would decide about the newest events of its types."""

    counts: Counts
    cycle: Cycle | None
    events: list[PreviewEvent]
    input: RenderedInput | None
    problems: list[DraftProblem]
    stored: StoredCounts | None


class PreviewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a draft about one event, beside that of the stored version and what was decided then."""

    clauses: list[Clause]
    decision: str
    event: PreviewedEvent
    failed_clauses: int
    matched: bool
    reason: str | Redacted | None
    recorded: Recorded | None
    stored: Verdict | None


class PreviewedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The event of a preview."""

    depth: int
    id: str
    root_id: str
    source: str
    subject: str | Redacted | None
    time: datetime
    type: str


class PreviewedTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The next times of a configuration, or what is wrong with it."""

    after_changes: list[NextTime]
    problem: str | None
    times: list[NextTime]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that could not be handled."""

    error: str | Redacted
    execution_id: str


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal with its checks and decisions. ``base_source`` is null for a new function."""

    author: str
    base_source: str | None
    base_version: int | None
    checks: list[GateCheck]
    created_at: datetime
    decisions: list[ProposalDecision]
    description: str | Redacted
    ended_at: datetime | None
    execution_id: str | None
    expires_at: datetime
    function: str
    id: str
    is_ephemeral: bool
    policies: list[str]
    reason: str | Redacted | None
    rights: VersionRights
    root_id: str | None
    rules: GateRules
    run_id: str | None
    source: str | None
    state: str
    tests: list[dict[str, Any]] | Redacted
    updated_at: datetime
    version: int


class ProposalDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A question whether a proposal may become active, and what a person decided."""

    decided_at: datetime | None
    decided_by: str | None
    feedback: str | Redacted | None
    id: str
    requested_at: datetime
    state: str


class ProposalRow(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal in a list."""

    author: str
    base_version: int | None
    created_at: datetime
    description: str | Redacted
    ended_at: datetime | None
    execution_id: str | None
    expires_at: datetime
    function: str
    id: str
    is_ephemeral: bool
    policies: list[str]
    reason: str | Redacted | None
    rights: VersionRights
    root_id: str | None
    run_id: str | None
    state: str
    updated_at: datetime
    version: int


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a run or a proposal asks. ``payload`` has ``question`` and ``choices``, or ``tool``, ``version``, ``arguments`` and ``effect``, or what is proposed; what is a payload in it is redacted by itself."""

    agent: str | None
    answer: Any
    decided_at: datetime | None
    decided_by: str | None
    execution_id: str | None
    expires_at: datetime
    feedback: str | Redacted | None
    function: str
    goal: str | Redacted | None
    id: str
    kind: str
    payload: dict[str, Any]
    proposal_id: str | None
    requested_at: datetime
    root_id: str
    run_id: str | None
    state: str


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent in a day (UTC), and what was spent today. A limit that is null is none."""

    calls: int
    calls_limit: int | None
    day: str
    name: str
    scope: str
    tokens: int | None
    tokens_reserved: int
    tokens_spent: int
    usd: float | None
    usd_reserved: float
    usd_spent: float


class RecentRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The newest executions of the version that have ended, at most 500. ``retried`` are those that ran again after a failure, ``helped`` those of them that succeeded. The seconds of an attempt do not contain its waiting for child executions."""

    errors: list[ErrorCount]
    executions: int
    helped: int
    p99_attempt_seconds: float | None
    retried: int
    seconds: float
    waited_seconds: float


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What the stored trigger has decided about an event."""

    decision: str
    execution_id: str | None
    reason: str | None
    version: int


class Redacted(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces a value that needs a right which the caller has not."""

    redacted: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why requests or messages of a source became no event."""

    count: int
    last_at: datetime
    reason: str
    what: str


class RenameReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a rename does, or would do: ``uses`` are refused without an alias, ``obstacles`` always."""

    alias_version: int | None
    former: str
    is_refused: bool
    name: str
    obstacles: list[str]
    uses: list[NameUse]
    version: int
    versions: int


class RenderedInput(msgspec.Struct, frozen=True, kw_only=True):
    """The input that the function would get for one event."""

    event_id: str
    input: Any
    problem: str | Redacted | None


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """The execution that was started."""

    execution_id: str


class ResumeProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A match that has no execution."""

    error: str | Redacted
    event_id: str
    trigger: str


class ResumedCount(msgspec.Struct, frozen=True, kw_only=True):
    """Resumed matches of a trigger and a reason."""

    count: int
    reason: str
    trigger: str


class ResumedMatches(msgspec.Struct, frozen=True, kw_only=True):
    """What was resumed, or would be."""

    dry_run: bool
    failed: int
    matches: list[ResumedCount]
    problems: list[ResumeProblem]
    total: int


class ResumedSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source that was resumed. Of a schedule that was paused: since when, and how many times passed meanwhile."""

    about: str | None = None
    author: str
    config: dict[str, Any]
    created_at: datetime
    cursor: Any
    events_last_hour: int
    function: str | None = None
    holder: str | None
    kind: str
    lag_seconds: float | None
    last_at: datetime | None = None
    last_event_at: datetime | None
    lease_until: datetime | None
    looked_at: datetime | None
    missed: int | None = None
    name: str
    next_at: datetime | None = None
    note: str | None
    passed: int
    paused_at: datetime | None
    paused_until: datetime | None
    problem: str | None
    problem_at: datetime | None
    refusals: list[Refusal]
    refused: int
    state: str
    timezone: str | None = None
    trigger: str | None = None
    updated_at: datetime
    url: str | None = None
    version: int
    waiting: int | None
    when: str | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run with what it waits for. ``waits``, ``state`` and ``reason`` are of the same time."""

    agent: str | None
    agent_version: int | None
    author: str
    checked: bool | None
    created_at: datetime
    detail: Any
    ended_at: datetime | None
    errors: int
    function: str
    goal: str | Redacted
    id: str
    max_steps: int
    memo: Any
    parent_run_id: str | None
    pause_requested_at: datetime | None
    questions: list[Question]
    reason: str | None
    result: Any
    root_id: str
    spent: Meter | None
    state: str
    step: int
    updated_at: datetime
    usd_limit: float | None
    usd_spent: float
    user_name: str | None
    waits: list[RunWait]


class RunCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a run costs: its own steps by model, and its whole tree with its tools and child runs."""

    models: list[ModelCost]
    tree: Meter | None


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list. What it has spent is that of its whole tree."""

    agent: str | None
    agent_version: int | None
    author: str
    checked: bool | None
    created_at: datetime
    ended_at: datetime | None
    errors: int
    function: str
    goal: str | Redacted
    id: str
    max_steps: int
    parent_run_id: str | None
    pause_requested_at: datetime | None
    reason: str | None
    root_id: str
    state: str
    step: int
    updated_at: datetime
    usd_limit: float | None
    usd_spent: float
    user_name: str | None


class RunWait(msgspec.Struct, frozen=True, kw_only=True):
    """What a run waits for: a call, an execution, a run, an approval or a proposal."""

    kind: str
    target_id: str


class RunningExecution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that runs. ``started_at`` is that of its attempt."""

    attempt: int
    cause: str
    function: str
    id: str
    root_id: str
    started_at: datetime
    version: int
    worker_id: str


class SavedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """What a save has made. ``created`` is False for content that was stored already."""

    active: int | None
    author: str
    cause_execution_id: str | None
    compensate: str | None
    contract: list[BrokenContract]
    created: bool
    created_at: datetime
    declared: dict[str, bool]
    dependencies: list[dict[str, Any]]
    environment: str | None
    environment_error: str | None
    findings: list[Finding]
    grants: dict[str, Any]
    imports: list[Any]
    inactive_reason: str | None
    input_schema: dict[str, Any] | bool | None
    is_async: bool
    labels: list[str]
    latest: int
    limits: dict[str, Any]
    log_policy: str
    mark: Mark | None
    metadata: dict[str, Any]
    modules: dict[str, str]
    name: str
    number: int
    output_patterns: dict[str, Any]
    output_schema: dict[str, Any] | bool | None
    parameters: list[dict[str, Any]]
    pending_grants: list[str]
    permissions: list[str]
    requirements: list[str]
    reuse: bool
    secrets: list[str]
    sha256: str
    source: str
    source_sha256: str
    state: str
    triggers: list[str]
    updated_at: datetime
    warnings: list[str]


class SavedSource(msgspec.Struct, frozen=True, kw_only=True):
    """What a save has made. ``created`` is False when nothing changed."""

    about: str | None = None
    author: str
    config: dict[str, Any]
    created: bool
    created_at: datetime
    cursor: Any
    events_last_hour: int
    function: str | None = None
    holder: str | None
    kind: str
    lag_seconds: float | None
    last_at: datetime | None = None
    last_event_at: datetime | None
    lease_until: datetime | None
    looked_at: datetime | None
    missed: int | None = None
    name: str
    next_at: datetime | None = None
    note: str | None
    paused_until: datetime | None
    problem: str | None
    problem_at: datetime | None
    refusals: list[Refusal]
    refused: int
    state: str
    timezone: str | None = None
    trigger: str | None = None
    updated_at: datetime
    url: str | None = None
    version: int
    waiting: int | None
    warnings: list[str]
    when: str | None = None


class SavedTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """What a save has made. ``created`` is False for a definition that was stored already."""

    author: str
    breaker: Breaker | None
    created: bool
    created_at: datetime
    cycle: Cycle | None
    definition: dict[str, Any]
    failure: Failure | None
    fired: int | None = None
    fired_24h: int
    function: str
    id: str
    labels: list[str]
    last_at: datetime | None
    name: str
    note: str | None
    on: str
    origin: str
    sha256: str
    spark: list[int]
    state: str
    suppressed: int | None = None
    suppressed_24h: int
    updated_at: datetime
    version: int
    warnings: list[str]


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. ``kind`` is function, trigger, execution, event, version, call, model, or the kind of a source."""

    id: str | None
    kind: str
    name: str
    time: datetime | None


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret, without its value. Nothing returns a value."""

    created_at: datetime | None
    name: str
    updated_at: datetime | None
    used_by: list[SecretUser]
    version: int | None


class SecretSet(msgspec.Struct, frozen=True, kw_only=True):
    """A secret that was set."""

    name: str
    version: int


class SecretUser(msgspec.Struct, frozen=True, kw_only=True):
    """A function or source that uses a secret."""

    kind: str
    name: str


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The last 60 minutes, oldest first; the last one is the current minute. Null: nothing was measured."""

    events: list[int] | None
    failed: list[int]
    queue_p95: list[float | None]
    router_lag: list[float | None] | None
    succeeded: list[int]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting in force. Passwords and keys are masked."""

    description: str
    name: str
    source: str
    value: Any


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A slot of a concurrency group that an execution holds or waits for."""

    ahead: int
    capacity: int
    group: str | Redacted
    running: int
    taken_at: datetime | None


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A source with its configuration."""

    about: str | None = None
    author: str
    config: dict[str, Any]
    created_at: datetime
    cursor: Any
    events_last_hour: int
    function: str | None = None
    holder: str | None
    kind: str
    lag_seconds: float | None
    last_at: datetime | None = None
    last_event_at: datetime | None
    lease_until: datetime | None
    looked_at: datetime | None
    missed: int | None = None
    name: str
    next_at: datetime | None = None
    note: str | None
    paused_until: datetime | None
    problem: str | None
    problem_at: datetime | None
    refusals: list[Refusal]
    refused: int
    state: str
    timezone: str | None = None
    trigger: str | None = None
    updated_at: datetime
    url: str | None = None
    version: int
    waiting: int | None
    when: str | None = None


class SourceProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A source with a problem."""

    kind: str
    name: str
    problem: str
    problem_at: datetime | None


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source in a list. The fields of a schedule are null for other kinds."""

    about: str | None = None
    author: str
    events_last_hour: int
    function: str | None = None
    holder: str | None
    kind: str
    lag_seconds: float | None
    last_at: datetime | None = None
    last_event_at: datetime | None
    looked_at: datetime | None
    missed: int | None = None
    name: str
    next_at: datetime | None = None
    note: str | None
    paused_until: datetime | None
    problem: str | None
    problem_at: datetime | None
    refused: int
    state: str
    timezone: str | None = None
    updated_at: datetime
    url: str | None = None
    version: int
    waiting: int | None
    when: str | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A function that an execution called in its own process."""

    duration_seconds: float | None
    error: Error | None
    fence: int
    function: str
    input: Any
    offset_seconds: float
    output: Any
    parent_seq: int | None
    seq: int
    version: int


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The executions that were started, in the order of their inputs."""

    ids: list[str]


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a function keeps."""

    bytes: int
    function: str
    key: str
    updated_at: datetime
    value: Any
    version: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What is there, what is open, and what went wrong within a day."""

    broker: StatusBroker
    database: StatusDatabase
    dropped_by_guards: list[DroppedMatches]
    failed_matches: list[FailedMatches]
    functions: int
    open: dict[str, int]
    sources: StatusSources
    totals: dict[str, int]
    triggers: int
    workers: list[Worker]


class StatusBroker(msgspec.Struct, frozen=True, kw_only=True):
    """The broker. ``kind`` is memory where all roles run in one process."""

    kind: str
    problem: str | None
    reachable: bool


class StatusDatabase(msgspec.Struct, frozen=True, kw_only=True):
    """The database, and how long it takes to answer."""

    name: str
    reachable: bool
    round_trip_seconds: float
    schema: str | None


class StatusSources(msgspec.Struct, frozen=True, kw_only=True):
    """How many sources there are, and those with a problem."""

    enabled: int
    paused: int
    problems: list[SourceProblem]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a run: an execution with what it was given, and what it has asked for."""

    attempt: int
    cost: float
    created_at: datetime
    error: Error | None
    execution_id: str
    finished_at: datetime | None
    input: Any
    kind: str
    number: int
    result: Any
    run_at: datetime
    started_at: datetime | None
    state: str
    version: int


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """A guard that has stopped matches of a trigger in the last 24 hours. ``root_id`` is the tree of the last one."""

    count: int
    last_at: datetime
    reason: str
    root_id: str
    trigger: str


class StoredCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many events the stored version matches, and how many of them the draft adds and leaves out."""

    added: int
    matched: int
    of: int
    removed: int
    version: int


class SuppressedCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many matches of a trigger were stopped, and why."""

    count: int
    reason: str | None
    trigger: str


class SuppressedFiring(msgspec.Struct, frozen=True, kw_only=True):
    """A suppressed match that was not resumed."""

    detail: str | Redacted | None
    event_id: str
    reason: str
    root_id: str
    time: datetime
    trigger: str


class SuppressedMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A match of an event of the execution that a guard stopped."""

    detail: str | Redacted | None
    event_id: str
    event_type: str
    limit: int | None
    reason: str | None
    trigger: str | None
    value: int | None
    version: int


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """Suppressed matches of a trigger in one tree, for one reason."""

    count: int
    first_at: datetime
    first_event_id: str
    last_at: datetime
    reason: str
    resumed: int
    root_id: str
    trigger: str | None
    trigger_id: str


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """A kill switch."""

    author: str | None
    name: str
    note: str | None
    on: bool
    time: datetime | None


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """A time that became an event."""

    event_id: str
    execution_id: str | None
    fire_time: datetime
    local_time: str
    origin: str
    reason: str | None
    written_at: datetime


class Ticks(msgspec.Struct, frozen=True, kw_only=True):
    """The newest ticks of a schedule, and how many times passed without one: a pause, a downtime, ``catch_up``."""

    items: list[Tick]
    missed: int
    note: str | None
    problem: str | None
    state: str


class TimelineExecution(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one execution."""

    function: str
    id: str
    state: str
    steps: list[TimelineStep]
    trigger: str | None
    version: int


class TimelineStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of an event or execution. Without a time, none is stored."""

    clock_difference_seconds: float
    difference_seconds: float | None
    since_seconds: float | None
    step: str
    time: datetime | None
    waited_for: str


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time went: since the event, or since an execution without one was created."""

    event_id: str | None
    event_type: str | None
    executions: list[TimelineExecution]
    steps: list[TimelineStep]


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token."""

    created_at: datetime
    expires_at: datetime
    id: str
    labels: list[str] | None
    last_used_at: datetime | None
    name: str
    prefix: str
    rights: list[str]
    role: str
    user: str


class TotalStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a function did since the asked time."""

    failures: int
    outcomes: dict[str, int]
    p50_queued_seconds: float | None
    p50_run_seconds: float | None
    p95_queued_seconds: float | None
    p95_run_seconds: float | None
    p99_queued_seconds: float | None
    p99_run_seconds: float | None
    runs: int


class TouchedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version that ran in the tree."""

    executions: int
    failures: int
    function: str
    version: int


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in an execution: the outline of what it caused, its attempts, and the functions that it called."""

    attempts: list[Attempt]
    outline: Outline
    spans: list[Span]


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a tree: what it has started and touched."""

    budget: Budget | None
    depth: int
    event_types: dict[str, int]
    events: int
    executions: int
    finished_at: datetime | None
    functions: list[TouchedVersion]
    root_id: str
    started_at: datetime | None
    states: dict[str, int]
    suppressed: list[SuppressedCount]
    triggers: list[str]


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger with its definition."""

    author: str
    breaker: Breaker | None
    created_at: datetime
    cycle: Cycle | None
    definition: dict[str, Any]
    failure: Failure | None
    fired: int | None = None
    fired_24h: int
    function: str
    id: str
    labels: list[str]
    last_at: datetime | None
    name: str
    note: str | None
    on: str
    origin: str
    sha256: str
    spark: list[int]
    state: str
    suppressed: int | None = None
    suppressed_24h: int
    updated_at: datetime
    version: int
    warnings: list[str]


class TriggerDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger with its definition, and the numbers of all of its decisions."""

    author: str
    created_at: datetime
    definition: dict[str, Any]
    fired: int
    labels: list[str]
    last_at: datetime | None
    name: str
    note: str | None
    state: str
    suppressed: int
    updated_at: datetime
    version: int


class TriggerFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger, and the function that it runs."""

    function: str
    name: str


class TriggerGraph(msgspec.Struct, frozen=True, kw_only=True):
    """Which trigger may start which: a step for each event that may do so, and every cycle as its steps."""

    cycles: list[list[CycleStep]]
    steps: list[CycleStep]
    triggers: list[TriggerFunction]


class TriggerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger in a list, with its numbers of the last 24 hours."""

    breaker: Breaker | None
    fired_24h: int
    function: str
    labels: list[str]
    last_at: datetime | None
    name: str
    note: str | None
    on: str
    spark: list[int]
    state: str
    suppressed_24h: int
    updated_at: datetime
    version: int


class TriggerVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a trigger."""

    author: str
    created_at: datetime
    definition: dict[str, Any]
    number: int
    sha256: str


class TriggeredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The event of a schedule that was fired by hand."""

    event_id: str


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user."""

    created_at: datetime
    labels: list[str] | None
    last_login_at: datetime | None
    name: str
    password_at: datetime | None
    rights: list[str]
    role: str
    state: str
    updated_at: datetime


class UserRow(msgspec.Struct, frozen=True, kw_only=True):
    """A user in a list."""

    created_at: datetime
    labels: list[str] | None
    last_login_at: datetime | None
    logins: int
    name: str
    password_at: datetime | None
    rights: list[str]
    role: str
    state: str
    tokens: int
    updated_at: datetime


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a trigger matches an event. ``reason`` is the first clause that does not hold."""

    failed_clauses: int
    matched: bool
    reason: str | Redacted | None


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The last check of the invariants: ``ok`` of ``of`` hold. ``checked_at`` is null before the first one."""

    checked_at: datetime | None
    of: int
    ok: int


class VersionChange(msgspec.Struct, frozen=True, kw_only=True):
    """The version and the one before, when both have run often enough to be compared."""

    failures: int
    p50_run_seconds: float | None
    p95_run_seconds: float | None
    previous: int
    previous_failures: int
    previous_p50_run_seconds: float | None
    previous_p95_run_seconds: float | None
    previous_runs: int
    runs: int
    version: int


class VersionRights(msgspec.Struct, frozen=True, kw_only=True):
    """What a version may do with all its rights, compared with the one that was active. A right is [kind, value]."""

    adds: list[list[str]]
    dependents: list[str]
    effect: str
    packages: list[str]
    removes: list[list[str]]
    replaces: bool
    widens: bool


class VersionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A version in a list."""

    author: str
    cause_execution_id: str | None
    created_at: datetime
    environment_error: str | None
    findings: list[Finding]
    mark: Mark | None
    number: int
    sha256: str
    source_sha256: str
    warnings: list[str]


class VersionStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a version did since the asked time."""

    failures: int
    outcomes: dict[str, int]
    p50_queued_seconds: float | None
    p50_run_seconds: float | None
    p95_queued_seconds: float | None
    p95_run_seconds: float | None
    p99_queued_seconds: float | None
    p99_run_seconds: float | None
    runs: int
    version: int


class VersionUse(msgspec.Struct, frozen=True, kw_only=True):
    """What executions of a range of versions have caused: those to look at after a wrong version."""

    events: int
    execution_ids: list[str]
    executions: int
    failed: int
    first: int
    first_at: datetime | None
    functions: dict[str, int]
    last: int
    last_at: datetime | None
    more: bool
    roots: int


class WholeTree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree as nested nodes: each has its ``kind``, ``id`` and ``children``, and the columns of its row."""

    budget: Budget | None
    cut: bool
    nodes: list[dict[str, Any]]
    root_id: str


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why an execution ran, waits or failed. ``sentences`` say what to do, too."""

    event_id: str | None
    parent_id: str | None
    sentences: list[str]
    suppressed: list[SuppressedMatch]
    trigger: str | None
    waits_for: list[str]


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is alive."""

    id: str
    isolation: str
    seen_at: datetime
    slots: int
    started_at: datetime


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """The workers that are alive: their slots, and how many by isolation tier."""

    alive: int
    busy: int
    slots: int
    tiers: dict[str, int]

"""Rows of functions and their versions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Number, Row


class FunctionRow(Row):
    """A function in a list, with its numbers of the last 24 hours."""

    name: str
    state: Literal["enabled", "disabled"]
    active: int | None
    latest: int
    labels: list[str]
    log_policy: str
    environment_error: str | None
    pending_grants: list[str]
    triggers: list[str]
    updated_at: Instant
    runs_24h: int
    failures_24h: int
    p95_seconds: float | None
    spark: list[int] = Field(description="Executions in each of the last 24 hours, oldest first.")
    failure_spark: list[int] = Field(description="Those of them that failed, timed out, or are dead.")


class Mark(Row):
    """What is known about a version from its use."""

    mark: Literal["good", "bad"]
    reason: str
    by: str
    at: Instant


class Finding(Row):
    """Advice about a source. ``line`` counts from 1, ``column`` from 0; a line of 0 is no place."""

    kind: str
    severity: str
    line: int
    column: int
    message: str
    detail: str = ""


class VersionRow(Row):
    """A version in a list."""

    number: int
    sha256: str
    source_sha256: str
    author: str
    created_at: Instant
    cause_execution_id: str | None
    mark: Mark | None
    warnings: list[str]
    findings: list[Finding]
    environment_error: str | None


class Version(Row):
    """A version with its content."""

    name: str
    number: int
    sha256: str
    source_sha256: str
    source: str
    modules: dict[str, str] = Field(description="The hashes of the modules of one's own, by dotted name.")
    is_async: bool
    parameters: list[dict[str, Any]]
    input_schema: dict[str, Any] | bool | None
    output_schema: dict[str, Any] | bool | None
    declared: dict[str, bool]
    imports: list[Any]
    requirements: list[str]
    environment: str | None
    environment_error: str | None
    dependencies: list[dict[str, Any]]
    secrets: list[str]
    permissions: list[str]
    grants: dict[str, Any]
    reuse: bool
    compensate: str | None
    metadata: dict[str, Any]
    output_patterns: dict[str, Any]
    limits: dict[str, Any]
    warnings: list[str]
    findings: list[Finding]
    author: str
    created_at: Instant
    cause_execution_id: str | None
    mark: Mark | None
    pending_grants: list[str]


class Function(Version):
    """A function with its active version, or its newest one while none is active."""

    state: Literal["enabled", "disabled"]
    active: int | None
    latest: int
    labels: list[str]
    log_policy: str = Field(description="Which log lines are kept: full, summary, sampled:SHARE or off.")
    triggers: list[str]
    updated_at: Instant


class SavedFunction(Function):
    """What a save has made. ``created`` is False for content that was stored already."""

    created: bool
    inactive_reason: str | None
    contract: list[BrokenContract]


class BrokenContract(Row):
    """A problem that a trigger gets by a version. ``certain``: a part of the trigger can never work then."""

    trigger: str
    what: str
    why: str
    try_: str = Field(default="", serialization_alias="try", validation_alias="try")
    certain: bool


class Fault(Row):
    """Why a source cannot be saved, with its place when it has one. ``line`` counts from 1, ``column`` from 0."""

    what: str
    why: str
    try_: str = Field(default="", serialization_alias="try", validation_alias="try")
    line: int | None
    column: int | None


class Check(Row):
    """What a save would make; everything else is empty when there is a ``problem``."""

    problem: Fault | None
    number: int | None = Field(default=None, description="The number that the version would have.")
    changed: list[str] = []
    findings: list[Finding] = []
    warnings: list[str] = []
    inactive_reason: str | None = None
    parameters: list[dict[str, Any]] = []
    input_schema: dict[str, Any] | bool | None = None
    output_schema: dict[str, Any] | bool | None = None
    imports: list[Any] = []
    packages_known: bool = Field(default=True, description="False: a save would install packages first.")
    dependents: list[Dependent] = []
    contract: list[BrokenContract] = []


class Dependent(Row):
    """A function or trigger that uses a function."""

    kind: Literal["function", "trigger"]
    name: str


class NameUse(Row):
    """What uses the name of a function: its kind and name, or the number of them."""

    kind: Literal["function", "trigger", "agent", "run", "execution", "use"]
    name: str
    how: str


class RenameReport(Row):
    """What a rename does, or would do: ``uses`` are refused without an alias, ``obstacles`` always."""

    former: str
    name: str
    version: int
    versions: int
    alias_version: int | None
    uses: list[NameUse]
    obstacles: list[str]
    is_refused: bool


class ActivationRow(Row):
    """A time in which a version was active. The current one has no end."""

    version: int
    previous: int | None
    reason: str
    author: str
    cause_execution_id: str | None
    at: Instant
    ended_at: Instant | None
    ended_by: str | None
    mark: Mark | None


class Difference(Row):
    """Two versions side by side. ``fields`` are those that differ, beside the source; ``modules`` are texts."""

    a: DiffSide
    b: DiffSide
    unified: str
    fields: dict[str, dict[str, Any]]
    modules: dict[str, dict[str, str | None]]


class DiffSide(Row):
    """One side of a difference."""

    number: int
    author: str
    created_at: Instant
    sha256: str
    source: str


class Numbers(Row):
    """What happened in some time. Times are percentiles."""

    runs: int
    failures: int
    p50_queued_seconds: float | None
    p95_queued_seconds: float | None
    p99_queued_seconds: float | None
    p50_run_seconds: float | None
    p95_run_seconds: float | None
    p99_run_seconds: float | None


class Interval(Numbers):
    """A minute or an hour of a function."""

    time: Instant


class TotalStats(Numbers):
    """What a function did since the asked time."""

    outcomes: dict[str, int]


class VersionStats(TotalStats):
    """What a version did since the asked time."""

    version: int


class VersionChange(Row):
    """The version and the one before, when both have run often enough to be compared."""

    version: int
    previous: int
    runs: int
    previous_runs: int
    failures: int
    previous_failures: int
    p50_run_seconds: float | None
    previous_p50_run_seconds: float | None
    p95_run_seconds: float | None
    previous_p95_run_seconds: float | None


class ErrorCount(Row):
    """How many of the newest failed attempts had an error of this type."""

    type: str
    count: int


class RecentRuns(Row):
    """The newest executions of the version that have ended, at most 500.

    ``retried`` are those that ran again after a failure, ``helped`` those of them that succeeded. The seconds of an
    attempt do not contain its waiting for child executions.
    """

    executions: int
    retried: int
    helped: int
    seconds: float
    waited_seconds: float
    p99_attempt_seconds: float | None
    errors: list[ErrorCount]


class CallStats(Row):
    """Calls of another function inside these executions; ``share`` is the part of their time that it took."""

    function: str
    calls: int
    failed: int
    seconds: float
    mean_seconds: float
    share: float


class Advice(Row):
    """What the numbers say, with the figures behind it, and what to do."""

    code: str
    says: str
    figures: dict[str, float | int | str]
    try_: str = Field(serialization_alias="try", validation_alias="try")


class FunctionStats(Row):
    """A function over time: by minute up to three hours, else by hour.

    ``recent``, ``calls``, ``limits`` and ``change`` are about ``version``: the active one, or the newest while none is.
    """

    name: str
    version: int
    since: Instant
    interval_seconds: int
    series: list[Interval]
    versions: list[VersionStats]
    total: TotalStats
    change: VersionChange | None
    limits: dict[str, Any]
    recent: RecentRuns
    calls: list[CallStats]
    advice: list[Advice]


class VersionUse(Row):
    """What executions of a range of versions have caused: those to look at after a wrong version."""

    first: int
    last: int
    executions: int
    more: bool = Field(description="There are more executions than were counted.")
    failed: int
    roots: int
    events: int
    functions: dict[str, int]
    first_at: Instant | None
    last_at: Instant | None
    execution_ids: list[str] = Field(description="The newest of them.")


class FunctionDraft(Body):
    """The fields of a function; those that are left out keep their values."""

    source: str | None = None
    imports: list[Any] | None = None
    dependencies: list[Any] | None = None
    secrets: list[str] | None = None
    permissions: list[str] | None = None
    metadata: dict[str, Any] | None = None
    output_patterns: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None
    requirements: list[str] | None = None
    hosts: list[str] | None = None
    models: list[str] | None = None
    files: dict[str, list[str]] | None = None
    subprocess: bool | None = None
    reuse: bool | None = None
    compensate: str | None = None
    input_parameters: Any = None
    output_parameters: Any = None
    validate_output: bool | None = None
    modules: dict[str, str] | None = None

    def declared(self) -> dict[str, Any]:
        """The fields that were given."""
        given = {
            name: getattr(self, name) for name in FunctionDraft.model_fields if name in self.model_fields_set
        }
        if given.get("source", "") is None:
            del given["source"]
        return given


class FunctionSave(FunctionDraft):
    """A save of a function."""

    activate: bool = True
    force: bool = Field(
        default=False, description="Activate it even if its import fails or it is marked bad."
    )
    renew: bool = Field(default=False, description="Take the newest packages that the requirements allow.")


class Activate(Body):
    """The version to make active."""

    version: Number
    force: bool = False


class Rollback(Body):
    """Where to go back to; without ``to``, to the version before."""

    to: Number | None = None
    from_version: Number | None = None
    force: bool = False
    keep_mark: bool = False


class Rename(Body):
    """The new name of a function."""

    to: str = Field(max_length=200)
    alias: bool = Field(
        default=False, description="Let the former name call the new one, so that what uses it goes on."
    )
    dry_run: bool = Field(default=False, description="Only report; write nothing.")


class MarkVersion(Body):
    """A mark for a version."""

    version: Number
    mark: Literal["good", "bad"]
    reason: str = Field(min_length=1, max_length=2000)


class LabelChange(Body):
    """Labels to add and to remove."""

    add: list[str] = []
    remove: list[str] = []


class Labels(Row):
    """The labels after a change."""

    labels: list[str]


class LogPolicyChange(Body):
    """Which log lines are to be kept: ``full``, ``summary``, ``sampled``, ``sampled:0.05`` or ``off``."""

    log_policy: str = Field(max_length=32)


class LogPolicy(Row):
    """The policy after a change."""

    log_policy: str

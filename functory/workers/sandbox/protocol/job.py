"""Input and output of a run: plain, frozen records that both sides of the fork read.

The engine builds a ``Job``, the runner returns an ``Outcome``. The records have no behaviour, and this module
imports little more than msgspec, because the child loads it too. Default values are left out on the wire:
both sides are the same program.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from functory.workers.sandbox.protocol.plan import Bounds

Status = Literal[
    "succeeded",
    "failed",
    "timed_out",
    "out_of_memory",
    "invalid_input",
    "output_too_large",
    "not_serializable",
    "scratch_full",
    "protocol_error",
    "crashed",
    "sandbox_error",
    "killed",
]


class Code(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One immutable version of a function, with the exact versions that its bare names mean.

    ``dependencies`` maps a bare name to a key ``name@version`` of ``Job.codes``. ``imports`` are import
    statements (``"json"``, ``"numpy as np"``, ``"from os import path"``) done in its namespace first. ``modules`` are
    the texts of its own modules by dotted name (``shop.money``, ``shop.__init__``).
    """

    name: str
    version: int
    source: str
    is_async: bool = False
    dependencies: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    modules: dict[str, str] = {}

    @property
    def key(self) -> str:
        """Name of this version in dependencies and frames: ``name@version``."""
        return f"{self.name}@{self.version}"


class ChildLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of one execution, all of them enforced. Sizes in bytes, times in seconds."""

    wall_seconds: float = 30.0
    """Time by the clock, without the time spent waiting for child executions."""
    total_seconds: float = 3600.0
    """Time by the clock, waiting included."""
    cpu_seconds: float = 10.0
    """CPU time of the child, rounded up to whole seconds by the kernel's limit."""
    memory_bytes: int = 512 * 1024 * 1024
    """Address space (RLIMIT_AS), and real memory where control groups can be written."""
    threads: int = 16
    processes: int = 1
    """More than one only with the grant to start programs."""
    scratch_bytes: int = 16 * 1024 * 1024
    """Size of its private folder of temporary files, and of any one file that it writes."""
    scratch_files: int = 4096
    open_files: int = 64
    result_bytes: int = 1_048_576
    call_bytes: int = 1_048_576
    """One request to the engine, with its arguments."""
    log_bytes: int = 1_048_576
    """Output that is kept; what comes after is counted and dropped."""
    log_kill_bytes: int = 8_388_608
    """Output at which the execution is ended: it is not kept, and reading it costs the worker."""
    log_lines: int = 10_000
    """Rows that are kept: a megabyte of empty lines would be a million rows."""
    calls: int = 1000
    spans: int = 1000
    span_bytes: int = 65_536
    """One recorded input or output; a larger one is cut to a short repr."""
    spans_bytes: int = 4_194_304
    """Total of all recorded inputs and outputs."""
    traffic_bytes: int = 256 * 1024 * 1024
    """Sent to and received from granted hosts, together."""

    def bounds(self, reusable: bool = False) -> Bounds:
        """Return the limits that the kernel enforces, from before the child gets its task."""
        return Bounds(
            cpu_seconds=self.cpu_seconds,
            memory_bytes=self.memory_bytes,
            file_bytes=self.scratch_bytes,
            open_files=self.open_files,
            threads=self.threads,
            processes=self.processes,
            scratch_bytes=self.scratch_bytes,
            scratch_files=self.scratch_files,
            reusable=reusable,
        )


class ChildGrants(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Access that the sandbox allows one execution."""

    hosts: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    subprocess: bool = False


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of one execution, complete: the child can request nothing that is not in here.

    ``codes`` holds the entry and all its transitive dependencies by key; ``input`` maps parameter names to
    JSON values; ``deadline`` (Unix seconds) is the time when the root stops waiting; ``seed`` makes
    ``random`` differ between executions and agree between replays.
    """

    execution_id: str
    attempt: int = 1
    function: str
    version: int
    root_id: str
    parent_execution_id: str | None = None
    triggered_by: str | None = None
    depth: int = 0
    deadline: float | None = None
    entry: str
    codes: dict[str, Code]
    input: dict[str, Any] = {}
    limits: ChildLimits = ChildLimits()
    seed: int = 0
    packages: tuple[str, ...] = ()
    """``site-packages`` folders of its environments, in the order of the search."""
    preload: tuple[str, ...] = ()
    """Modules of them that the zygote imports once for all executions."""
    trust_domain: str = ""
    """Executions of different trust domains never share a zygote."""
    grants: ChildGrants = ChildGrants()
    lineage: dict[str, str] = {}
    """Headers that its HTTP requests carry: they name it as their cause. They hold nothing that is secret."""
    reuse: bool = False
    """Run it in a process that has run this version before, where there is one."""
    tidy: bool = False
    """With ``reuse``: use the process again only if the run has left it as it was. Without: whatever it has left."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a dependency inside an execution; ``parent_seq`` is the call that made it, or None."""

    seq: int
    parent_seq: int | None
    function: str
    version: int
    input: Any
    output: Any = None
    error: dict[str, Any] | None = None
    offset_seconds: float
    duration_seconds: float
    input_truncated: bool = False
    output_truncated: bool = False


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """One line of output (``stdout``, ``stderr``) or one record of ``functory.log`` (``log``)."""

    seq: int
    stream: Literal["stdout", "stderr", "log"]
    level: str | None
    text: str
    offset_seconds: float


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run. ``status`` alone decides; ``result`` counts only when it is ``succeeded``.

    ``error`` is ``{type, message, traceback, frames: [{function, version, line, code}]}``. ``signal`` is the
    signal that ended the child by itself, ``kill_reason`` the reason why the worker ended it.
    ``result_bytes`` is the size of the frame that brought the result.
    ``waited_seconds`` is the part of ``duration_seconds`` spent waiting for child executions.
    ``written_files`` are granted files that the child reported to have opened for writing.
    ``error_types`` are the classes of the exception as ``module:name``; it may be ``final``, or ask for a retry after
    ``retry_after`` seconds.
    """

    status: Status
    result: Any = None
    warnings: list[str] = []
    error: dict[str, Any] | None = None
    signal: int | None = None
    kill_reason: str | None = None
    spans: list[Span] = []
    logs: list[Log] = []
    error_types: list[str] = []
    final: bool = False
    retry_after: float | None = None
    written_files: list[bytes] = []
    result_bytes: int = 0
    duration_seconds: float = 0.0
    waited_seconds: float = 0.0
    pid: int | None = None


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """Input and output of a function as JSON Schema. ``output_schema`` is None when not annotated."""

    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    problems: list[str] = []
    # Why executing the source failed, with the error's type first; None when it did not, or for want of a right.
    import_error: str | None = None
    # Parameters and results whose hints have no JSON form.
    unconvertible: list[str] = []

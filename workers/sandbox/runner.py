"""The door to running function code: ``Runner.run`` for an execution, ``Runner.inspect`` for a signature.

The executor of a worker keeps one ``Runner`` and calls it from as many threads as it has slots. The first
use in each process starts a zygote (see ``zygote``); a copy of the worker made by fork starts one of its
own. Every run gives an ``Outcome``; it raises only when the runner is closed.

    with Runner() as runner:
        outcome = runner.run(job, host)
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import msgspec
import structlog

from engine.errors import FunctoryError, Unavailable
from workers.sandbox import confine
from workers.sandbox.control import Control
from workers.sandbox.host import Host
from workers.sandbox.job import Job, Limits, Outcome, Signature, Status
from workers.sandbox.launcher import Launcher
from workers.sandbox.logbook import harmless
from workers.sandbox.protocol import (
    ENVELOPE_BYTES,
    Call,
    Described,
    ErrorInfo,
    Failed,
    Finished,
    FromGuest,
    Gather,
    Inspect,
    LogRecord,
    ProtocolError,
    Request,
    SpanClosed,
    SpanOpened,
    Start,
    frame_for_guest,
)
from workers.sandbox.requests import Requests
from workers.sandbox.spanbook import Spanbook
from workers.sandbox.supervisor import Supervisor, Verdict, outcome_error

_log = structlog.get_logger(__name__)
_CLOSE_SECONDS = 5.0  # for the zygote to end its children; they are killed, so it is a matter of milliseconds
_STARTS = 2  # a zygote found dead before it forked has run nothing: one more try
_SCHEMA_BYTES = 1_048_576
_FAILURES: dict[str, Status] = {"code": "failed", "output": "output_too_large", "setup": "crashed"}


class Runner:
    """Runs jobs in children of a zygote. Safe to use from many threads and after a fork.

    ``monotonic`` is the clock that limits and durations are measured with, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._launcher: Launcher | None = None
        self._closed = False
        self._warned = False
        _runners.add(self)

    @property
    def isolation(self) -> str:
        """The tier of confinement that children run under; ``none`` means that there is none."""
        return confine.TIER

    @property
    def zygote_pid(self) -> int | None:
        """The pid of the living zygote, None before the first use."""
        launcher = self._launcher
        return launcher.pid if launcher is not None and launcher.alive() else None

    def start(self) -> None:
        """Start the zygote now instead of at the first run; ``Unavailable`` when it cannot start."""
        self._living()

    def close(self) -> None:
        """End the zygote and with it every run in progress; afterwards the runner refuses."""
        with self._lock:
            self._closed = True
            launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.close(_CLOSE_SECONDS)

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, job: Job, host: Host, control: Control | None = None) -> Outcome:
        """Run one attempt and wait for its end; ``control`` lets other threads end it.

        Raises ``Unavailable`` only when the runner is closed.
        """
        try:
            first = frame_for_guest(Start(job=job))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return _unsent("failed", "Invalid", f"the input cannot be sent to the function: {error}")
        control = control or Control()
        try:
            for _ in range(_STARTS):
                outcome = _Run(job, host, self._living(), self._monotonic, control).outcome(first)
                if outcome is not None:
                    return outcome
        except Unavailable as error:
            if self._closed:
                raise
            return _unsent("crashed", "Unavailable", str(error))
        finally:
            control.ended.set()
        return _unsent("crashed", "ZygoteLost", "the process that starts executions keeps ending")

    def inspect(
        self, source: str, name: str, timeout: float = 10.0, *, imports: Sequence[str] = ()
    ) -> Signature:
        """The signature of function ``name`` in ``source``, found by executing the source in a child.

        Never raises for what the source does: what could not be found out is in ``problems``, and the
        schema of that parameter is ``{}``. ``timeout`` is in seconds.
        """
        limits = Limits(
            wall_seconds=timeout, total_seconds=timeout, cpu_seconds=timeout, result_bytes=_SCHEMA_BYTES
        )
        found: list[Described] = []

        def on_frame(frame: FromGuest, size: int) -> Verdict | None:
            if isinstance(frame, Described) and size <= _SCHEMA_BYTES:
                found[:] = [frame]
                return Verdict("succeeded") if frame.final else None
            if isinstance(frame, Failed):
                return Verdict("failed", harmless(frame.error.message))
            raise ProtocolError(f"{type(frame).__name__} has no place in an inspection")

        verdict: Verdict | None = None
        try:
            first = frame_for_guest(Inspect(source=source, name=name, imports=list(imports), limits=limits))
            for _ in range(_STARTS):
                supervisor = Supervisor(self._living(), limits, self._monotonic, on_frame, Control())
                verdict = supervisor.supervise(inspecting=True, first=first)
                if verdict is not None:
                    break
        except (FunctoryError, TypeError, ValueError) as error:
            verdict = Verdict("crashed", str(error))
        described = (
            found[0]
            if found
            else Described(input_schema={"type": "object"}, output_schema=None, problems=[], final=False)
        )
        problems = [harmless(text) for text in described.problems]
        if verdict is None or verdict.status != "succeeded":
            message = verdict.message if verdict else "no process for it"
            problems.append(f"{name}: its type hints could not be evaluated: {message}")
        return Signature(
            input_schema=described.input_schema, output_schema=described.output_schema, problems=problems
        )

    def _living(self) -> Launcher:
        with self._lock:
            if self._closed:
                raise Unavailable(
                    "the runner is closed", "the worker is shutting down", "start another worker"
                )
            launcher = self._launcher
            if launcher is not None and not launcher.alive():
                launcher.discard()
                _log.warning("zygote_restarted", pid=launcher.pid)
                launcher = None
            if launcher is None:
                if not self._warned and self.isolation == "none":
                    self._warned = True
                    _log.warning(
                        "ISOLATION IS OFF",
                        why="this version runs functions in processes of their own but does not confine them",
                        consequence="a function can read and write whatever this user can",
                        advice="run only functions that you trust, as a user without rights",
                    )
                launcher = self._launcher = Launcher()
            return launcher

    def after_fork(self) -> None:
        """In the child of a fork: forget the zygote of the parent."""
        self._lock = threading.Lock()
        if self._launcher is not None:
            self._launcher.forsake()
            self._launcher = None


_runners: weakref.WeakSet[Runner] = weakref.WeakSet()


def _after_fork() -> None:
    for runner in list(_runners):
        runner.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class _Run:
    """What one run gathers while its supervisor watches the child."""

    def __init__(
        self, job: Job, host: Host, launcher: Launcher, monotonic: Callable[[], float], control: Control
    ) -> None:
        self._job = job
        self._spans = Spanbook(job)
        self._requests = Requests(job, host, self._deliver)
        self._answered: deque[tuple[Request, bytes]] = deque()
        self._last: Finished | Failed | None = None
        self._supervisor = Supervisor(
            launcher, job.limits, monotonic, self._on_frame, control, on_wake=self._on_wake
        )

    def outcome(self, first: bytes) -> Outcome | None:
        """Run to the end; None when nothing was started."""
        supervisor = self._supervisor
        try:
            verdict = supervisor.supervise(inspecting=False, first=first)
        finally:
            self._requests.close()
        if verdict is None:
            return None
        fields: dict[str, Any] = {}
        if isinstance(self._last, Finished) and verdict.status == "succeeded":
            fields = {
                "result": self._last.value,
                "result_kind": self._last.kind,
                "warnings": [harmless(text) for text in self._last.warnings],
            }
        elif isinstance(self._last, Failed):
            fields = {"error": _error(self._last.error)}
        else:
            fields = {"error": outcome_error(verdict)}
        return Outcome(
            status=verdict.status,
            signal=verdict.signal,
            kill_reason=verdict.kill_reason,
            spans=self._spans.spans(supervisor.duration),
            logs=supervisor.logbook.close(supervisor.duration),
            duration_seconds=supervisor.duration,
            waited_seconds=supervisor.waited,
            pid=supervisor.pid,
            **fields,
        )

    def _on_frame(self, frame: FromGuest, size: int) -> Verdict | None:
        supervisor, limits = self._supervisor, self._job.limits
        match frame:
            case Request():
                if size > limits.call_bytes + ENVELOPE_BYTES:
                    raise ProtocolError(f"a request of {size} bytes")
                self._requests.accept(frame)
                if isinstance(frame, Call | Gather):
                    supervisor.hold_clock()
            case LogRecord():
                supervisor.logbook.record(harmless(frame.level), frame.text, size, supervisor.offset)
            case SpanOpened():
                self._spans.open(frame, size)
            case SpanClosed():
                self._spans.close(frame, size)
            case Finished():
                if size > limits.result_bytes + 2 * ENVELOPE_BYTES:
                    return Verdict(
                        "output_too_large",
                        f"its result has {size} bytes; at most {limits.result_bytes} are stored",
                        type="OutputTooLarge",
                    )
                self._last = frame
                return Verdict("succeeded")
            case Failed():
                self._last = frame
                return Verdict(_FAILURES[frame.kind])
            case _:
                raise ProtocolError(f"{type(frame).__name__} has no place in an execution")
        return None

    def _deliver(self, request: Request, reply: bytes) -> None:
        self._answered.append((request, reply))
        self._supervisor.wake.set()

    def _on_wake(self) -> None:
        while self._answered:
            request, reply = self._answered.popleft()
            self._requests.in_flight -= 1
            if isinstance(request, Call | Gather):
                self._supervisor.resume_clock()
            self._supervisor.send(reply)


def _error(info: ErrorInfo) -> dict[str, Any]:
    error = msgspec.to_builtins(info)
    for field in ("type", "message", "traceback"):
        error[field] = harmless(error[field])
    for line in error["frames"]:
        line["function"], line["code"] = harmless(line["function"]), harmless(line["code"])
    return error


def _unsent(status: Status, kind: str, message: str) -> Outcome:
    return Outcome(status=status, error=outcome_error(Verdict(status, message, type=kind)))

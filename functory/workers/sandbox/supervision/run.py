"""One run of a job in a child: turns its frames into an ``Outcome``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from functory.engine.serialization.control_characters import escape_control_characters
from functory.workers.sandbox.network.connection_broker import Traffic
from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.frames import (
    ENVELOPE_BYTES,
    MAX_WRITTEN_FILES,
    Call,
    ErrorInfo,
    Failed,
    FileWritten,
    Finished,
    FromGuest,
    Gather,
    LogRecord,
    ProtocolError,
    Request,
    SpanClosed,
    SpanOpened,
)
from functory.workers.sandbox.protocol.host import Host
from functory.workers.sandbox.protocol.job import Job, Log, Outcome, Status
from functory.workers.sandbox.supervision.request_handler import Answer, RequestHandler
from functory.workers.sandbox.supervision.spans import SpanCollector
from functory.workers.sandbox.supervision.supervisor import Supervisor
from functory.workers.sandbox.supervision.verdict import Verdict, outcome_error

_FAILURES: dict[str, Status] = {
    "setup": "sandbox_error",
    "input": "invalid_input",
    "code": "failed",
    "output": "output_too_large",
    "result": "not_serializable",
}


class Run:
    """Collects the data of one run while its supervisor watches the child."""

    def __init__(
        self,
        job: Job,
        host: Host,
        child: Child,
        monotonic: Callable[[], float],
        control: Control,
        on_task_started: Callable[[Child], None],
    ) -> None:
        self._job = job
        self._child = child
        self._spans = SpanCollector(job)
        self._requests = RequestHandler(job, host, self._on_answer)
        self._answered: deque[Answer] = deque()
        self._held: dict[int, int] = {}
        self._written_files: dict[bytes, None] = {}
        self._last: Finished | Failed | None = None
        self._supervisor = Supervisor(
            child,
            job.limits,
            monotonic,
            self._on_frame,
            control,
            on_wake=self._on_wake,
            on_task_started=lambda: on_task_started(child),
            make_filter=host.output_filter,
        )

    @property
    def child_reported_end(self) -> bool:
        """True if the child itself reported its end."""
        return self._supervisor.child_reported_end

    @property
    def is_reusable(self) -> bool:
        """True if nothing of this run is left in the child's channel, so that another run may follow."""
        return self.child_reported_end and self._requests.in_flight == 0

    def outcome(self, first_frame: bytes) -> Outcome | None:
        """Run to the end; None when the child was gone before it started its task."""
        supervisor = self._supervisor
        try:
            verdict = supervisor.supervise(first_frame)
        finally:
            self._requests.close()
        if verdict is None:
            return None
        fields: dict[str, Any] = {}
        if isinstance(self._last, Finished) and verdict.status == "succeeded":
            fields = {
                "result": self._last.value,
                "warnings": [escape_control_characters(text) for text in self._last.warnings],
            }
        elif isinstance(self._last, Failed):
            fields = {"error": self._error(self._last)}
        else:
            fields = {"error": outcome_error(verdict)}
        return Outcome(
            status=verdict.status,
            signal=verdict.signal,
            kill_reason=verdict.kill_reason,
            spans=self._spans.spans(supervisor.duration),
            logs=supervisor.log_collector.close(supervisor.duration),
            written_files=list(self._written_files),
            duration_seconds=supervisor.duration,
            waited_seconds=supervisor.waited,
            pid=self._child.pid,
            **fields,
        )

    def _error(self, failed: Failed) -> dict[str, Any]:
        error = _error(failed.error)
        if failed.kind == "setup":
            error["message"] = (
                f"it could not be confined and was not started: {error['type']}: {error['message']}\n"
                "try: functory doctor"
            )
            error["type"] = "SandboxError"
        if failed.kind == "code" and error["type"] == "MemoryError":
            most = self._job.limits.memory_bytes
            error["message"] = (
                f"{error['message']}\nit may use {most} bytes of memory".lstrip()
                + "\ntry: work on smaller pieces, or raise memory_bytes"
            )
        return error

    def _on_frame(self, frame: FromGuest, size: int, memory: int) -> Verdict | None:
        supervisor, limits = self._supervisor, self._job.limits
        match frame:
            case Request():
                if size > limits.call_bytes + ENVELOPE_BYTES:
                    raise ProtocolError(f"a request of {size} bytes")
                self._requests.accept(frame)
                self._held[frame.id] = memory
                supervisor.cost.hold(memory)
                if isinstance(frame, Call | Gather):
                    supervisor.pause_clock()
            case LogRecord():
                supervisor.log_collector.record(
                    escape_control_characters(frame.level), frame.text, size, supervisor.offset
                )
            case FileWritten():
                self._note(frame.path)
            case SpanOpened():
                self._spans.open(frame, size)
                supervisor.cost.hold(memory)
            case SpanClosed():
                self._spans.close(frame, size)
                supervisor.cost.hold(memory)
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
                if frame.kind == "setup" and supervisor.task_started:
                    # The text of such a frame is for the operator: only our own code may write it, before user code.
                    raise ProtocolError(
                        "the confinement was done before the task started, and cannot fail now"
                    )
                self._last = frame
                if frame.kind == "code" and frame.error.type == "MemoryError":
                    return Verdict("out_of_memory")
                return Verdict(_FAILURES[frame.kind])
            case _:
                raise ProtocolError(f"{type(frame).__name__} has no place in an execution")
        return None

    def _note(self, path: str) -> None:
        try:
            if len(self._written_files) < MAX_WRITTEN_FILES:
                self._written_files[path.encode("latin-1")] = None
        except UnicodeEncodeError:
            raise ProtocolError("a path is no bytes") from None

    def _on_answer(self, answer: Answer) -> None:
        self._answered.append(answer)
        self._supervisor.wake.set()

    def _on_wake(self) -> None:
        while self._answered:
            answer = self._answered.popleft()
            id_ = answer.request.id
            if id_ in self._held:
                self._supervisor.cost.release(self._held.pop(id_))
                if isinstance(answer.request, Call | Gather):
                    # Its thread has waited, and polled meanwhile: that is no cost of what was sent.
                    self._supervisor.resume_clock()
                else:
                    self._supervisor.cost.answered(answer.cpu_seconds)
            self._supervisor.send(answer.frame, partial(self._requests.finish, answer))


def _error(info: ErrorInfo) -> dict[str, Any]:
    error = msgspec.to_builtins(info)
    for field in ("type", "message", "traceback"):
        error[field] = escape_control_characters(error[field])
    for line in error["frames"]:
        line["function"], line["code"] = (
            escape_control_characters(line["function"]),
            escape_control_characters(line["code"]),
        )
    return error


def with_traffic(outcome: Outcome, traffic: Traffic, most: int) -> Outcome:
    """Return the outcome with refused and closed connections as lines of its log."""
    messages = [
        f"the connection to {host}:{port} was refused: {reason}" for host, port, reason in traffic.refused
    ]
    if traffic.exhausted:
        messages.append(f"its connections were closed: they had carried more than {most} bytes")
    if traffic.violation:
        message = f"it sent the broker of connections something that is not a request: {traffic.violation}"
        verdict = Verdict("protocol_error", message, "protocol_error", type="ProtocolError")
        outcome = msgspec.structs.replace(
            outcome, status=verdict.status, result=None, error=outcome_error(verdict)
        )
    lines = [
        Log(
            seq=len(outcome.logs) + number,
            stream="log",
            level="warning",
            text=escape_control_characters(text),
            offset_seconds=outcome.duration_seconds,
        )
        for number, text in enumerate(messages, 1)
    ]
    return msgspec.structs.replace(outcome, logs=[*outcome.logs, *lines]) if lines else outcome

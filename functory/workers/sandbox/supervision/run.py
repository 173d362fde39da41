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
    Failed,
    FileWritten,
    Finished,
    FromGuest,
    Gather,
    Llm,
    LogRecord,
    Memory,
    ProtocolError,
    Request,
    SpanClosed,
    SpanOpened,
    Tools,
)
from functory.workers.sandbox.protocol.host import Host
from functory.workers.sandbox.protocol.job import Job, Log, Outcome, Span
from functory.workers.sandbox.supervision.request_handler import Answer, RequestHandler
from functory.workers.sandbox.supervision.result_frame import TOO_LARGE, failure_fields, verdict_of
from functory.workers.sandbox.supervision.spans import SpanCollector
from functory.workers.sandbox.supervision.supervisor import Supervisor
from functory.workers.sandbox.supervision.verdict import Verdict, outcome_error

# Requests whose answer takes the time of others: the wall clock of the run stands still meanwhile.
# A search in memories or tools asks a model for the vector of its query.
_WAITS = (Call, Gather, Llm, Memory, Tools)


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
        self._last_bytes = 0
        self._talked = False
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
        control.output = self

    def lines(self, first: int, most: int) -> list[Log]:
        """Return log lines so far (``RunOutput``)."""
        return self._supervisor.log_collector.logs[first : first + most]

    def closed_spans(self, first: int, most: int) -> list[Span]:
        """Return ended spans so far (``RunOutput``)."""
        return self._spans.closed(first, most, self._supervisor.offset)

    @property
    def child_reported_end(self) -> bool:
        """True if the child itself reported its end."""
        return self._supervisor.child_reported_end

    @property
    def is_reusable(self) -> bool:
        """True if nothing of this run is left in the child or its channel, so that another run may follow."""
        left = isinstance(self._last, Finished) and self._last.leftover
        return self.child_reported_end and self._requests.in_flight == 0 and not left

    @property
    def seconds(self) -> float:
        """The time that the child says it took; all of it where the child says nothing."""
        return (self._last.seconds if self._last is not None else 0.0) or self._supervisor.duration

    @property
    def talked(self) -> bool:
        """True if it has sent or printed anything but its result."""
        return self._talked or self._supervisor.log_collector.total > 0

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
                "result_bytes": self._last_bytes,
                "warnings": [escape_control_characters(text) for text in self._last.warnings],
            }
        elif isinstance(self._last, Failed):
            fields = failure_fields(self._last, self._job.limits)
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

    def _on_frame(self, frame: FromGuest, size: int, memory: int) -> Verdict | None:
        supervisor, limits = self._supervisor, self._job.limits
        self._talked |= not isinstance(frame, Finished | Failed)
        match frame:
            case Request():
                if size > limits.call_bytes + ENVELOPE_BYTES:
                    raise ProtocolError(f"a request of {size} bytes")
                self._child.makes_requests = True
                self._requests.accept(frame)
                self._held[frame.id] = memory
                supervisor.cost.hold(memory)
                if isinstance(frame, _WAITS):
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
            case Finished() | Failed():
                if isinstance(frame, Failed) and frame.kind == "setup" and supervisor.task_started:
                    # The text of such a frame is for the operator: only our own code may write it, before user code.
                    raise ProtocolError(
                        "the confinement was done before the task started, and cannot fail now"
                    )
                verdict = verdict_of(frame, size, limits)
                if verdict.type != TOO_LARGE:
                    self._last, self._last_bytes = frame, size
                return verdict
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
                if isinstance(answer.request, _WAITS):
                    # Its thread has waited, and polled meanwhile: that is no cost of what was sent.
                    self._supervisor.resume_clock()
                else:
                    self._supervisor.cost.answered(answer.cpu_seconds)
            self._supervisor.send(answer.frame, partial(self._requests.finish, answer))


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

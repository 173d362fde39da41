"""Answers the requests of one execution, on threads of its own, so that its supervisor never blocks.

At most ``MAX_IN_FLIGHT`` requests wait at the same time, so there are at most that many threads, which start when
needed. A request waits until the child has read its answer, so a child that reads none has no more answers made for
it; a long one is made in parts, each when the one before has been read. A thread that is inside a host method when the
execution ends finishes it and ends; its answer is dropped.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import structlog

from functory.engine import threads
from functory.engine.errors import ExecutionFailed, FunctoryError, Refused
from functory.workers.sandbox.guest.errors import ERRORS
from functory.workers.sandbox.protocol.frames import (
    MAX_IN_FLIGHT,
    Call,
    Emit,
    EmitMany,
    Functions,
    Gather,
    GetSecret,
    Llm,
    Memory,
    ProtocolError,
    Reply,
    ReplyError,
    Request,
    StateDelete,
    StateGet,
    StateSet,
    Submit,
    Tools,
    encode_for_guest,
    pack_for_guest,
)
from functory.workers.sandbox.protocol.host import Host
from functory.workers.sandbox.protocol.job import Job

_log = structlog.get_logger(__name__)
_PART_BYTES = 262_144


class Answer:
    """A part of the answer to a request, and the CPU time that it took. ``read`` is set when the child took it."""

    def __init__(self, request: Request, frame: bytes, last: bool, cpu_seconds: float) -> None:
        self.request = request
        self.frame = frame
        self.last = last
        self.cpu_seconds = cpu_seconds
        self.read = threading.Event()


_KNOWN = frozenset(kind.__name__ for kind in ERRORS)


def kind_for_guest(error: type[FunctoryError]) -> str:
    """Return the name by which a function can catch an error: of its class, or of the nearest base that it knows."""
    return next(base.__name__ for base in error.__mro__ if base.__name__ in _KNOWN)


class RequestHandler:
    """Checks order and budget of requests, and lets ``host`` answer them.

    ``on_answer`` is called on one of the threads for each part of an answer.
    """

    def __init__(self, job: Job, host: Host, on_answer: Callable[[Answer], None]) -> None:
        self._job = job
        self._host = host
        self._on_answer = on_answer
        self._unread: set[Answer] = set()
        self._closed = False
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._threads = 0
        self._last_id = 0
        self._count = 0
        self.in_flight = 0
        self._secrets = {name for code in job.codes.values() for name in code.secrets}

    def accept(self, request: Request) -> None:
        """Queue a request of the child; ``ProtocolError`` if it is not allowed now, :class:`Unavailable` if the system
        has no thread for it.
        """
        if request.id <= self._last_id:
            raise ProtocolError(f"request id {request.id} is not above {self._last_id}")
        if self.in_flight >= MAX_IN_FLIGHT:
            raise ProtocolError(f"more than {MAX_IN_FLIGHT} requests at the same time")
        if isinstance(request, Gather) and len(set(request.ids)) < len(request.ids):
            raise ProtocolError("an execution is awaited twice in one request")
        self._count += max(1, len(request.events)) if isinstance(request, EmitMany) else 1
        if self._count > self._job.limits.calls:
            raise ProtocolError(f"more than {self._job.limits.calls} requests")
        self._last_id = request.id
        self.in_flight += 1
        if self.in_flight > self._threads:
            name = f"functory-{self._job.execution_id}-{self._threads + 1}"
            if threads.try_start(self._work, name) is not None:
                self._threads += 1
            elif not self._threads:
                raise threads.none_left("a request of the code has no thread")
        self._queue.put(request)

    def finish(self, answer: Answer) -> None:
        """Go on after a part that the child has taken: with the next part, or with the next request."""
        self._unread.discard(answer)
        if answer.last:
            self.in_flight -= 1
        answer.read.set()

    def close(self) -> None:
        """End the threads as soon as they are free."""
        self._closed = True
        for _ in range(self._threads):
            self._queue.put(None)
        for answer in list(self._unread):
            answer.read.set()

    def _work(self) -> None:
        while (request := self._queue.get()) is not None:
            began = time.thread_time()
            for frame, last in self._replies(request):
                answer = Answer(request, frame, last, time.thread_time() - began)
                self._unread.add(answer)
                self._on_answer(answer)
                if self._closed:
                    return
                if not last:
                    answer.read.wait()
                began = time.thread_time()

    def _replies(self, request: Request) -> Iterator[tuple[bytes, bool]]:
        """Yield the frames of an answer, and whether each is the last one."""
        try:
            if isinstance(request, Gather):
                yield from self._parts(request)
            else:
                yield encode_for_guest(Reply(id=request.id, value=self._call_host(request))), True
        except FunctoryError as error:
            yield self._refusal(request.id, error), True
        except Exception:
            # An error inside the engine belongs in its log, not in the hands of function code.
            _log.error(
                "host function failed",
                execution_id=self._job.execution_id,
                request=type(request).__name__,
                exception=self._without_secrets(traceback.format_exc()),
            )
            error = FunctoryError("the engine could not answer: an error of its own")
            yield self._refusal(request.id, error), True

    def _without_secrets(self, text: str) -> str:
        """Return the text as output of the function: it may quote what the function has sent."""
        output = self._host.output_filter()
        return output.feed(text) + output.close()

    def _parts(self, request: Gather) -> Iterator[tuple[bytes, bool]]:
        """Yield the results of children in frames of about ``_PART_BYTES``, so that few are in memory at a time."""
        part: list[msgspec.Raw] = []
        size = 0
        for entry in self._host.gather(request.ids, request.timeout):
            packed = pack_for_guest(entry)
            if part and size + len(memoryview(packed)) > _PART_BYTES:
                yield encode_for_guest(Reply(id=request.id, value=part, more=True)), False
                if self._closed:
                    return
                part, size = [], 0
            part.append(packed)
            size += len(memoryview(packed))
        yield encode_for_guest(Reply(id=request.id, value=part)), True

    @staticmethod
    def _refusal(request_id: int, error: FunctoryError) -> bytes:
        info = ReplyError(kind=kind_for_guest(type(error)), message=str(error))
        if isinstance(error, ExecutionFailed):
            info = ReplyError(
                kind="ExecutionFailed",
                message=str(error),
                state=error.state,
                execution_id=error.execution_id,
                error=error.error,
            )
        return encode_for_guest(Reply(id=request_id, error=info))

    def _call_host(self, request: Request) -> Any:
        host = self._host
        match request:
            case Call():
                return host.call(
                    request.name,
                    request.version,
                    None,
                    request.args,
                    request.kwargs,
                    request.durable,
                    request.abandon,
                )
            case Submit():
                return host.submit(
                    request.name, request.version, request.args, request.kwargs, request.abandon
                )
            case Emit():
                return host.emit(request.type, request.data, request.subject)
            case EmitMany():
                return host.emit_many([(one.type, one.data, one.subject) for one in request.events])
            case GetSecret():
                # The host refuses with the reason, and records it; a secret that it gives must be declared here, too.
                value = host.secret(request.name)
                if request.name not in self._secrets:
                    raise Refused(
                        f"secret {request.name!r} is not declared",
                        "a function may read only the secrets that it declares",
                        f'add secrets=["{request.name}"] to the function',
                    )
                return value
            case StateGet():
                return host.state_get(request.key)
            case StateSet():
                return host.state_set(request.key, request.value, request.expected_version)
            case StateDelete():
                return host.state_delete(request.key)
            case Functions():
                return host.functions(request.op, request.arguments)
            case Llm():
                return host.llm(request.op, request.arguments)
            case Memory():
                return host.memory(request.op, request.arguments)
            case Tools():
                return host.tools(request.op, request.arguments)
            case _:
                raise AssertionError(f"no answer for {request!r}")

"""Answers the requests of one execution, on threads of its own, so that its supervisor never blocks.

At most ``MAX_IN_FLIGHT`` requests wait at the same time, so there are at most that many threads, which start when
needed. A thread that is inside a host method when the execution ends finishes it and ends; its answer is
dropped.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog

from functory.engine.errors import ExecutionFailed, FunctoryError, Refused
from functory.workers.sandbox.protocol.frames import (
    MAX_IN_FLIGHT,
    Call,
    Emit,
    Functions,
    Gather,
    GetSecret,
    Llm,
    ProtocolError,
    Reply,
    ReplyError,
    Request,
    StateDelete,
    StateGet,
    StateSet,
    Submit,
    encode_for_guest,
)
from functory.workers.sandbox.protocol.host import Host
from functory.workers.sandbox.protocol.job import Job

_log = structlog.get_logger(__name__)


class RequestHandler:
    """Checks order and budget of requests, and lets ``host`` answer them.

    ``on_reply(request, reply_frame, cpu_seconds)`` is called on one of the threads for each answer, with the CPU time
    that it took there.
    """

    def __init__(self, job: Job, host: Host, on_reply: Callable[[Request, bytes, float], None]) -> None:
        self._job = job
        self._host = host
        self._on_reply = on_reply
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._threads = 0
        self._last_id = 0
        self._count = 0
        self.in_flight = 0
        self._secrets = {name for code in job.codes.values() for name in code.secrets}

    def accept(self, request: Request) -> None:
        """Queue a request of the child; ``ProtocolError`` if it is not allowed now."""
        if request.id <= self._last_id:
            raise ProtocolError(f"request id {request.id} is not above {self._last_id}")
        if self.in_flight >= MAX_IN_FLIGHT:
            raise ProtocolError(f"more than {MAX_IN_FLIGHT} requests at the same time")
        self._count += 1
        if self._count > self._job.limits.calls:
            raise ProtocolError(f"more than {self._job.limits.calls} requests")
        self._last_id = request.id
        self.in_flight += 1
        if self.in_flight > self._threads:
            self._threads += 1
            name = f"functory-{self._job.execution_id}-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._queue.put(request)

    def close(self) -> None:
        """End the threads as soon as they are free."""
        for _ in range(self._threads):
            self._queue.put(None)

    def _work(self) -> None:
        while (request := self._queue.get()) is not None:
            began = time.thread_time()
            reply = self._reply(request)
            self._on_reply(request, reply, time.thread_time() - began)

    def _reply(self, request: Request) -> bytes:
        try:
            return encode_for_guest(Reply(id=request.id, value=self._call_host(request)))
        except FunctoryError as error:
            return self._refusal(request.id, error)
        except Exception:
            # An error inside the engine belongs in its log, not in the hands of function code.
            _log.exception(
                "host function failed", execution_id=self._job.execution_id, request=type(request).__name__
            )
            return self._refusal(
                request.id, FunctoryError("the engine could not answer: an error of its own")
            )

    @staticmethod
    def _refusal(request_id: int, error: FunctoryError) -> bytes:
        info = ReplyError(kind=type(error).__name__, message=str(error))
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
                    request.name, request.version, None, request.args, request.kwargs, request.durable
                )
            case Submit():
                return host.submit(request.name, request.version, request.args, request.kwargs)
            case Gather():
                return host.gather(request.ids, request.timeout)
            case Emit():
                return host.emit(request.type, request.data, request.subject)
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
                return host.llm(request.arguments)
            case _:
                raise AssertionError(f"no answer for {request!r}")

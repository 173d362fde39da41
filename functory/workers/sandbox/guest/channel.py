"""Sends frames at the child's end of the socket, and hands each reply to the thread that waits for it.

A thread that reads replies starts with the first request. At most ``MAX_IN_FLIGHT`` requests are sent at once;
more wait here, so that code may make any number of requests at the same time.

A child that has used up its memory must still report that. So the channel has memory in reserve, and a report
that was encoded before user code ran.
"""

from __future__ import annotations

import mmap
import os
import queue
import select
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NoReturn

from functory.workers.sandbox.protocol.frames import (
    MAX_IN_FLIGHT,
    ErrorInfo,
    Failed,
    FrameBuffer,
    FromHost,
    Reply,
    Request,
    decode_host,
    encode_frame,
)

# A larger buffer would be mapped, shrunk and unmapped by each read: malloc(3) does so from 128 KiB up.
_READ_BYTES = 65_536
# Enough to describe an error with its trace. It is address space only: no page of it is ever written.
_RESERVE_BYTES = 4 * 1024 * 1024
_OUT_OF_MEMORY = encode_frame(Failed(kind="code", error=ErrorInfo(type="MemoryError", message="")))


class Channel:
    """Exchanges frames with the worker once ``connect`` was called. All other methods may be called from any thread."""

    def __init__(self) -> None:
        self._fd = -1
        self._reserve = mmap.mmap(-1, _RESERVE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._send_lock = threading.Lock()
        self._lock = threading.Lock()
        self._buffer = FrameBuffer(2**32)
        self._waiting: dict[int, Future] = {}
        self._parts: dict[int, list[Any]] = {}
        self._unsent: deque[tuple[Callable[[int], Request], Future]] = deque()
        self._last_id = 0
        self._reading = False
        self._tasks: queue.SimpleQueue[FromHost] = queue.SimpleQueue()

    def connect(self, fd: int) -> None:
        """Use the descriptor of a connected socket that blocks. A socket object would cost a fresh child its memory."""
        self._fd = fd

    def has_task(self) -> bool:
        """Return True if the worker has sent something that was not read."""
        return self._buffer.pending() or bool(select.select([self._fd], [], [], 0)[0])

    def send(self, message: Any) -> None:
        """Send one frame; blocks while the worker is busy."""
        data = encode_frame(message)
        with self._send_lock:
            _write(self._fd, data)

    def send_and_exit(self, message: Any) -> NoReturn:
        """Send the last frame and leave the process at once: nothing that user code left may delay it."""
        try:
            self.send(message)
        finally:
            os._exit(0)

    def free_reserve(self) -> None:
        """Give back the memory that was kept for the report of an error; safe to call twice."""
        self._reserve.close()

    def report_out_of_memory_and_exit(self) -> NoReturn:
        """Report that there is no memory left, and leave the process. Needs none itself."""
        try:
            self._reserve.close()
            with self._send_lock:
                _write(self._fd, _OUT_OF_MEMORY)
        finally:
            os._exit(0)

    @property
    def threads(self) -> int:
        """The number of threads that it has started."""
        return int(self._reading)

    def next_task(self) -> FromHost:
        """Return the next task from the worker; EOFError when the worker has gone.

        After the first request, one thread reads all frames.
        """
        return self._tasks.get() if self._reading else self._receive()

    def _receive(self) -> FromHost:
        while (payload := self._buffer.pop()) is None:
            data = os.read(self._fd, _READ_BYTES)
            if not data:
                raise EOFError("the worker closed the connection")
            self._buffer.feed(data)
        return decode_host(payload)

    def request(self, build: Callable[[int], Request]) -> Future:
        """Send the request that ``build(id)`` makes; the future gets its ``Reply``."""
        future: Future = Future()
        with self._lock:
            if not self._reading:
                self._reading = True
                threading.Thread(target=self._read, name="functory-replies", daemon=True).start()
            if len(self._waiting) >= MAX_IN_FLIGHT:
                self._unsent.append((build, future))
            else:
                self._send_request(build, future)
        return future

    def _send_request(self, build: Callable[[int], Request], future: Future) -> None:
        """Send a request under the lock, so that ids are sent in their order."""
        self._last_id += 1
        self._waiting[self._last_id] = future
        try:
            self.send(build(self._last_id))
        except Exception as error:
            del self._waiting[self._last_id]
            future.set_exception(error)

    def _read(self) -> None:
        try:
            self._read_messages()
        except (EOFError, OSError):
            os._exit(1)
        except MemoryError:
            # Replies take the memory of the function. Without this thread it would wait for them for ever.
            self.report_out_of_memory_and_exit()

    def _read_messages(self) -> None:
        while True:
            message = self._receive()
            if not isinstance(message, Reply):
                self._tasks.put(message)
                continue
            with self._lock:
                if message.more:
                    self._parts.setdefault(message.id, []).extend(message.value)
                    continue
                if (parts := self._parts.pop(message.id, None)) is not None and message.error is None:
                    message.value = parts + message.value
                future = self._waiting.pop(message.id, None)
                while self._unsent and len(self._waiting) < MAX_IN_FLIGHT:
                    self._send_request(*self._unsent.popleft())
            if future is not None and future.set_running_or_notify_cancel():
                future.set_result(message)


def _write(fd: int, data: bytes) -> None:
    """Write all of ``data``; blocks while the worker is busy."""
    written = os.write(fd, data)
    while written < len(data):
        data = data[written:]
        written = os.write(fd, data)

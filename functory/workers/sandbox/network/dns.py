"""Resolves names in threads of their own, because getaddrinfo(3) blocks.

asyncio's own ``getaddrinfo`` uses threads that the interpreter waits for at its exit; these are daemons, so that a
slow name server delays no exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
from collections.abc import Callable, Sequence

from functory.engine import threads

Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a name, best first; OSError when there are none. May block."""

_THREADS = 4


def resolve_with_system(host: str, port: int) -> list[str]:
    """Resolve a name as every program of this machine does, hosts file included (getaddrinfo(3), order of RFC 6724)."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


class DnsResolver:
    """Resolves at most ``_THREADS`` names at the same time. Used in one event loop; threads start when needed."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._limit = asyncio.Semaphore(_THREADS)
        self._running = 0
        self._threads = 0
        self._lookups: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    async def resolve(self, host: str, port: int, own_limit: asyncio.Semaphore) -> Sequence[str]:
        """Return the addresses of ``host``, none when the name leads nowhere.

        ``own_limit`` bounds the caller's lookups. A lookup counts until its thread has done it, also after the
        caller was cancelled.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[str]] = loop.create_future()

        def lookup() -> None:
            try:
                addresses = self._resolve(host, port)
            except (OSError, UnicodeError):
                addresses = []
            # The event loop may have been closed meanwhile: then no coroutine waits for the answer.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, addresses)

        def finish(addresses: Sequence[str]) -> None:
            self._running -= 1
            self._limit.release()
            own_limit.release()
            if not answer.done():
                answer.set_result(addresses)

        await own_limit.acquire()
        try:
            await self._limit.acquire()
        except asyncio.CancelledError:
            own_limit.release()
            raise
        if self._running >= self._threads and threads.try_start(self._serve, "functory-lookup") is not None:
            self._threads += 1
        self._running += 1
        if not self._threads:
            finish([])
        else:
            self._lookups.put(lookup)
        return await answer

    def stop(self) -> None:
        """End each thread after its current lookup."""
        for _ in range(self._threads):
            self._lookups.put(None)

    def _serve(self) -> None:
        while (lookup := self._lookups.get()) is not None:
            lookup()

"""Asking for the addresses of names without keeping anybody waiting: a few threads that do nothing else."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Sequence

Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a name, best first; OSError when there are none. May block."""

Found = Callable[[Sequence[str]], None]
"""Called in a thread of the lookup's, with no address when the name leads nowhere."""

_THREADS = 4


def resolve_with_system(host: str, port: int) -> list[str]:
    """Ask as every program of this machine does, hosts file included (getaddrinfo(3), ordered by RFC 6724)."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


class DnsResolver:
    """Threads start when they are needed. They are daemons: a slow name server delays nobody's exit."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._lock = threading.Lock()
        self._asked: queue.SimpleQueue[tuple[str, int, Found] | None] = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0

    def resolve(self, host: str, port: int, on_resolved: Found) -> None:
        with self._lock:
            self._asked.put((host, port, on_resolved))
            if self._idle < self._asked.qsize() and self._threads < _THREADS:
                self._threads += 1
                threading.Thread(target=self._serve, name="functory-lookup", daemon=True).start()

    def stop(self) -> None:
        """Let the threads end, each after what it is doing."""
        with self._lock:
            for _ in range(self._threads):
                self._asked.put(None)

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            asked = self._asked.get()
            with self._lock:
                self._idle -= 1
            if asked is None:
                return
            host, port, found = asked
            try:
                addresses = self._resolve(host, port)
            except (OSError, UnicodeError):
                addresses = []
            found(addresses)

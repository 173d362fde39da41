"""A TCP proxy in front of a server whose connections can be delayed, reset, half-opened or swallowed.

    with FaultyProxy(postgres_url) as proxy:
        deployment(database_url=proxy.url)
        proxy.half_open()

What a network does: a host that is gone, a firewall that has forgotten its connections, a router that drops packets.
The proxy still accepts what the client sends, as a kernel does, so that only a missing answer shows the fault.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit


class _Link:
    """One connection through the proxy: its two sockets. A silent one forwards nothing any more."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.sockets = (client, server)
        self.silent = False

    def close(self) -> None:
        for side in self.sockets:
            # Wakes the thread that reads from it.
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    def reset(self) -> None:
        for side in self.sockets:
            with contextlib.suppress(OSError):
                # Without lingering, close() sends RST instead of FIN (socket(7)).
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


class FaultyProxy:
    """A proxy that forwards at first. ``url`` is the server's URL with the proxy's address."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._behind = (parts.hostname or "127.0.0.1", parts.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        userinfo = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        address = f"{userinfo}127.0.0.1:{self.port}"
        self.url = urlunsplit(parts._replace(netloc=address))
        self._links: list[_Link] = []
        self._lock = threading.Lock()
        self._swallowing = False
        self._delay = 0.0
        self._rewrite: Callable[[bytes], bytes] | None = None
        threading.Thread(target=self._accept, name="faulty-proxy", daemon=True).start()

    def __enter__(self) -> "FaultyProxy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for link in self._links:
                link.close()

    def half_open(self) -> int:
        """Forward nothing on the connections that are open now; new ones work. Returns their number."""
        with self._lock:
            open_ = [link for link in self._links if not link.silent]
            for link in open_:
                link.silent = True
        return len(open_)

    def swallow(self) -> None:
        """Forward nothing, on new connections neither, until :meth:`heal`."""
        self._swallowing = True
        self.half_open()

    def delay(self, seconds: float) -> None:
        """Forward every piece of data this much later, until :meth:`heal`."""
        self._delay = seconds

    def rewrite(self, change: Callable[[bytes], bytes]) -> None:
        """Forward ``change(data)`` for each piece of data that the server sends, until :meth:`heal`."""
        self._rewrite = change

    def reset(self) -> None:
        """Reset the connections that are open now (RST)."""
        with self._lock:
            for link in self._links:
                link.reset()
            self._links.clear()

    def lead_to(self, url: str) -> None:
        """Lead to the server of another URL from now on, as a virtual address does after a failover. Resets what is
        open.
        """
        parts = urlsplit(url)
        self._behind = (parts.hostname or "127.0.0.1", parts.port or 0)
        self.reset()

    def heal(self) -> None:
        """Forward again, unchanged and without delay. Connections that were silent stay so, as if the network had
        forgotten them.
        """
        self._swallowing = False
        self._delay = 0.0
        self._rewrite = None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._behind)
            except OSError:
                client.close()
                continue
            link = _Link(client, server)
            link.silent = self._swallowing
            with self._lock:
                self._links.append(link)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(link, source, target), daemon=True).start()

    def _copy(self, link: _Link, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._delay:
                    time.sleep(self._delay)
                if self._rewrite is not None and source is link.sockets[1]:
                    data = self._rewrite(data)
                if not link.silent:
                    target.sendall(data)
        if not link.silent:
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)

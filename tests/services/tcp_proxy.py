"""A TCP proxy in front of a server: while it is closed, it refuses connections as a stopped server does."""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

from tests.services.port import free_port


class Door:
    """A proxy, closed at first; ``url`` is the server's URL with the proxy's port."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._behind = (parts.hostname or "127.0.0.1", parts.port or 0)
        self._port = free_port()
        userinfo = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        self.url = urlunsplit(parts._replace(netloc=f"{userinfo}127.0.0.1:{self._port}"))
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []
        # How often a client has sent something after an answer, or at first.
        self.round_trips = 0

    def __enter__(self) -> "Door":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Accept connections from now on."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse new connections and cut the open ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for side in self._open:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._behind)
            self._open += [client, server]
            answered = threading.Event()
            answered.set()
            for source, target, note in (
                (client, server, lambda answered=answered: self._count(answered)),
                (server, client, answered.set),
            ):
                threading.Thread(target=_copy, args=(source, target, note), daemon=True).start()

    def _count(self, answered: threading.Event) -> None:
        if answered.is_set():
            answered.clear()
            self.round_trips += 1


def _copy(source: socket.socket, target: socket.socket, note: Callable[[], None]) -> None:
    try:
        while data := source.recv(65536):
            note()
            target.sendall(data)
    except OSError:
        pass
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)

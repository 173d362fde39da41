"""An HTTP proxy in front of one or several servers. Each request goes to a server by chance, over a connection of its
own, so that nothing sticks to one of them. What the servers answer is kept for tests that look for a text in it.
"""

from __future__ import annotations

import contextlib
import random
import re
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from urllib.parse import urlsplit

_HEAD_END = b"\r\n\r\n"
_CONNECTION = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_COMPRESSION = re.compile(rb"\r\naccept-encoding:[^\r]*", re.IGNORECASE)
_PIECE = 65_536


class HttpProxy:
    """Serves from entering the block to its end; ``url`` is its address, ``answers`` all that servers have sent."""

    def __init__(self, backends: Sequence[str], *, seed: int = 0) -> None:
        self._backends = [
            (urlsplit(url).hostname or "127.0.0.1", urlsplit(url).port or 80) for url in backends
        ]
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._answers = bytearray()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        # Requests by the port of the server that answered.
        self.requests: Counter[int] = Counter()

    def __enter__(self) -> HttpProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    @property
    def answers(self) -> bytes:
        """The bytes of all answers so far, uncompressed."""
        with self._lock:
            return bytes(self._answers)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            request = _read_request(client)
            if request is None:
                return
            with self._lock:
                backend = self._random.choice(self._backends)
                self.requests[backend[1]] += 1
            with socket.create_connection(backend) as server:
                server.sendall(request)
                while piece := server.recv(_PIECE):
                    with self._lock:
                        self._answers += piece
                    client.sendall(piece)


def _read_request(client: socket.socket) -> bytes | None:
    """One request, changed so that its connection ends with the answer and the answer is not compressed."""
    given = b""
    while _HEAD_END not in given:
        piece = client.recv(_PIECE)
        if not piece:
            return None
        given += piece
    head, _, body = given.partition(_HEAD_END)
    found = _LENGTH.search(head)
    missing = int(found[1]) - len(body) if found else 0
    while missing > 0:
        piece = client.recv(_PIECE)
        if not piece:
            return None
        body += piece
        missing -= len(piece)
    head = _COMPRESSION.sub(b"", _CONNECTION.sub(b"", head))
    return head + b"\r\nConnection: close" + _HEAD_END + body

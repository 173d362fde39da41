"""The HTTP server of a role: uvicorn on a thread, without its own signals, banner and access log, and with limits for
its clients (:mod:`functory.api.bounded_connection`)."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI

from functory.api.bounded_connection import ConnectionLimits
from functory.engine.errors import Conflict, Unavailable
from functory.engine.http_addresses import http_url

if TYPE_CHECKING:
    from functory.api.stream.feed import Feed


# An event loop that has done nothing for so long (seconds) hangs: between two requests it turns ten times a second.
STALL_SECONDS = 60.0
# The machine does not have an address, or not its version of IP.
_NO_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class _Uvicorn(uvicorn.Server):
    """uvicorn's server, which notes when its event loop turned last, in monotonic seconds."""

    turned_at = 0.0

    async def on_tick(self, counter: int) -> bool:
        self.turned_at = time.monotonic()
        return await super().on_tick(counter)


def _listen(host: str, port: int) -> socket.socket:
    """Listen on the first address of the host that this machine has: a name may lead to one of each IP version.

    Raises the OSError of the last one.
    """
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        listener = None
        try:
            listener = socket.socket(family, kind, protocol)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)
        except OSError as error:
            if listener is not None:
                listener.close()
            if error.errno in _NO_ADDRESS and number < len(addresses):
                continue
            raise
        return listener
    raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))


def _advice(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno in _NO_ADDRESS:
        return (
            "name an address of this machine with FUNCTORY_HOST or --host: ip addr shows them; "
            "::1 is the local one of a machine without IPv4"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return "choose a port from 1024 on with FUNCTORY_PORT or --port; lower ones are for root"
    return "end the program that uses it, or choose another one with FUNCTORY_PORT or --port"


class Server:
    """Serves ``app`` from :meth:`start` to :meth:`stop`; ``url`` is known once it has started."""

    def __init__(self, app: FastAPI, host: str, port: int, limits: ConnectionLimits | None = None) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                app,
                http=(limits or ConnectionLimits()).protocol_factory(),
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
            )
        )
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self.url = ""

    def start(self, timeout: float = 20.0) -> None:
        """Listen and serve. Raises :class:`Conflict` for a port that is taken."""
        try:
            self._socket = _listen(self._host, self._port)
        except OSError as error:
            raise Conflict(
                f"port {self._port} of {self._host} cannot be used",
                error.strerror or str(error),
                _advice(error),
            ) from None
        self.url = http_url(self._host, self._socket.getsockname()[1])
        self._thread = threading.Thread(
            target=self._uvicorn.run, args=([self._socket],), name="functory-http", daemon=True
        )
        self._thread.start()
        if not self._wait(timeout):
            raise Unavailable("the HTTP server did not start", f"not ready after {timeout:g} s")

    @property
    def progressing(self) -> bool:
        """False when the event loop hangs: no request is answered."""
        return time.monotonic() - self._uvicorn.turned_at < STALL_SECONDS

    def stop(self, grace: float) -> bool:
        """Let open requests end, at most ``grace`` seconds. True when all ended. Live streams are ended at once."""
        feed: Feed | None = getattr(self._app.state, "feed", None)
        if feed is not None:
            # It would wait for them without an end.
            feed.close()
        self._uvicorn.should_exit = True
        thread, self._thread = self._thread, None
        if thread is None:
            return True
        thread.join(grace)
        ended = not thread.is_alive()
        if not ended:
            self._uvicorn.force_exit = True
            thread.join(1.0)
        if self._socket is not None:
            self._socket.close()
        return ended

    def _wait(self, timeout: float) -> bool:
        pause = threading.Event()
        for _ in range(int(timeout / 0.01)):
            if self._uvicorn.started:
                return True
            if self._thread is None or not self._thread.is_alive():
                return False
            pause.wait(0.01)
        return False

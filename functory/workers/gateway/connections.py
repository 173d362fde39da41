"""Connections to providers, kept open: the last one used is the next one taken.

httpx's own pool looks at all its connections at the beginning and the end of each request, which takes longer than the
request when many are open. Here each connection is a pool of one, and the idle ones of an address are a stack.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from contextlib import suppress

import httpx

# An idle connection is closed after this time (seconds); providers close theirs after about as long.
IDLE_SECONDS = 30.0
_ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_SECONDS)

_Origin = tuple[str, str, int | None]


class Connections:
    """Sends requests, each on a connection of its own. Used on one event loop. Redirects are not followed, and nothing
    is read from the environment: proxies and netrc files would see keys or add some.
    """

    def __init__(self) -> None:
        self._idle: dict[_Origin, deque[tuple[float, httpx.AsyncHTTPTransport]]] = {}
        self._ssl: ssl.SSLContext | None = None

    async def send(self, request: httpx.Request) -> Exchange:
        """Send a request and return its answer, whose body is not read yet. Raises :class:`httpx.HTTPError`."""
        origin = (request.url.scheme, request.url.host, request.url.port)
        idle = self._idle.setdefault(origin, deque())
        transport = idle.pop()[1] if idle else self._connection()
        try:
            response = await transport.handle_async_request(request)
        except BaseException:
            with suppress(httpx.HTTPError):
                await transport.aclose()
            raise
        response.request = request
        return Exchange(self, origin, transport, response)

    async def close(self) -> None:
        """Close the idle connections."""
        for idle in self._idle.values():
            while idle:
                await idle.pop()[1].aclose()

    async def put_back(self, origin: _Origin, transport: httpx.AsyncHTTPTransport) -> None:
        """Keep a connection for the next request, and close those that nothing has used for long."""
        now, idle = time.monotonic(), self._idle[origin]
        idle.append((now, transport))
        while now - idle[0][0] > IDLE_SECONDS:
            await idle.popleft()[1].aclose()

    def _connection(self) -> httpx.AsyncHTTPTransport:
        # It reads the file of authorities, which takes long.
        self._ssl = self._ssl or httpx.create_ssl_context(trust_env=False)
        return httpx.AsyncHTTPTransport(verify=self._ssl, limits=_ONE, trust_env=False)


class Exchange:
    """One request with its ``response``. :meth:`close` must be called."""

    def __init__(
        self,
        connections: Connections,
        origin: _Origin,
        transport: httpx.AsyncHTTPTransport,
        response: httpx.Response,
    ) -> None:
        self.response = response
        self._connections, self._origin, self._transport = connections, origin, transport

    async def close(self) -> None:
        """Give the connection back; it is closed when the body was not read to its end."""
        await self.response.aclose()
        await self._connections.put_back(self._origin, self._transport)

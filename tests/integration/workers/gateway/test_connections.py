"""Connections to providers: kept, taken again, and closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from functory.workers.gateway import connections as module
from functory.workers.gateway.connections import Connections

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Provider:
    """Answers each request with the same bytes. ``connections`` counts those that it has accepted, ``open`` those that
    are open.
    """

    def __init__(self, answer: bytes = OK) -> None:
        self.answer, self.connections, self.open = answer, 0, 0
        self.waiting: asyncio.Barrier | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                if self.waiting is not None:
                    await self.waiting.wait()
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.open -= 1
            writer.close()


Ask = Callable[[], Awaitable[int]]


@asynccontextmanager
async def asking(provider: Provider) -> AsyncIterator[tuple[Ask, Connections]]:
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    connections = Connections()
    timeout = dict.fromkeys(("connect", "read", "write", "pool"), 5.0)

    async def ask() -> int:
        request = httpx.Request("GET", url, extensions={"timeout": timeout})
        exchange = await connections.send(request)
        try:
            await exchange.response.aread()
        finally:
            await exchange.close()
        return exchange.response.status_code

    try:
        yield ask, connections
    finally:
        await connections.close()
        server.close()


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not fact():
            await asyncio.sleep(0.005)


def test_one_connection_carries_requests_one_after_the_other() -> None:
    async def run() -> None:
        provider = Provider()
        async with asking(provider) as (ask, _):
            assert [await ask() for _ in range(5)] == [200] * 5
            assert provider.connections == 1

    asyncio.run(run())


def test_requests_side_by_side_have_one_each_which_are_taken_again() -> None:
    async def run() -> None:
        provider = Provider()
        provider.waiting = asyncio.Barrier(4)
        async with asking(provider) as (ask, _):
            for _ in range(3):
                assert await asyncio.gather(*(ask() for _ in range(4))) == [200] * 4
            assert provider.connections == 4

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", b"no HTTP\r\n\r\n"]
)
def test_a_connection_that_failed_is_not_taken_again(answer: bytes) -> None:
    async def run() -> None:
        provider = Provider(answer)
        # It ends the connection after its answer.
        serve = provider.serve

        async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if provider.answer == OK:
                await serve(reader, writer)
                return
            provider.connections += 1
            await reader.readuntil(b"\r\n\r\n")
            writer.write(provider.answer)
            writer.close()

        provider.serve = once  # type: ignore[method-assign]
        async with asking(provider) as (ask, _):
            with pytest.raises(httpx.HTTPError):
                await ask()
            provider.answer = OK
            assert await ask() == 200
            assert provider.connections == 2

    asyncio.run(run())


def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        provider = Provider()
        provider.waiting = asyncio.Barrier(3)
        async with asking(provider) as (ask, _):
            await asyncio.gather(*(ask() for _ in range(3)))
            provider.waiting = None
            assert provider.open == 3
            monkeypatch.setattr(module, "IDLE_SECONDS", 0.0)
            await ask()
            await until(lambda: provider.open == 1)

    asyncio.run(run())

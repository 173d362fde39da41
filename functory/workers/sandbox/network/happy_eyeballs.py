"""Connects to the first of several addresses that answers.

Addresses are tried in the order given. The next one starts when one fails, or a quarter of a second after the last
one started (RFC 8305 section 5). So a dead address costs a quarter of a second, not the whole timeout.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence

from functory.workers.sandbox.network.event_loop import EventLoopThread

ATTEMPT_SECONDS = 0.25  # RFC 8305 section 8, "Connection Attempt Delay"


async def connect(event_loop: EventLoopThread, addresses: Sequence[str], port: int) -> socket.socket:
    """Return a connected socket, tracked by ``event_loop``; raises the OSError of the last attempt."""
    if len(addresses) == 1:
        return await _attempt(event_loop, addresses[0], port)
    waiting = list(reversed(addresses))
    attempts: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    winner: asyncio.Task[socket.socket] | None = None
    error: BaseException = OSError(errno.EHOSTUNREACH, "no address")
    try:
        while waiting or pending:
            if waiting:
                attempts.append(asyncio.create_task(_attempt(event_loop, waiting.pop(), port)))
                pending.add(attempts[-1])
            delay = ATTEMPT_SECONDS if waiting else None
            done, pending = await asyncio.wait(pending, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                if (failure := attempt.exception()) is None:
                    winner = attempt
                    return winner.result()
                error = failure
        raise error
    finally:
        for attempt in attempts:
            if attempt is not winner:
                attempt.cancel()
                attempt.add_done_callback(lambda lost: _close_loser(event_loop, lost))


async def _attempt(event_loop: EventLoopThread, address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = event_loop.track(socket.socket(family, socket.SOCK_STREAM))
    try:
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        event_loop.close(sock)
        raise
    return sock


def _close_loser(event_loop: EventLoopThread, attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        event_loop.close(attempt.result())

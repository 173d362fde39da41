"""The granted network of one run: checks its requests, makes and relays its connections, and counts them.

A ``RunEgress`` belongs to a ``ConnectionBroker`` and is used in the thread of its event loop. The child at the other
end is never trusted: a request that is malformed or out of order ends its network; its descriptors are never received;
connections, lookups, requests and bytes are bounded, and so is the memory that is held for it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog

from functory.engine.access import host_grants
from functory.engine.errors import Invalid
from functory.engine.serialization.control_characters import escape_control_characters
from functory.workers.sandbox.network import addresses, happy_eyeballs
from functory.workers.sandbox.network.dns import DnsResolver
from functory.workers.sandbox.network.event_loop import EventLoopThread
from functory.workers.sandbox.network.relay import ByteMeter, Relay
from functory.workers.sandbox.protocol.connect import FRAME_BYTES, Answer, Connect

MAX_CONNECTIONS = 16  # of one run at the same time: what a browser opens for a page, several times over
MAX_REQUESTS = 10_000  # of one run, refused ones included: each costs a lookup or a connection
REFUSALS_KEPT = 100  # of one run: enough to see what it asked for
_REFUSALS_LOGGED = 10
_LOOKUPS = 2  # of one run at the same time, so that one with slow names leaves threads to the others
_ADDRESSES = 4  # of one name that are tried
_MESSAGE_LENGTH = 600  # leaves room in a frame

_log = structlog.get_logger(__name__)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Connect)


@dataclass
class Traffic:
    """The network use of one run. ``sent`` and ``received`` are bytes, as the function sees them."""

    connections: int = 0
    sent: int = 0
    received: int = 0
    refused: list[tuple[str, int, str]] = field(default_factory=list)
    """Host, port and reason of refused connections, the first ``REFUSALS_KEPT``."""
    exhausted: bool = False
    """The run passed its limit of bytes, and all its connections were closed."""
    violation: str = ""
    """The reason for which the run's network was closed: it broke the protocol. Else empty."""


class RunEgress:
    """The endpoint of one run. After ``__init__`` it is used in the event loop only."""

    def __init__(
        self,
        run_id: str,
        endpoint: socket.socket,
        grants: Sequence[host_grants.HostGrant],
        bytes_limit: int,
        private: tuple[addresses.Network, ...],
        event_loop: EventLoopThread,
        resolver: DnsResolver,
    ) -> None:
        self._id = run_id
        self._endpoint = event_loop.track(endpoint)
        self._grants = grants
        self._private = private
        self._event_loop = event_loop
        self._resolver = resolver
        self._meter = ByteMeter(bytes_limit)
        self._traffic = Traffic()
        self._server: asyncio.Task[Any] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._relays: set[Relay] = set()
        self._lookups = asyncio.Semaphore(_LOOKUPS)
        self._last_id = 0
        self._requests = 0
        self._refusals = 0

    async def serve(self) -> None:
        """Answer requests until the child sends no more, or ``close``. Connections that were made stay open."""
        self._server = asyncio.current_task()
        try:
            while data := await self._receive():
                self._requests += 1
                try:
                    request = self._read(data)
                except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                    self._end_on_violation(str(error))
                else:
                    self._last_id = request.id
                    self._handle_request(request)
                # The other runs have their turn, also while requests keep coming.
                await asyncio.sleep(0)
        except Exception:
            _log.exception("requests for connections failed, network of the run closed", run=self._id)
            self._hang_up()
        finally:
            self._event_loop.close(self._endpoint)

    async def close(self) -> Traffic:
        """Close all connections and the endpoint."""
        for relay in self._relays:
            # The bytes that the function sent before its end belong to it.
            relay.flush()
        self._hang_up()
        _cancel(self._server)
        if tasks := {self._server, *self._connections} - {None}:
            await asyncio.wait(tasks)
        if self._refusals > _REFUSALS_LOGGED:
            _log.warning("connections refused", run=self._id, count=self._refusals)
        return self.traffic()

    async def open_period(self) -> Traffic:
        """Return the traffic of the period that ends; the next one has its full limits."""
        traffic = self.traffic()
        self._meter.sent = self._meter.received = self._requests = self._refusals = 0
        self._traffic = Traffic(violation=self._traffic.violation)
        return traffic

    def traffic(self) -> Traffic:
        self._traffic.sent, self._traffic.received = self._meter.sent, self._meter.received
        return self._traffic

    def _hang_up(self) -> None:
        for connection in self._connections:
            _cancel(connection)

    async def _receive(self) -> bytes:
        """Wait for the next request; empty when the child sends no more."""
        try:
            # Without room for ancillary data, the kernel drops descriptors that come along. It cuts a message that is
            # longer than any request, which makes it invalid.
            return await asyncio.get_running_loop().sock_recv(self._endpoint, FRAME_BYTES)
        except OSError:
            return b""

    def _read(self, data: bytes) -> Connect:
        request = _decoder.decode(data)
        if request.id <= self._last_id:
            raise ValueError(f"request {request.id} came after {self._last_id}")
        if self._requests > MAX_REQUESTS:
            raise ValueError(f"more than {MAX_REQUESTS} requests")
        return request

    def _end_on_violation(self, how: str) -> None:
        """End the network of a child that does not keep to the protocol."""
        if not self._traffic.violation:
            self._traffic.violation = escape_control_characters(how)
            _log.warning(
                "network protocol violated, network of the run closed",
                run=self._id,
                reason=self._traffic.violation,
            )
        self._hang_up()
        _cancel(self._server)

    def _handle_request(self, request: Connect) -> None:
        try:
            host = host_grants.normalize(request.host)
        except Invalid as error:
            self._refuse(request, request.host, "no host name", error.why, error.try_)
            return
        granted = host_grants.matching_grants(self._grants, host, request.port)
        if not granted:
            why = "its version is not granted that host"
            what = host_grants.format_grant(host, request.port)
            self._refuse(request, host, "not granted", why, f'hosts=["{what}"]')
        elif self._traffic.exhausted:
            why = f"it has used up its {self._meter.limit} bytes of network"
            self._refuse(request, host, "byte limit reached", why, "fetch less in one execution")
        elif len(self._connections) >= MAX_CONNECTIONS:
            why = f"it has {MAX_CONNECTIONS} connections, the most at the same time"
            self._refuse(
                request, host, "too many connections", why, "close those that are done", errno.EMFILE
            )
        else:
            connection = asyncio.create_task(self._carry(request, host, granted))
            self._connections.add(connection)
            connection.add_done_callback(self._connections.discard)

    async def _carry(self, request: Connect, host: str, granted: Sequence[host_grants.HostGrant]) -> None:
        """Serve one connection from its request to its end. It counts until its sockets are closed."""
        sockets: list[socket.socket] = []
        try:
            if (remote := await self._connect(request, host, granted)) is not None:
                sockets.append(remote)
                await self._relay(request, host, remote, sockets)
        except Exception:
            # The thread serves every run of this process: one connection ends, and the others go on.
            _log.exception("granted connection failed", run=self._id, host=host, port=request.port)
        finally:
            # Before the host sees the end: the next connection of the child must not meet the old count.
            if (task := asyncio.current_task()) is not None:
                self._connections.discard(task)
            for sock in sockets:
                self._event_loop.close(sock)

    async def _connect(
        self, request: Connect, host: str, granted: Sequence[host_grants.HostGrant]
    ) -> socket.socket | None:
        """Resolve the name once, and connect to the permitted ones of its addresses; None after a refusal."""
        # A host that only "*" covers must be public, whatever else the operator lists.
        by_name = not all(grant.is_any_host for grant in granted)
        private = self._private if by_name else ()
        try:
            async with asyncio.timeout(request.timeout):
                if host_grants.is_address(host):
                    found: Sequence[str] = [host]
                else:
                    found = await self._resolver.resolve(host, request.port, self._lookups)
                if not found:
                    message = f"the name {host} leads to no address"
                    number = errno.EHOSTUNREACH
                    self._answer(Answer(id=request.id, error=number, message=message, unresolved=True))
                    return None
                permitted = [address for address in found if addresses.permitted(address, private)]
                if permitted:
                    return await happy_eyeballs.connect(
                        self._event_loop, permitted[:_ADDRESSES], request.port
                    )
        except TimeoutError:
            self._fail(request, host, errno.ETIMEDOUT)
        except OSError as error:
            self._fail(request, host, error.errno or errno.EHOSTUNREACH)
        else:
            # Where any host is granted, a function could ask for the addresses of all names inside.
            leads_to = "an address that is not public"
            if by_name:
                leads_to = f"{', '.join(found[:_ADDRESSES])}, {leads_to}"
            why = f"{host} leads to {leads_to}"
            try_ = "ask the operator to list its network in private_networks, and grant the host by name"
            self._refuse(request, host, "not public", why, try_)
        return None

    async def _relay(
        self, request: Connect, host: str, remote: socket.socket, sockets: list[socket.socket]
    ) -> None:
        """Give the child its end of the connection, and relay until it is over."""
        try:
            # Socket options that the child sets do not reach the host; nearly all clients set these two.
            remote.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            remote.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            sockets.append(self._event_loop.track(ours))
            with theirs:
                answer = _encoder.encode(Answer(id=request.id))
                socket.send_fds(self._endpoint, [answer], [theirs.fileno()])
        except OSError as error:
            self._fail(request, host, error.errno or errno.EIO)
            return
        self._traffic.connections += 1
        relay = Relay(self._event_loop, ours, remote, self._meter, self._on_bytes_exhausted)
        self._relays.add(relay)
        try:
            await relay.run()
        finally:
            self._relays.discard(relay)

    def _on_bytes_exhausted(self) -> None:
        if not self._traffic.exhausted:
            self._traffic.exhausted = True
            _log.warning(
                "byte limit reached, connections of the run closed", run=self._id, limit=self._meter.limit
            )
        self._hang_up()

    def _fail(self, request: Connect, host: str, number: int) -> None:
        message = f"{os.strerror(number)}: connecting to {_host_port(host, request.port)}"
        self._answer(Answer(id=request.id, error=number, message=message))

    def _refuse(
        self, request: Connect, host: str, reason: str, why: str, try_: str, number: int = errno.EACCES
    ) -> None:
        host = escape_control_characters(host)
        self._refusals += 1
        if self._refusals <= REFUSALS_KEPT:
            self._traffic.refused.append((host, request.port, reason))
        if self._refusals <= _REFUSALS_LOGGED:
            _log.warning("connection refused", run=self._id, host=host, port=request.port, reason=reason)
        message = (
            f"the function may not connect to {_host_port(host, request.port)}\n"
            f"{escape_control_characters(why)}\ntry: {try_}"
        )
        self._answer(Answer(id=request.id, error=number, message=message[:_MESSAGE_LENGTH]))

    def _answer(self, answer: Answer) -> None:
        try:
            self._endpoint.send(_encoder.encode(answer))
        except BlockingIOError:
            self._end_on_violation("it does not read its answers")
        except OSError:
            # The child has closed its end.
            return


def _cancel(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task once: a second cancellation would interrupt what the first one closes."""
    if task is not None and not task.cancelling():
        task.cancel()


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

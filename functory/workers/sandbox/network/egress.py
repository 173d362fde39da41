"""What one run may do with the network: its requests, judged and carried out, and the count of it all.

A ``Gate`` belongs to a ``Broker`` and lives in the thread of its reactor. The child at the other end is never
trusted: what is not a well-formed request, in order, ends its network; its descriptors are never received;
connections, lookups, requests and bytes are bounded, and so is the memory that is held for it.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import structlog

from functory.engine.access import host_grants
from functory.engine.errors import Invalid
from functory.workers.sandbox.network import addresses
from functory.workers.sandbox.network.dns import DnsResolver
from functory.workers.sandbox.network.event_loop import EventLoop, Timer, socket_pair
from functory.workers.sandbox.network.happy_eyeballs import HappyEyeballs
from functory.workers.sandbox.network.relay import ByteMeter, Relay
from functory.workers.sandbox.protocol.connect import FRAME_BYTES, Answer, Connect
from functory.workers.sandbox.protocol.log_lines import escape_control_characters

MAX_CONNECTIONS = 16  # of one run at the same time: what a browser opens for a page, several times over
MAX_REQUESTS = 10_000  # of one run, refused ones included: each costs a lookup or a connection
REFUSALS_KEPT = 100  # of one run: enough to see what it wanted
_REFUSALS_LOGGED = 10
_LOOKUPS = 2  # of one run at the same time, so that one with slow names leaves threads to the others
_ADDRESSES = 4  # of one name that are tried
_MESSAGE_LENGTH = 600  # leaves room in a frame

_log = structlog.get_logger(__name__)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Connect)


@dataclass
class Traffic:
    """What one run did with its network. ``sent`` and ``received`` are bytes, as the function sees it."""

    connections: int = 0
    sent: int = 0
    received: int = 0
    refused: list[tuple[str, int, str]] = field(default_factory=list)
    """Host, port and reason of refused connections, the first ``REFUSALS_KEPT``."""
    exhausted: bool = False
    """It passed its limit of bytes, and all its connections were closed."""
    violation: str = ""
    """How it broke the protocol; empty when it did not."""


class _Pending:
    """A connection on its way: looked up, then dialled."""

    def __init__(
        self, request: Connect, host: str, private: Sequence[addresses.Network], deadline: float
    ) -> None:
        self.request = request
        self.host = host
        self.private = private
        self.deadline = deadline
        self.timer: Timer | None = None
        self.connector: HappyEyeballs | None = None
        self.closed = False

    def close(self) -> None:
        self.closed = True
        if self.timer is not None:
            self.timer.cancel()
        if self.connector is not None:
            self.connector.cancel()


class RunEgress:
    """The door of one run. After ``__init__`` it lives in the reactor's thread."""

    def __init__(
        self,
        run_id: str,
        endpoint: socket.socket,
        grants: Sequence[host_grants.HostGrant],
        bytes_limit: int,
        private: Sequence[addresses.Network],
        event_loop: EventLoop,
        resolver: DnsResolver,
    ) -> None:
        self._id = run_id
        self._endpoint = endpoint
        self._grants = grants
        self._private = private
        self._event_loop = event_loop
        self._resolver = resolver
        self._meter = ByteMeter(bytes_limit)
        self._traffic = Traffic()
        self._relays: set[Relay] = set()
        self._pending: set[_Pending] = set()
        self._lookup_queue: deque[_Pending] = deque()
        self._lookups = 0
        self._last_id = 0
        self._requests = 0
        self._refusals = 0

    def start(self) -> None:
        self._event_loop.watch(self._endpoint, select.EPOLLIN, self._on_request)

    def close(self) -> Traffic:
        for relay in list(self._relays):
            # The function has ended well or not; what it sent before belongs to it.
            relay.flush()
        self._hang_up()
        self._event_loop.discard(self._endpoint)
        if self._refusals > _REFUSALS_LOGGED:
            _log.warning("connects_refused", run=self._id, count=self._refusals)
        return self.traffic()

    def open_period(self) -> Traffic:
        traffic = self.traffic()
        self._meter.sent = self._meter.received = self._requests = self._refusals = 0
        self._traffic = Traffic(violation=self._traffic.violation)
        return traffic

    def traffic(self) -> Traffic:
        self._traffic.sent, self._traffic.received = self._meter.sent, self._meter.received
        return self._traffic

    def _hang_up(self) -> None:
        for pending in list(self._pending):
            pending.close()
        self._pending.clear()
        self._lookup_queue.clear()
        for relay in list(self._relays):
            relay.close()

    def _on_request(self, events: int) -> None:
        try:
            # Without room for ancillary data: descriptors that come along are dropped by the kernel. What is
            # longer than any request is cut by it, and is none then.
            data = self._endpoint.recv(FRAME_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            # It asks no more; the connections that it has stay.
            self._event_loop.discard(self._endpoint)
            return
        self._requests += 1
        try:
            request = self._read(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self._end_on_violation(str(error))
        else:
            self._last_id = request.id
            self._handle_request(request)

    def _read(self, data: bytes) -> Connect:
        request = _decoder.decode(data)
        if request.id <= self._last_id:
            raise ValueError(f"request {request.id} came after {self._last_id}")
        if self._requests > MAX_REQUESTS:
            raise ValueError(f"more than {MAX_REQUESTS} requests")
        return request

    def _end_on_violation(self, how: str) -> None:
        """The child does not keep to the protocol: it has no network any more."""
        if not self._traffic.violation:
            self._traffic.violation = escape_control_characters(how)
            _log.warning("broker_protocol_error", run=self._id, reason=self._traffic.violation)
        self._hang_up()
        self._event_loop.discard(self._endpoint)

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
            self._refuse(request, host, "bytes used up", why, "fetch less in one execution")
        elif len(self._relays) + len(self._pending) >= MAX_CONNECTIONS:
            why = f"it has {MAX_CONNECTIONS} connections, the most at the same time"
            self._refuse(
                request, host, "too many connections", why, "close those that are done", errno.EMFILE
            )
        else:
            # A host that only "*" covers must be public, whatever else the operator lists.
            private = () if all(grant.is_any_host for grant in granted) else self._private
            pending = _Pending(request, host, private, self._event_loop.monotonic() + request.timeout)
            self._pending.add(pending)
            if host_grants.is_address(host):
                self._connect(pending, [host])
            else:
                pending.timer = self._event_loop.call_at(pending.deadline, lambda: self._expire(pending))
                self._lookup_queue.append(pending)
                self._start_lookups()

    def _start_lookups(self) -> None:
        while self._lookup_queue and self._lookups < _LOOKUPS:
            pending = self._lookup_queue.popleft()
            if not pending.closed:
                self._lookups += 1
                self._resolver.resolve(
                    pending.host,
                    pending.request.port,
                    lambda found, pending=pending: self._event_loop.call_soon(
                        lambda: self._on_resolved(pending, found)
                    ),
                )

    def _on_resolved(self, pending: _Pending, found: Sequence[str]) -> None:
        self._lookups -= 1
        self._start_lookups()
        if pending.closed:
            return
        if pending.timer is not None:
            pending.timer.cancel()
        if found:
            self._connect(pending, found)
        else:
            self._drop(pending)
            message = f"the name {pending.host} leads to no address"
            self._answer(
                Answer(id=pending.request.id, error=errno.EHOSTUNREACH, message=message, unresolved=True)
            )

    def _connect(self, pending: _Pending, found: Sequence[str]) -> None:
        """Connect to what was found, as far as it may be connected to: these addresses and no others."""
        permitted = [address for address in found if addresses.permitted(address, pending.private)]
        if permitted:
            pending.connector = HappyEyeballs(
                self._event_loop,
                permitted[:_ADDRESSES],
                pending.request.port,
                pending.deadline,
                lambda connected, number: self._connected(pending, connected, number),
            )
            return
        self._drop(pending)
        why = "it leads to an address that is not public"
        try_ = "ask the operator to list its network in private_networks, and grant the host by name"
        self._refuse(pending.request, pending.host, "not public", why, try_)

    def _expire(self, pending: _Pending) -> None:
        self._drop(pending)
        self._fail(pending, errno.ETIMEDOUT)

    def _connected(self, pending: _Pending, host: socket.socket | None, number: int) -> None:
        self._drop(pending)
        if host is None:
            self._fail(pending, number)
            return
        # The child's own wishes do not come through; this is what nearly all clients set.
        host.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            ours, theirs = socket_pair()
        except OSError as error:
            host.close()
            self._fail(pending, error.errno or errno.EMFILE)
            return
        with theirs:
            try:
                answer = _encoder.encode(Answer(id=pending.request.id))
                socket.send_fds(self._endpoint, [answer], [theirs.fileno()])
            except OSError as error:
                ours.close()
                host.close()
                self._fail(pending, error.errno or errno.EIO)
                return
        self._traffic.connections += 1
        self._relays.add(
            Relay(self._event_loop, ours, host, self._meter, self._on_bytes_exhausted, self._relays.discard)
        )

    def _on_bytes_exhausted(self) -> None:
        self._traffic.exhausted = True
        _log.warning("network_bytes_used_up", run=self._id, limit=self._meter.limit)
        self._hang_up()

    def _drop(self, pending: _Pending) -> None:
        pending.close()
        self._pending.discard(pending)

    def _fail(self, pending: _Pending, number: int) -> None:
        where = _host_port(pending.host, pending.request.port)
        message = f"{os.strerror(number)}: connecting to {where}"
        self._answer(Answer(id=pending.request.id, error=number, message=message))

    def _refuse(
        self, request: Connect, host: str, reason: str, why: str, try_: str, number: int = errno.EACCES
    ) -> None:
        host = escape_control_characters(host)
        self._refusals += 1
        if self._refusals <= REFUSALS_KEPT:
            self._traffic.refused.append((host, request.port, reason))
        if self._refusals <= _REFUSALS_LOGGED:
            _log.warning("connect_refused", run=self._id, host=host, port=request.port, reason=reason)
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
            # It has closed the door and hears nothing.
            return


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""The broker stays within its bounds, whatever hostile code sends at the raw end of its socket."""

from __future__ import annotations

import array
import select
import socket
import threading
import time

import msgspec
import pytest

from functory.workers.sandbox.network.connection_broker import ConnectionBroker
from functory.workers.sandbox.network.granted_connections import MAX_CONNECTIONS, MAX_REQUESTS
from functory.workers.sandbox.network.relay import BUFFER_BYTES
from functory.workers.sandbox.protocol.connect import Connect
from tests.support.network_world import PATIENCE, Raw, accepted, drain, flood, listener, read_all

pytest_plugins = ["tests.support.connection_broker"]


def test_the_seventeenth_connection_is_refused_until_one_is_closed(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}")
        connections = [raw.connect("api.example.com", port) for _ in range(MAX_CONNECTIONS)]
        assert f"{MAX_CONNECTIONS} connections" in raw.refused("api.example.com", port)
        peers = [accepted(server) for _ in connections]
        connections[3].close()
        # The host sees the end of that connection when the count is settled.
        ready, _, _ = select.select(peers, [], [], PATIENCE)
        assert [peer.recv(1) for peer in ready] == [b""]
        connections[3] = raw.connect("api.example.com", port)
        assert broker.close("run").connections == MAX_CONNECTIONS + 1
        for peer in (*peers, accepted(server)):
            peer.close()


def test_a_connection_that_was_half_closed_counts_no_more_once_the_child_closes_it(
    broker: ConnectionBroker,
) -> None:
    """The host neither answers nor closes: only the hang-up of the child's end shows the end of the connection."""
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}")
        connections = [raw.connect("api.example.com", port) for _ in range(MAX_CONNECTIONS)]
        peers = [accepted(server) for _ in connections]
        for connection, peer in zip(connections, peers, strict=True):
            connection.shutdown(socket.SHUT_WR)
            assert peer.recv(1) == b""
        assert f"{MAX_CONNECTIONS} connections" in raw.refused("api.example.com", port)
        for connection in connections:
            connection.close()
        deadline = time.monotonic() + PATIENCE
        connected = None
        while connected is None and time.monotonic() < deadline:
            raw.ask("api.example.com", port)
            connected = raw.hear()[1]
        assert connected is not None
        for peer in peers:
            peer.close()


@pytest.mark.parametrize("direction", ["out", "in"])
def test_a_run_that_passes_the_limit_of_bytes_loses_the_network(
    broker: ConnectionBroker, direction: str
) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}", limit=3 * BUFFER_BYTES)
        connection, peer = raw.connect("api.example.com", port), accepted(server)
        other, other_peer = raw.connect("api.example.com", port), accepted(server)
        source, sink = (connection, peer) if direction == "out" else (peer, connection)
        sender = threading.Thread(target=flood, args=(source,))
        sender.start()
        got = drain(sink)
        sender.join(PATIENCE)
        assert not sender.is_alive()
        assert got <= 3 * BUFFER_BYTES
        # All of the run's connections are closed, and it gets no other.
        assert drain(other) == 0 and drain(other_peer) == 0
        assert "used up" in raw.refused("api.example.com", port)
        traffic = broker.close("run")
        assert traffic.exhausted
        assert traffic.sent + traffic.received <= 3 * BUFFER_BYTES + 1


def test_exactly_the_limit_of_bytes_passes(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}", limit=100_000)
        connection, peer = raw.connect("api.example.com", port), accepted(server)
        connection.sendall(b"x" * 60_000)
        connection.shutdown(socket.SHUT_WR)
        assert len(read_all(peer)) == 60_000
        peer.sendall(b"y" * 40_000)
        peer.close()
        assert len(read_all(connection)) == 40_000
        traffic = broker.close("run")
        assert (traffic.sent, traffic.received, traffic.exhausted) == (60_000, 40_000, False)


def test_a_lap_counts_anew(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}", limit=100)
        connection, peer = raw.connect("api.example.com", port), accepted(server)
        for _ in range(3):
            connection.sendall(b"x" * 80)
            assert len(peer.recv(80, socket.MSG_WAITALL)) == 80
            lap = broker.open_period("run")
            assert (lap.sent, lap.exhausted) == (80, False)
        assert broker.close("run").sent == 0


_GARBAGE = {
    "no msgpack": b"\xc1",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "another type": msgspec.msgpack.encode({"t": "answer", "id": 1}),
    "an unknown field": msgspec.msgpack.encode(
        {"t": "connect", "id": 1, "host": "a", "port": 1, "timeout": 1.0, "more": 1}
    ),
    "a field missing": msgspec.msgpack.encode({"t": "connect", "id": 1, "host": "a", "port": 1}),
    "an unused port": msgspec.msgpack.encode(
        {"t": "connect", "id": 1, "host": "a", "port": 65_536, "timeout": 1.0}
    ),
    "no end of patience": msgspec.msgpack.encode(
        {"t": "connect", "id": 1, "host": "a", "port": 1, "timeout": float("inf")}
    ),
    "no number": msgspec.msgpack.encode(
        {"t": "connect", "id": 1, "host": "a", "port": 1, "timeout": float("nan")}
    ),
    "an id of zero": msgspec.msgpack.encode(
        {"t": "connect", "id": 0, "host": "a", "port": 1, "timeout": 1.0}
    ),
    "a long name": msgspec.msgpack.encode(
        {"t": "connect", "id": 1, "host": "a" * 256, "port": 1, "timeout": 1.0}
    ),
    "deep": b"\x91" * 1000,
    "oversized": b"\xda\xff\xff" + b"a" * 65_535,
    "a tail": msgspec.msgpack.encode(Connect(id=1, host="a", port=1, timeout=1.0)) + b"\x00",
}


@pytest.mark.parametrize("kind", _GARBAGE)
def test_garbage_ends_the_network_of_that_run_alone(broker: ConnectionBroker, kind: str) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        honest = Raw(broker, f"api.example.com:{port}", run="honest")
        kept, kept_peer = honest.connect("api.example.com", port), accepted(server)
        raw = Raw(broker, f"api.example.com:{port}")
        connection, peer = raw.connect("api.example.com", port), accepted(server)
        raw.door.send(_GARBAGE[kind])
        assert raw.door.recv(100) == b""
        assert read_all(connection) == b"" and read_all(peer) == b""
        assert broker.close("run").violation
        kept.sendall(b"still")
        assert kept_peer.recv(5, socket.MSG_WAITALL) == b"still"
        assert not broker.close("honest").violation


@pytest.mark.parametrize("second", [1, 5])
def test_ids_that_do_not_grow_end_the_network(broker: ConnectionBroker, second: int) -> None:
    raw = Raw(broker)
    raw.ask("api.example.com", 443, id=5)
    raw.hear()
    raw.ask("api.example.com", 443, id=second)
    with pytest.raises(EOFError):
        raw.hear()
    assert f"request {second} came after 5" in broker.close("run").violation


def test_requests_without_end_are_ended(broker: ConnectionBroker) -> None:
    raw = Raw(broker)
    with pytest.raises(EOFError):
        for _ in range(MAX_REQUESTS + 1):
            raw.refused("api.example.com", 443)
    traffic = broker.close("run")
    assert "requests" in traffic.violation
    assert len(traffic.refused) == 100


def test_a_child_that_does_not_read_its_answers_is_cut_off(broker: ConnectionBroker) -> None:
    raw = Raw(broker)
    with pytest.raises(OSError):
        for _ in range(MAX_REQUESTS):
            raw.ask("api.example.com", 443)
    assert broker.close("run").violation == "it does not read its answers"


def test_descriptors_of_the_child_are_never_received(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}")
        raw.connect("api.example.com", port).close()
        accepted(server).close()
        ours, theirs = socket.socketpair()
        request = msgspec.msgpack.encode(Connect(id=2, host="api.example.com", port=1, timeout=1.0))
        raw.door.sendmsg(
            [request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()] * 9))]
        )
        theirs.close()
        assert raw.hear()[0].error
        # The other end is closed: the kernel dropped it with the message.
        assert ours.recv(1) == b""
        connection = raw.connect("api.example.com", port, id=3)
        ours, theirs = socket.socketpair()
        connection.sendmsg(
            [b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
        )
        theirs.close()
        with accepted(server) as peer:
            assert peer.recv(1) == b"x"
        assert ours.recv(1) == b""


def test_what_arrives_in_the_sandbox_is_no_network_socket(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        connection = Raw(broker, f"api.example.com:{port}").connect("api.example.com", port)
        assert connection.family == socket.AF_UNIX
        assert connection.getpeername() == ""

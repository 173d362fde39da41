"""Granted connections carry all bytes in order, and end with their run and their worker."""

from __future__ import annotations

import os
import select
import socket
import threading
import time

import pytest

from functory.engine.errors import Unavailable
from functory.workers.sandbox.network.connection_broker import ConnectionBroker
from tests.support.network_world import (
    LOOPBACK,
    MEGABYTE,
    Names,
    Raw,
    accepted,
    answer,
    confined,
    descriptors,
    door,
    listener,
    read_all,
    started,
)

pytest_plugins = ["tests.support.connection_broker"]


_A_FEW_MEGABYTES = 16 * MEGABYTE  # what kernel and relay hold for one connection that is not read


def test_each_direction_ends_by_itself(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}")
        connection, peer = raw.connect("api.example.com", port), accepted(server)
        connection.sendall(b"question")
        connection.shutdown(socket.SHUT_WR)
        assert read_all(peer) == b"question"
        peer.sendall(b"answer" * 100_000)
        peer.close()
        assert read_all(connection) == b"answer" * 100_000

        connection, peer = raw.connect("api.example.com", port), accepted(server)
        peer.shutdown(socket.SHUT_WR)
        assert read_all(connection) == b""
        connection.sendall(b"late" * 100_000)
        connection.close()
        assert read_all(peer) == b"late" * 100_000


@pytest.mark.parametrize("direction", ["out", "in"])
def test_a_slow_side_stops_the_other_one(broker: ConnectionBroker, direction: str) -> None:
    """Bytes sent while the other side does not read stay bounded; then all of them arrive, in order."""
    size = 48 * MEGABYTE
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}", limit=2 * size)
        connection, peer = raw.connect("api.example.com", port), accepted(server)
        source, sink = (connection, peer) if direction == "out" else (peer, connection)
        source.setblocking(False)
        sent = 0
        block = bytes(range(256)) * 1024
        # Full several times in a row: nothing flows any more.
        while sent < size and _writable(source):
            sent += source.send(block[sent % 256 :])
        assert 0 < sent < _A_FEW_MEGABYTES
        traffic = broker.open_period("run")
        assert traffic.sent + traffic.received <= sent
        source.setblocking(True)
        source.shutdown(socket.SHUT_WR)
        got = read_all(sink)
        assert got == (bytes(range(256)) * (sent // 256 + 1))[:sent]


def _writable(source: socket.socket) -> bool:
    return bool(select.select([], [source], [], 0.5)[1])


def test_a_connection_that_the_host_resets_ends(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}")
        connection, peer = raw.connect("api.example.com", port), accepted(server)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        peer.close()
        assert connection.recv(10) == b""
        with pytest.raises(OSError):
            while True:
                connection.send(b"x")


def test_a_host_that_refuses_is_reported_as_such(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
    result = confined(
        door(broker, f"api.example.com:{port}"),
        """
        import socket
        try:
            socket.create_connection(("api.example.com", PORT), 5)
        except ConnectionRefusedError as error:
            result = str(error)
        """,
        PORT=port,
    )
    assert result == f"[Errno 111] Connection refused: connecting to api.example.com:{port}"


def test_the_end_of_a_run_closes_its_connections_and_keeps_what_was_sent(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        with started(
            door(broker, f"api.example.com:{port}"),
            """
            import socket, sys
            first = socket.create_connection(("api.example.com", PORT))
            first.sendall(b"kept" * 1000)
            print("sent", flush=True)
            sys.stdin.read() or first.recv(1)
            """,
            PORT=port,
        ) as process:
            peer = accepted(server)
            assert process.stdout is not None and process.stdout.readline() == "sent\n"
            traffic = broker.close("run")
            assert read_all(peer) == b"kept" * 1000
            assert traffic.sent == 4000
            assert answer(process) is None


def test_a_child_that_dies_closes_its_connections(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        with started(
            door(broker, f"api.example.com:{port}"),
            """
            import os, socket
            first = socket.create_connection(("api.example.com", PORT))
            first.sendall(b"last words")
            os._exit(0)
            """,
            PORT=port,
        ):
            assert read_all(accepted(server)) == b"last words"


def test_nothing_is_left_of_closed_runs(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        first = Raw(broker, run="first")
        assert first.refused("api.example.com", 1)  # the thread has started
        before = descriptors()
        for number in range(20):
            raw = Raw(broker, f"api.example.com:{port}", run=str(number))
            connections = [raw.connect("api.example.com", port) for _ in range(5)]
            peers = [accepted(server) for _ in connections]
            raw.ask("slow.example.com", port)
            broker.close(str(number))
            for each in (raw.door, *connections, *peers):
                each.close()
        # One round trip: what was to be closed after the last events has been.
        assert broker.open_period("first").connections == 0
        assert descriptors() <= before  # fewer: threads of earlier tests close theirs


def test_a_stopped_broker_ends_all_and_opens_nothing(names: Names) -> None:
    others = set(threading.enumerate())
    broker = ConnectionBroker(LOOPBACK, resolve=names)
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}")
        connection, peer = raw.connect("api.example.com", port), accepted(server)
        [loop] = [
            thread for thread in set(threading.enumerate()) - others if thread.name == "functory-broker"
        ]
        broker.stop()
        assert read_all(connection) == b"" and read_all(peer) == b"" and raw.door.recv(1) == b""
    with pytest.raises(Unavailable):
        broker.open("late", [], 1)
    broker.stop()
    assert not loop.is_alive()


def test_a_forked_copy_of_the_worker_starts_anew_and_disturbs_nothing(broker: ConnectionBroker) -> None:
    stopped = ConnectionBroker()
    stopped.open("early", [], 1).close()
    stopped.stop()
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}")
        connection, peer = raw.connect("api.example.com", port), accepted(server)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                own = Raw(broker, f"api.example.com:{port}")
                with own.connect("api.example.com", port) as again:
                    again.sendall(b"copy")
                assert broker.close("run").sent == 4
                code = 0
            finally:
                os._exit(code)
        assert read_all(accepted(server)) == b"copy"
        assert os.waitpid(pid, 0)[1] == 0
        connection.sendall(b"original")
        assert peer.recv(8, socket.MSG_WAITALL) == b"original"
        broker.close("run")
        # The copy holds nothing open of the original's.
        assert read_all(peer) == b"" and read_all(connection) == b""


def test_a_connection_that_waits_costs_no_turn_of_the_thread(names: Names) -> None:
    """An end is reported once, and not in each round of the loop: the clock is read once in a round."""
    turns = 0

    def clock() -> float:
        nonlocal turns
        turns += 1
        return time.monotonic()

    broker = ConnectionBroker(LOOPBACK, resolve=names, monotonic=clock)
    with listener() as server:
        port = server.getsockname()[1]
        raw = Raw(broker, f"api.example.com:{port}")
        pairs = [(raw.connect("api.example.com", port), accepted(server)) for _ in range(4)]
        half, ended, full, reset = pairs
        half[0].shutdown(socket.SHUT_WR)
        ended[1].shutdown(socket.SHUT_WR)
        for _, peer in (full, reset):
            peer.setblocking(False)
            while _writable(peer):
                peer.send(b"x" * 65_536)
        reset[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        reset[1].close()
        full[1].shutdown(socket.SHUT_WR)
        raw.door.close()
        assert half[1].recv(1) == b"" and ended[0].recv(1) == b""
        broker.open_period("run")
        before = turns
        threading.Event().wait(0.3)
        assert turns - before < 20
    broker.stop()

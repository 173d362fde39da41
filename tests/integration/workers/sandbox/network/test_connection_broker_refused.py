"""Connections are refused to hosts without a grant, and to names that lead to addresses that are not public."""

from __future__ import annotations

import errno
import os
import socket
import threading

import pytest

from functory.engine.errors import Invalid
from functory.workers.sandbox.network import addresses, dns
from functory.workers.sandbox.network.connection_broker import ConnectionBroker
from tests.support.network_world import (
    LOOPBACK,
    PATIENCE,
    Names,
    Raw,
    accepted,
    confined,
    descriptors,
    door,
    listener,
    read_all,
    web,
)

pytest_plugins = ["tests.support.connection_broker"]


def test_an_ungranted_host_says_what_to_grant(broker: ConnectionBroker, names: Names) -> None:
    names.table["other.example.com"] = ["127.0.0.1"]
    result = confined(
        door(broker, "api.example.com"),
        """
        import asyncio, socket, urllib.error, urllib.request
        import httpx, requests
        def said(what):
            try:
                what()
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        result = [
            said(lambda: socket.create_connection(("other.example.com", 443))),
            said(lambda: asyncio.run(asyncio.open_connection("other.example.com", 8443))),
            said(lambda: requests.get("https://other.example.com")),
            said(lambda: httpx.get("https://other.example.com")),
            said(lambda: urllib.request.urlopen("http://[2606:4700::1]:8080")),
        ]
        """,
    )
    plain, stream, requested, httpxed, six = result
    assert plain == (
        "PermissionError: [Errno 13] the function may not connect to other.example.com:443\n"
        'its version is not granted that host\ntry: hosts=["other.example.com"]'
    )
    assert stream.startswith("PermissionError") and 'hosts=["other.example.com:8443"]' in stream
    assert "may not connect to other.example.com:443" in requested
    assert "may not connect to other.example.com:443" in httpxed
    assert "may not connect to [2606:4700::1]:8080" in six
    traffic = broker.close("run")
    assert traffic.connections == 0
    assert traffic.refused[:2] == [
        ("other.example.com", 443, "not granted"),
        ("other.example.com", 8443, "not granted"),
    ]
    assert names.asked == [], "a name that is not granted is not even looked up"


def test_a_redirect_to_an_ungranted_host_is_refused(broker: ConnectionBroker, names: Names) -> None:
    names.table["inside.example.com"] = ["127.0.0.1"]
    with web() as port:
        result = confined(
            door(broker, f"api.example.com:{port}"),
            """
            import urllib.request
            try:
                result = urllib.request.urlopen(f"http://api.example.com:{PORT}/to/http://inside.example.com:{PORT}/")
            except OSError as error:
                result = str(error)
            """,
            PORT=port,
        )
    assert f"may not connect to inside.example.com:{port}" in result


def test_no_grant_gives_no_network_and_a_wrong_one_no_door(broker: ConnectionBroker) -> None:
    assert "not granted" in Raw(broker).refused("api.example.com", 443)
    with pytest.raises(Invalid):
        broker.open("other", ["https://x.test/"], 1)
    with pytest.raises(ValueError, match="already"):
        broker.open("run", [], 1)
    assert broker.close("other").connections == 0


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.1.1",
        "100.100.100.200",
        "168.63.129.16",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%lo",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "no address",
    ],
)
def test_a_granted_name_that_leads_to_an_address_that_is_not_public_is_refused(address: str) -> None:
    # The table's answer is never connected to: the message says so, and the refusal is kept.
    broker = ConnectionBroker(resolve=lambda host, port: [address])
    raw = Raw(broker, "*")
    assert "an address that is not public" in raw.refused("api.example.com", 443)
    assert broker.close("run").refused == [("api.example.com", 443, "not public")]
    broker.stop()


@pytest.mark.parametrize(
    "host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1", "::1", "a b", "a\x00"]
)
def test_an_address_asked_for_directly_in_any_spelling_is_refused(host: str) -> None:
    broker = ConnectionBroker()
    assert "may not connect" in Raw(broker, "*", "*:1").refused(host, 443)
    broker.stop()


def test_the_operators_networks_are_for_hosts_granted_by_name(broker: ConnectionBroker) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        anybody = Raw(broker, f"*:{port}", run="any")
        assert "not public" in anybody.refused("api.example.com", port)
        named = Raw(broker, f"api.example.com:{port}", "*", run="named")
        named.connect("api.example.com", port).close()


def test_a_network_that_is_none_is_refused_at_the_start() -> None:
    for text in ("10.1.2.3/16", "intranet", "10.0.0.0/33"):
        with pytest.raises(Invalid, match=r"try: an address and a length"):
            ConnectionBroker([text])


def test_behind_the_operators_own_translator_the_address_inside_counts() -> None:
    for inside, permitted in (("7f00:1", False), ("a00:1", False), ("808:808", True)):
        assert addresses.permitted(f"64:ff9b::{inside}", addresses.networks(["64:ff9b::/96"])) is permitted
    assert not addresses.permitted("::ffff:10.0.0.1", addresses.networks(["::/0"]))
    for public in ("8.8.8.8", "2606:4700:4700::1111", "192.0.1.1", "172.32.0.1", "100.128.0.1"):
        assert addresses.permitted(public)


def test_names_of_this_machine_are_resolved() -> None:
    assert set(dns.resolve_with_system("localhost", 80)) <= {"127.0.0.1", "::1"}
    assert dns.resolve_with_system("localhost", 80)


def test_hosts_are_reached_over_ipv6() -> None:
    broker = ConnectionBroker(["::1/128"], resolve=lambda host, port: ["::1"])
    with listener("::1") as server:
        port = server.getsockname()[1]
        result = confined(
            door(broker, f"six.example.com:{port}", f"[::1]:{port}"),
            """
            import socket
            found = socket.getaddrinfo("six.example.com", PORT, socket.AF_INET6, socket.SOCK_STREAM)[0]
            with socket.socket(*found[:3]) as six:
                six.connect(found[4])
                six.sendall(b"by name")
                ends = [six.getsockname(), six.getpeername()]
            with socket.create_connection(("::1", PORT)) as six:
                six.sendall(b"by address")
                ends.append(six.getpeername())
            result = ends
            """,
            PORT=port,
        )
        assert [read_all(accepted(server)) for _ in range(2)] == [b"by name", b"by address"]
    assert result == [["100::", 49152, 0, 0], ["100::1", port, 0, 0], ["::1", port, 0, 0]]
    broker.stop()


def test_of_several_addresses_the_permitted_ones_are_tried_in_turn(
    broker: ConnectionBroker, names: Names
) -> None:
    with listener() as server, listener("127.0.0.2") as closed:
        port = server.getsockname()[1]
        closed.close()
        # The first is not permitted, the second has no listener.
        names.table["api.example.com"] = ["10.9.9.9", "127.0.0.2", "127.0.0.1"]
        connection = Raw(broker, f"api.example.com:{port}").connect("api.example.com", port)
        with accepted(server) as peer:
            peer.sendall(b"found")
            peer.close()
        assert read_all(connection) == b"found"


def test_an_address_that_stays_silent_does_not_use_up_the_time(
    broker: ConnectionBroker, names: Names
) -> None:
    with listener() as server, socket.socket() as silent:
        port = server.getsockname()[1]
        silent.bind(("127.0.0.2", port))
        silent.listen(0)
        # A queue that is full drops what comes: the kernel neither accepts nor refuses.
        filling = [socket.socket() for _ in range(4)]
        for client in filling:
            client.setblocking(False)
            client.connect_ex(("127.0.0.2", port))
        names.table["silent.example.com"] = ["127.0.0.2"]
        names.table["api.example.com"] = ["127.0.0.2", "127.0.0.1"]
        raw = Raw(broker, f"*.example.com:{port}")
        raw.ask("silent.example.com", port, timeout=0.2)
        reply, none = raw.hear()
        assert none is None and reply.error == errno.ETIMEDOUT
        # Behind each lap, what the broker had to close before it is closed.
        broker.open_period("run")
        before = descriptors()
        raw.connect("api.example.com", port).close()
        with accepted(server) as peer:
            assert read_all(peer) == b""
        assert broker.open_period("run").connections == 1
        # The attempt that lost has been given up.
        assert descriptors() <= before  # fewer: threads of earlier tests close theirs
        for client in filling:
            client.close()


def test_an_answer_that_changes_after_the_check_has_no_effect(names: Names) -> None:
    with listener() as server:
        port = server.getsockname()[1]
        answers = iter([["127.0.0.2"], ["127.0.0.1"], ["127.0.0.1"]])
        names.table["api.example.com"] = lambda: next(answers)
        broker = ConnectionBroker(("127.0.0.2/32",), resolve=names)
        raw = Raw(broker, f"api.example.com:{port}")
        raw.ask("api.example.com", port)
        reply, connection = raw.hear()
        # It was connected to the checked address, which has no listener, and not to the answer of a second lookup.
        assert connection is None and os.strerror(reply.error) == "Connection refused"
        assert names.asked == ["api.example.com"]
        assert "not public" in raw.refused("api.example.com", port)
        broker.stop()
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_lookup_without_an_end_ends_with_the_timeout(names: Names) -> None:
    release = threading.Event()
    names.table["slow.example.com"] = lambda: [] * release.wait(PATIENCE)
    broker = ConnectionBroker(LOOPBACK, resolve=names)
    try:
        raw = Raw(broker, "*.example.com")
        for _ in range(5):
            raw.ask("slow.example.com", 443, timeout=0.05)
        assert {raw.hear()[0].error for _ in range(5)} == {errno.ETIMEDOUT}
        for _ in range(5):
            raw.ask("slow.example.com", 443)
        # One run with slow names leaves threads to the others.
        other = Raw(broker, "*.example.com", run="other")
        assert "leads to no address" in other.refused("quick.example.com", 443)
    finally:
        release.set()
        broker.stop()

"""Clients that hold connections without sending or reading are cut off, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from functory.api.bounded_connection import ConnectionLimits
from tests.support.http_sender import head, headers, raw, serving
from tests.support.patience import patient

HALF_A_HEAD = b"POST /webhooks/github HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: "
# Longer than any test: nothing is cut by time.
NEVER = 3600.0


@contextlib.contextmanager
def clients(url: str, number: int, sent: bytes = HALF_A_HEAD) -> Iterator[list[socket.socket]]:
    host, _, port = url.removeprefix("http://").partition(":")
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(number):
            one = stack.enter_context(socket.create_connection((host, int(port)), timeout=patient(20)))
            one.sendall(sent)
            made.append(one)
        yield made


def is_cut(client: socket.socket) -> bool:
    """Wait until the server ends a connection: True when it does so without an answer."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def serves(url: str) -> bool:
    return httpx.post(f"{url}/webhooks/github", content=b"{}", headers=headers(b"{}")).status_code == 202


def test_half_sent_heads_are_released(tmp_path: Path) -> None:
    limits = ConnectionLimits(head_seconds=0.5, max_connections=1000)
    with serving(tmp_path, limits=limits) as (_, url), clients(url, 400) as slow:
        assert serves(url)
        assert all(is_cut(one) for one in slow)
        assert serves(url)


@pytest.mark.parametrize("sent", [b"", b"G", head("content-length: 5")[:-2]])
def test_a_connection_without_a_whole_head_is_cut_however_far_it_came(tmp_path: Path, sent: bytes) -> None:
    limits = ConnectionLimits(head_seconds=0.3)
    with serving(tmp_path, limits=limits) as (_, url), clients(url, 1, sent) as (slow,):
        assert is_cut(slow)


def test_a_second_request_that_is_not_finished_is_cut_too(tmp_path: Path) -> None:
    """The timeout of the server library ends with the first byte."""
    limits = ConnectionLimits(head_seconds=0.5)
    first = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with serving(tmp_path, limits=limits) as (_, url), clients(url, 1, first + b"GET /hea") as (slow,):
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := slow.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.count(b"HTTP/1.1") == 1


def test_bytes_that_trickle_in_do_not_extend_the_time(tmp_path: Path) -> None:
    limits = ConnectionLimits(head_seconds=0.5)
    with serving(tmp_path, limits=limits) as (_, url), clients(url, 1) as (slow,):
        slow.settimeout(0.02)
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            for _ in range(100_000):
                slow.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    if slow.recv(1) == b"":
                        raise BrokenPipeError("Broken pipe")


def test_a_full_server_gives_a_new_client_the_place_of_the_one_that_waits_longest(tmp_path: Path) -> None:
    limits = ConnectionLimits(head_seconds=NEVER, max_connections=20)
    with serving(tmp_path, limits=limits) as (_, url), clients(url, 40) as slow:
        assert all(is_cut(one) for one in slow[:20])
        assert serves(url)
        assert is_cut(slow[20])


def test_a_full_server_refuses_a_client_when_all_others_have_a_request(tmp_path: Path) -> None:
    limits = ConnectionLimits(head_seconds=NEVER, max_connections=1)
    body_awaited = head("content-length: 10", "content-type: application/json", "expect: 100-continue")
    with serving(tmp_path, limits=limits) as (_, url), clients(url, 1, body_awaited) as (busy,):
        # The server asks for the body: the request has begun.
        assert busy.recv(65536).startswith(b"HTTP/1.1 100")
        assert raw(url, b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503")


def test_a_client_that_does_not_read_is_cut(tmp_path: Path) -> None:
    limits = ConnectionLimits(head_seconds=0.5)
    asks = b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with serving(tmp_path, limits=limits) as (_, url), clients(url, 1, b"") as (deaf,):
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # Until the buffers of the kernel are full, the server answers a hundred requests, and takes no more meanwhile.
        deaf.settimeout(60)
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            for _ in range(100_000):
                deaf.sendall(asks)
        assert serves(url)

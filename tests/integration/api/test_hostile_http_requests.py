"""Hostile HTTP requests over real sockets: they are refused, and the server serves on."""

from __future__ import annotations

import gzip
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from functory.client.functory import Functory
from tests.support.http_sender import LIMIT, count, head, headers, proof, raw, serving
from tests.support.patience import patient

HOSTILE: dict[str, tuple[bytes, bytes]] = {
    "two signatures": (
        head(
            "content-length: 2",
            "content-type: application/json",
            f"x-hub-signature-256: {proof(b'{}')}",
            "X-Hub-Signature-256: sha256=00",
        )
        + b"{}",
        b"404",
    ),
    "two content types": (
        head("content-length: 2", "content-type: application/json", "content-type: text/plain") + b"{}",
        b"415",
    ),
    "two lengths": (head("content-length: 2", "content-length: 3") + b"{}", b"400"),
    "a length and chunks": (
        head("content-length: 5", "transfer-encoding: chunked", "content-type: application/json")
        + b"0\r\n\r\nPOST /x",
        b"4",
    ),
    "a negative length": (head("content-length: -1"), b"400"),
    "a length that is no number": (head("content-length: two"), b"400"),
    "a length beyond all": (head(f"content-length: {10**30}"), b"4"),
    "a length beyond the limit": (head(f"content-length: {LIMIT + 1}"), b"413"),
    "chunks beyond the limit": (
        head("transfer-encoding: chunked", "content-type: application/json")
        + b"1000\r\n"
        + b"x" * 4096
        + b"\r\n1\r\nx\r\n",
        b"413",
    ),
    "chunks that are none": (
        head("transfer-encoding: chunked", "content-type: application/json") + b"zz\r\n{}\r\n",
        b"400",
    ),
    "a compressed transfer": (head("transfer-encoding: gzip"), b"400"),
    "a header of 100 kB": (head("content-length: 2", "x-long: " + "x" * 100_000) + b"{}", b"4"),
    "a header that is not UTF-8": (
        head("content-length: 2", "content-type: application/json", "x-hub-signature-256: \xff\xfe") + b"{}",
        b"404",
    ),
    "a header with a NUL": (head("content-length: 2", "x-hub-signature-256: a\x00b") + b"{}", b"400"),
    "a folded header": (head("content-length: 2", "x-a: b\r\n c") + b"{}", b"4"),
    "white space before the colon": (head("content-length : 2"), b"400"),
    "a method that is none": (b"PO ST /webhooks/github HTTP/1.1\r\n\r\n", b"400"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_requests_are_refused_and_the_server_serves_on(
    name: str, functory: Functory, url: str
) -> None:
    sent, status = HOSTILE[name]
    before = count(functory)
    answer = raw(url, sent)
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]
    assert count(functory) == before
    assert httpx.post(f"{url}/webhooks/github", content=b"{}", headers=headers(b"{}")).status_code == 202


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"0" * 10_000_000)[:4000]),
        ("deflate, gzip", b"{}"),
        ("br", b"{}"),
        ("x", b"{}"),
    ],
)
@pytest.mark.parametrize("path", ["webhooks/github", "webhooks/none", "events"])
def test_compressed_bodies_are_not_read(url: str, encoding: str, body: bytes, path: str) -> None:
    answer = httpx.post(
        f"{url}/{path}", content=body, headers=headers(body, content_encoding=encoding, ce_specversion="1.0")
    )
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity")
    identity = httpx.post(
        f"{url}/webhooks/github", content=b"{}", headers=headers(b"{}", content_encoding="identity")
    )
    assert identity.status_code == 202


def test_a_body_in_pieces_of_one_byte_is_the_same_body(functory: Functory, url: str) -> None:
    body = b'{"n": 1}'
    sent = [b"1\r\n" + body[n : n + 1] + b"\r\n" for n in range(len(body))]
    answer = raw(
        url,
        head(
            "transfer-encoding: chunked",
            "content-type: application/json",
            f"x-hub-signature-256: {proof(body)}",
        ),
        *sent,
        b"0\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 202")


def test_a_body_that_does_not_come_times_out_and_delays_no_other_request(tmp_path: Path) -> None:
    with serving(tmp_path, body_seconds=1.0) as (functory, url):
        begun = head(
            "content-length: 10", "content-type: application/json", f"x-hub-signature-256: {proof(b'{}')}"
        )
        with ThreadPoolExecutor(50) as pool:
            slow = [pool.submit(raw, url, begun + b"{") for _ in range(50)]
            # While fifty senders hold their bodies back, others are served.
            answer = httpx.post(
                f"{url}/webhooks/github", content=b"{}", headers=headers(b"{}"), timeout=patient(20)
            )
            assert answer.status_code == 202
            assert all(one.result().startswith(b"HTTP/1.1 408") for one in slow)
        # One who goes away in the middle is no defect either.
        host, _, port = url.removeprefix("http://").partition(":")
        socket.create_connection((host, int(port))).sendall(begun + b"{")
        assert httpx.post(f"{url}/webhooks/github", content=b"[]", headers=headers(b"[]")).status_code == 202
        assert count(functory) == 2

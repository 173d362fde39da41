"""Headers put into the requests of a stream of bytes, whatever its pieces, and nothing else changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functory.workers.sandbox.network.request_heads import MAX_HEAD_BYTES, MAX_LINE_BYTES, RequestHeads

LINEAGE = {"functory-lineage": "v1.x", "traceparent": "00-1-2-01", "tracestate": "functory=v1.x"}
ADDED = b"functory-lineage: v1.x\r\ntraceparent: 00-1-2-01\r\ntracestate: functory=v1.x\r\n"


def sent(stream: bytes, cuts: Iterable[int] = ()) -> bytes:
    heads = RequestHeads(lambda: LINEAGE)
    places = [0, *sorted({cut % (len(stream) + 1) for cut in cuts}), len(stream)]
    return b"".join(heads.feed(stream[a:b]) for a, b in itertools.pairwise(places))


# A request as it is sent, and where the headers go: at the mark.
REQUESTS = [
    b"GET / HTTP/1.1\r\nhost: x\r\n|\r\n",
    b"GET / HTTP/1.0\r\n|\r\n",
    b"\r\nDELETE /%20?q HTTP/1.1\r\nHost:x\r\n|\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 26\r\n|\r\nGET / HTTP/1.1\r\nhost: x\r\n\r",
    b"POST / HTTP/1.1\r\ncontent-length: 0\r\n|\r\n",
    b"PUT / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n|\r\n12;a=b\r\nGET / HTTP/1.1\r\n\r\n\r\n0\r\nx: y\r\n\r\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n|\r\n0\r\n\r\n",
]
# What nothing may be added to.
OTHERS = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"EHLO x\r\nMAIL FROM:<a@b>\r\n\r\n",
    b"get k\r\n\r\n",
    b"GET / HTTP/1.1\nhost: x\n\n",
    b"GET / HTTP/1.1\r\nhost: x\n\r\n",
    b"GET  / HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: x\r\n folded\r\n\r\n",
    b"GET / HTTP/1.1\r\n\rhost: x\r\n\r\n",
    b"GET /" + b"x" * MAX_LINE_BYTES + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * MAX_LINE_BYTES + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + (b"x: " + b"y" * 1000 + b"\r\n") * (MAX_HEAD_BYTES // 1000 + 1) + b"\r\n",
    b"\x00\r\n\r\nGET / HTTP/1.1\r\n\r\n",
]
# Heads after which the length of the body is not certain: the first request gets the headers, the rest passes as it is.
UNCERTAIN = [
    b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n|\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: +1\r\n|\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n|\r\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n|\r\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n|\r\nz\r\n",
    b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 100\r\n|\r\n",
    b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n|\r\n",
]


def with_headers(marked: bytes) -> bytes:
    head, _, rest = marked.partition(b"|")
    return head + ADDED + rest


cuts = st.lists(st.integers(0, 400), max_size=12)


@given(st.lists(st.sampled_from(REQUESTS), max_size=4), st.sampled_from([b"", *OTHERS, *UNCERTAIN]), cuts)
@example(REQUESTS, b"", range(400))
def test_each_request_gets_the_headers_in_whatever_pieces_it_comes(
    requests: list[bytes], end: bytes, where: list[int]
) -> None:
    stream = b"".join(requests).replace(b"|", b"") + end.replace(b"|", b"")
    wanted = b"".join(map(with_headers, requests)) + (with_headers(end) if b"|" in end else end)
    assert sent(stream, where) == wanted


@pytest.mark.parametrize("other", [*OTHERS, *(one.replace(b"|", b"") for one in UNCERTAIN)])
def test_what_follows_something_else_passes_as_it_is(other: bytes) -> None:
    follows = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    assert sent(other + follows).endswith(other[-4:] + follows)


@given(st.binary(max_size=200), cuts)
def test_bytes_that_are_no_request_pass_as_they_are(data: bytes, where: list[int]) -> None:
    assert sent(data, where) == data


@given(st.lists(st.sampled_from([*REQUESTS, *OTHERS, b"\r", b"\n", b"a: b\r\n", b"5\r\n"]), max_size=8), cuts)
def test_without_what_was_added_the_stream_is_the_one_that_was_sent(
    parts: list[bytes], where: list[int]
) -> None:
    stream = b"".join(parts).replace(b"|", b"")
    # The end of the connection in the middle of a head may keep its last byte.
    assert sent(stream, where).replace(ADDED, b"") in (stream, stream.removesuffix(b"\r"))


def test_other_bytes_are_not_held_back() -> None:
    heads = RequestHeads(lambda: LINEAGE)
    for piece in (b"P", b"I", b"NG", b"\r", b"\n", b"\r"):
        assert heads.feed(piece) == piece


@pytest.mark.parametrize(("present", "added"), [
    (b"Functory-Lineage: v1.x\r\ntraceparent: 00-1-2-01\r\nTraceState: functory=v1.x\r\n", b""),
    (b"functory-lineage: v1.old\r\n", ADDED),
    (b"traceparent: 00-9-9-00\r\ntracestate: other=1\r\n", b"functory-lineage: v1.x\r\ntracestate: functory=v1.x\r\n"),
])  # fmt: skip
def test_headers_that_are_there_are_kept(present: bytes, added: bytes) -> None:
    head = b"GET / HTTP/1.1\r\n" + present
    assert sent(head + b"\r\n") == head + added + b"\r\n"


def test_each_request_of_a_connection_gets_the_headers_of_its_time() -> None:
    lineage = {"functory-lineage": "one"}
    heads = RequestHeads(lambda: lineage)
    request = b"GET / HTTP/1.1\r\n\r\n"
    first = heads.feed(request)
    lineage["functory-lineage"] = "two"
    assert first + heads.feed(request) == (
        b"GET / HTTP/1.1\r\nfunctory-lineage: one\r\n\r\nGET / HTTP/1.1\r\nfunctory-lineage: two\r\n\r\n"
    )

"""Large JSON answers are compressed for clients that accept it, and what is sent in parts is not held back."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from functory.api.compression import Compression, accepts_gzip
from functory.client.functory import Functory
from functory.engine.settings import Settings
from tests.support.event_stream import streaming
from tests.support.patience import patient

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def functory(database_url: str, tmp_path: Path) -> Iterator[Functory]:
    settings = Settings.model_validate(
        {
            "home": tmp_path / "home",
            "database_url": database_url,
            "broker_url": "none://",
            "poll_seconds": 0.05,
        }
    )
    with Functory(settings) as made:
        yield made


@pytest.fixture
def url(functory: Functory) -> Iterator[str]:
    with streaming(functory) as found:
        yield found


def raw(url: str, path: str, **headers: str) -> tuple[httpx.Response, bytes]:
    """An answer, and its body as it was sent."""
    with httpx.stream("GET", f"{url}/api/v1{path}", headers={"x-name": "ada", **headers}) as answer:
        return answer, b"".join(answer.iter_raw())


def test_a_large_list_is_compressed_and_the_same(functory: Functory, url: str) -> None:
    functory.events.emit_many({"type": "order.created", "subject": "x" * 100} for _ in range(50))
    plain, whole = raw(url, "/events", **{"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    answer, sent = raw(url, "/events", **{"accept-encoding": "br, gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in answer.headers["vary"].lower()
    assert int(answer.headers["content-length"]) == len(sent) < len(whole) / 3
    assert json.loads(gzip.decompress(sent)) == json.loads(whole)
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/me", "/events/0000000000", "/stream"])
def test_small_answers_and_errors_are_not_compressed(url: str, path: str) -> None:
    answer, _ = raw(url, path, **{"accept-encoding": "gzip"})
    assert "content-encoding" not in answer.headers


def test_an_answer_to_a_change_is_not_compressed_because_it_may_show_a_token() -> None:
    async def token(_request: Request) -> JSONResponse:
        return JSONResponse({"token": "x" * 5000})

    app = Compression(Starlette(routes=[Route("/", token, methods=["GET", "POST"])]))
    client = TestClient(app, headers={"accept-encoding": "gzip"})
    assert client.get("/").headers["content-encoding"] == "gzip"
    assert "content-encoding" not in client.post("/").headers


def test_a_frame_of_the_stream_comes_at_once_to_a_client_that_accepts_gzip(
    functory: Functory, url: str
) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=patient(20)) as client:
        client.sendall(
            b"GET /api/v1/stream?topics=events HTTP/1.1\r\nhost: x\r\nx-name: ada\r\naccept-encoding: gzip\r\n\r\n"
        )
        got = b""
        while b": open" not in got:
            got += client.recv(65536)
        assert b"content-encoding" not in got.lower()
        id_ = functory.events.emit("order.created", {}, subject="one")
        # One small frame, while the stream stays open.
        while id_.encode() not in got:
            piece = client.recv(65536)
            assert piece
            got += piece


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("", False),
        ("br", False),
        ("gzip;q=0, br", False),
        ("*", False),
    ],
)
def test_what_a_client_accepts(given: str, accepted: bool) -> None:
    assert accepts_gzip(Headers({"accept-encoding": given})) is accepted

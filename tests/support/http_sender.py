"""A server on a free port with a webhook, and what senders send to it."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from functory.api import cloudevents, create_app, problem_details, webhooks
from functory.api.bounded_connection import ConnectionLimits
from functory.api.server import Server
from functory.client.functory import Functory
from functory.engine.settings import Settings

KEY = "the key of the sender"
LIMIT = 4096


def proof(body: bytes, key: str = KEY) -> str:
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def headers(body: bytes, delivery: str = "", **more: str) -> dict[str, str]:
    given = {"content-type": "application/json", "x-hub-signature-256": proof(body)}
    given |= {"x-github-delivery": delivery} if delivery else {}
    return given | {name.replace("_", "-"): value for name, value in more.items()}


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    body_seconds: float | None = None,
    limits: ConnectionLimits | None = None,
    **settings: Any,
) -> Iterator[tuple[Functory, str]]:
    """An engine that is not started, with a webhook ``github``, behind a server on a free port."""
    with Functory(Settings(home=folder / "home", **({"max_event_bytes": LIMIT} | settings))) as functory:
        functory.secrets.set("HOOK", KEY)
        functory.sources.save("webhook", "github", {"auth": {"type": "github", "secret": "HOOK"}})
        if body_seconds is None:
            app = create_app(functory)
        else:
            app = FastAPI()
            problem_details.install(app)
            webhooks.mount(app, functory, body_seconds=body_seconds)
            cloudevents.mount(app, functory, body_seconds=body_seconds)
        server = Server(app, "127.0.0.1", 0, limits)
        server.start()
        try:
            yield functory, server.url
        finally:
            server.stop(5)


def raw(url: str, *pieces: bytes, timeout: float = 20) -> bytes:
    """What a server answers to bytes, until it closes the connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                connection.sendall(piece)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                answer += piece
        return answer


def head(*lines: str, path: str = "/webhooks/github") -> bytes:
    return "\r\n".join(
        [f"POST {path} HTTP/1.1", "host: 127.0.0.1", "connection: close", *lines, "", ""]
    ).encode("latin-1")


def count(functory: Functory, type_: str = "webhook.received") -> int:
    return len(functory.events.list(type_=type_, limit=1000))

"""A client of the live stream, on a thread of its own: it collects frames until it is closed."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from functory.api import create_app
from functory.api.access.rights import OF_ROLE, Caller
from functory.api.bounded_connection import ConnectionLimits
from functory.api.server import Server
from functory.client.functory import Functory
from tests.support.patience import patient

# Callers by the name that a client of a test sends as its token.
CALLERS = {
    "ada": Caller("ada", "user", "admin", OF_ROLE["admin"]),
    "vic": Caller("vic", "user", "viewer", OF_ROLE["viewer"]),
    "bill": Caller("bill", "user", "admin", OF_ROLE["admin"], labels=("team:billing",)),
}


@dataclass
class Stream:
    """What one client has got: ``frames`` as (event, data), in their order."""

    frames: list[tuple[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    last_id: str = ""
    status: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def of(self, event: str, topic: str | None = None) -> list[Any]:
        """The data of the frames of one kind."""
        return [data for kind, data in self.frames if kind == event and topic in (None, data.get("topic"))]

    def rows(self, topic: str) -> list[Any]:
        """All rows of a topic, in the order in which they came."""
        return [row for data in self.of("rows", topic) for row in data["rows"]]

    def ids(self, topic: str) -> set[str]:
        return {row["id"] for row in self.rows(topic)}

    def lines(self) -> list[Any]:
        """All log lines."""
        return [line for data in self.of("log") for line in data["lines"]]


@contextlib.contextmanager
def stream(
    url: str, topics: str, *, name: str = "ada", token: str = "", last_id: str = ""
) -> Iterator[Stream]:
    """A stream that is open inside of the block, of a caller by its name, or by its token where the server asks for
    one.
    """
    found, opened = Stream(), threading.Event()
    headers = {"authorization": f"Bearer {token}"} if token else {"x-name": name}
    headers |= {"last-event-id": last_id} if last_id else {}
    client = httpx.Client(timeout=patient(60))
    responses: list[httpx.Response] = []

    def read() -> None:
        with (
            contextlib.suppress(httpx.HTTPError, httpx.StreamError, OSError),
            client.stream(
                "GET", f"{url}/api/v1/stream", params={"topics": topics}, headers=headers
            ) as response,
        ):
            responses.append(response)
            found.status = response.status_code
            opened.set()
            event, data = "", ""
            for line in response.iter_lines():
                kind, _, value = line.partition(": ")
                if kind == "id":
                    found.last_id = value
                elif kind == "event":
                    event = value
                elif kind == "data":
                    data = value
                elif line.startswith(": "):
                    found.comments.append(line[2:])
                elif not line and data:
                    found.frames.append((event, json.loads(data)))
                    event, data = "", ""
        opened.set()
        found.ended.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    assert opened.wait(patient(20))
    try:
        yield found
    finally:
        for response in responses:
            with contextlib.suppress(Exception):
                response.extensions["network_stream"].get_extra_info("socket").shutdown(2)
        thread.join(patient(10))
        client.close()


@contextlib.contextmanager
def streaming(
    functory: Functory, limits: ConnectionLimits | None = None, *, authenticated: bool = False
) -> Iterator[str]:
    """The URL of a server over this engine, whose callers name themselves, or are ``authenticated``."""
    named = None if authenticated else lambda request: CALLERS[request.headers["x-name"]]
    server = Server(create_app(functory, authenticate=named), "127.0.0.1", 0, limits)
    server.start()
    try:
        yield server.url
    finally:
        server.stop(5)

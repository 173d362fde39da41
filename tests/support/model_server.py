"""A language model's provider on loopback, with OpenAI's HTTP interface: it answers as a scenario says.

The scenario is the provider's name of the model. The server keeps what it was asked, so that tests count calls and
read bodies. What it sends is written at once, with Nagle's algorithm off: a delayed acknowledgement would add 40 ms.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    """One request: its path, its body, its headers, and when it came (monotonic seconds)."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    at: float = field(default_factory=time.monotonic)

    @property
    def last(self) -> str:
        """The content of the last message."""
        return str(self.body["messages"][-1]["content"])


@dataclass
class Reply:
    """What is sent: a status with JSON or bytes, after ``delay`` seconds; ``cut`` closes the connection instead, after
    that number of bytes.
    """

    payload: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: int | None = None
    content_type: str = "application/json"


Scenario = Callable[[Asked, int], Reply]


def answer(
    text: str | None = "ok",
    *,
    calls: list[tuple[str, Any]] | None = None,
    usage: dict[str, Any] | None = None,
    finish: str | None = None,
) -> dict[str, Any]:
    """Return the body of an answer. ``calls`` are tools with their arguments: an object, or a text as it is."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for number, (name, given) in enumerate(calls)
        ]
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "scripted",
        "choices": [
            {"index": 0, "message": message, "finish_reason": finish or ("tool_calls" if calls else "stop")}
        ],
    }
    tokens = {"prompt_tokens": 10, "completion_tokens": 5} if usage is None else usage
    return body | ({"usage": tokens} if tokens else {})


def error(status: int, code: str, message: str = "no", **headers: str) -> Reply:
    """Return an error in OpenAI's form."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply({"error": {"message": message, "type": code, "code": code}}, status, named)


def stream(*parts: str, usage: bool = True, end: bool = True, delay: float = 0.0) -> Reply:
    """Return a streamed answer of these parts of text."""
    lines = [{"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]} for part in parts]
    if end:
        lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if usage:
        lines.append({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
    chunks = [f"data: {json.dumps(line)}\n\n" for line in lines] + ["data: [DONE]\n\n"]
    return Reply(chunks, content_type="text/event-stream", delay=delay)


class ModelServer:
    """The server. ``script`` gives a scenario a name; unknown ones answer "ok"."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._scenarios: dict[str, Scenario] = {}
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server._answer(self)

            def log_message(self, *_: Any) -> None:
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def script(self, name: str, *replies: Any) -> str:
        """Answer requests for the model ``name`` with these replies in turn, the last one for ever. A reply is a
        :class:`Reply`, the body of an answer, a text, or a function of (:class:`Asked`, its number). Returns the name.
        """

        def scenario(asked: Asked, number: int) -> Reply:
            reply = replies[min(number, len(replies) - 1)]
            found = reply(asked, number) if callable(reply) else reply
            if isinstance(found, str):
                found = answer(found)
            return found if isinstance(found, Reply) else Reply(found)

        self._scenarios[name] = scenario
        return name

    def of(self, name: str) -> list[Asked]:
        """Return the requests for a model, in order."""
        return [one for one in self.asked if one.body["model"] == name]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        handler.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        length = int(handler.headers.get("content-length") or 0)
        body = json.loads(handler.rfile.read(length))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        asked = Asked(handler.path, body, headers)
        with self._lock:
            self.asked.append(asked)
            number = self._counts.get(body["model"], 0)
            self._counts[body["model"]] = number + 1
        if handler.path.endswith("/embeddings"):
            reply = self._scenarios.get(body["model"], _embeddings)(asked, number)
        else:
            reply = self._scenarios.get(body["model"], lambda *_: Reply(answer()))(asked, number)
        if isinstance(reply.payload, list) and reply.content_type == "text/event-stream":
            _send_stream(handler, reply)
            return
        time.sleep(reply.delay)
        raw = reply.payload if isinstance(reply.payload, bytes) else json.dumps(reply.payload).encode()
        head = f"HTTP/1.1 {reply.status} .\r\ncontent-type: {reply.content_type}\r\ncontent-length: {len(raw)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items()) + "\r\n"
        sent = head.encode() + raw
        if reply.cut is not None:
            sent = sent[: reply.cut]
            handler.close_connection = True
        try:
            handler.wfile.write(sent)
            handler.wfile.flush()
            if reply.cut is not None:
                handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            handler.close_connection = True


def _send_stream(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    head = f"HTTP/1.1 200 .\r\ncontent-type: {reply.content_type}\r\nconnection: close\r\n\r\n"
    handler.close_connection = True
    try:
        handler.wfile.write(head.encode())
        for part in reply.payload:
            handler.wfile.write(part.encode())
            handler.wfile.flush()
            time.sleep(reply.delay)
    except OSError:
        return


def _embeddings(asked: Asked, _number: int) -> Reply:
    given = asked.body["input"]
    data = [{"index": number, "embedding": [float(len(text)), 1.0]} for number, text in enumerate(given)]
    return Reply({"data": data, "usage": {"prompt_tokens": 3 * len(given)}})


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Run a server inside the block."""
    server = ModelServer()
    try:
        yield server
    finally:
        server.close()

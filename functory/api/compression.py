"""Compression of answers (gzip, RFC 9110, section 8.4.1.3): lists of rows become a fifth of their size.

Only whole JSON answers to GET of a kilobyte or more are compressed. Everything that is sent in parts is passed on at
once: a compressor would hold back the frames of the live stream.

The length of a compressed answer tells something about its content to who can choose a part of it and sees the
encrypted answer (the attack BREACH). That needs an answer with a secret, and requests that another site can make with
the cookie of a user. Here neither exists: secrets that are shown once (tokens) are in answers to POST, values of
secrets are in none, and the cookie is ``SameSite=Strict``.
"""

from __future__ import annotations

import gzip

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST_BYTES = 1000
# The default of gzip takes twice the time for a twentieth less.
LEVEL = 4
# More takes milliseconds, for which other requests must not wait.
BYTES_ON_EVENT_LOOP = 64 * 1024


class Compression:
    """ASGI middleware: compresses answers for clients that accept it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "GET" or not accepts_gzip(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        # The start of an answer that may be compressed waits for its body.
        held: Message | None = None

        async def compress(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_json(message):
                held = message
                return
            if held is not None:
                start, held = held, None
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    message = await _compressed(start, message)
                await send(start)
            await send(message)

        await self._app(scope, receive, compress)


def accepts_gzip(headers: Headers) -> bool:
    """Return True when the client accepts gzip (RFC 9110, section 12.5.3)."""
    for choice in headers.get("accept-encoding", "").split(","):
        name, _, quality = choice.partition(";")
        if name.strip().lower() in ("gzip", "x-gzip"):
            return quality.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _is_json(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    media_type = headers.get("content-type", "").partition(";")[0].strip()
    return start["status"] == 200 and media_type == "application/json" and "content-encoding" not in headers


async def _compressed(start: Message, message: Message) -> Message:
    """Return the message with its body compressed, if that is worth it, and change the headers of the start."""
    body = message.get("body", b"")
    headers = MutableHeaders(raw=start["headers"])
    headers.add_vary_header("accept-encoding")
    if len(body) < LEAST_BYTES:
        return message
    if len(body) <= BYTES_ON_EVENT_LOOP:
        small = gzip.compress(body, LEVEL, mtime=0)
    else:
        small = await run_in_threadpool(gzip.compress, body, LEVEL, mtime=0)
    headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(small))
    return {**message, "body": small}

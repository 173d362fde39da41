"""Requests of the API: texts that no database can store are refused, and a body is read with bounds and strictly.

A body is read only after it is known who sends it (:func:`admit`), so that strangers cannot make the server hold large
ones. It is JSON in UTF-8 (RFC 8259) whose objects name no member twice: two readers of such a text would see two
different things.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from functory.api import request_body
from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec, media_types
from functory.engine.serialization.storable_text import is_storable

# A function with its source and modules, or a thousand events, is smaller.
LEAST_LIMIT = 8 * 1_048_576
# A login: its sender is not known yet.
OPEN_LIMIT = 16 * 1024
# Decoding more than this would delay other requests.
LARGE_BYTES = 65_536

Admit = Callable[[Request], Awaitable[None]]


class ApiRequest(Request):
    """A request whose body was read and decoded already."""

    def __init__(self, request: Request, raw: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._raw = raw
        self._value = value

    async def body(self) -> bytes:
        """The bytes that were sent."""
        return self._raw

    async def json(self) -> Any:
        """The value of the body."""
        return self._value


def check_texts(request: Request) -> None:
    """Refuse a path or parameter with a character that no database can store. Raises :class:`Invalid`."""
    for text in (request.url.path, *request.path_params.values(), *request.query_params.values()):
        if isinstance(text, str) and not is_storable(text):
            raise Invalid("the address has a character that is no text", "a NUL, or half of a character")


async def read(request: Request, *, is_open: bool) -> Request:
    """Read the body. ``is_open``: the route needs no caller.

    Raises HTTPException: 413, 415, 408; :class:`Invalid` for what is not JSON, and what the search for the caller
    raises.
    """
    if is_open:
        limit = OPEN_LIMIT
    else:
        await request.app.state.admit(request)
        limit = max(LEAST_LIMIT, 2 * request.app.state.functory.settings.max_event_bytes)
    raw = await request_body.read(request, limit, request_body.READ_TIMEOUT_SECONDS)
    if not raw:
        # What was read cannot be read again, even when it was nothing.
        return ApiRequest(request, raw, None)
    _check_type(request)
    value = await run_in_threadpool(decode, raw) if len(raw) > LARGE_BYTES else decode(raw)
    return ApiRequest(request, raw, value)


def decode(raw: bytes) -> Any:
    """Return the value of a JSON text. Raises :class:`Invalid`."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Invalid("the body is not UTF-8 text", f"byte {error.start}") from None
    value = json_codec.loads(text)
    try:
        json.loads(text, object_pairs_hook=_refuse_duplicates)
    except RecursionError:
        raise Invalid(
            "the JSON text is nested too deeply", f"at most {json_codec.MAX_DEPTH} levels are read"
        ) from None
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    names = {name for name, _ in pairs}
    if len(names) < len(pairs):
        given = [name for name, _ in pairs]
        twice = next(name for name in given if given.count(name) > 1)
        raise Invalid(f"the member {twice[:40]!r} is given twice", "readers would not agree which one counts")


def _check_type(request: Request) -> None:
    given = request.headers.getlist("content-type")
    try:
        if len(given) == 1 and media_types.is_json(media_types.media_type(given[0])):
            return
    except media_types.UnsupportedMediaType as error:
        raise HTTPException(415, str(error), {"accept": "application/json"}) from None
    raise HTTPException(
        415, "a body is JSON, with Content-Type: application/json", {"accept": "application/json"}
    )

"""What the operations are made of: a request, and its answer as rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from functory.engine.errors import Unavailable
from functory.remote.connection import Answer, Connection, new_key
from functory.remote.pages import Page, Rows

T = TypeVar("T")


class Sender:
    """Sends the requests of the operations over one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def one(
        self,
        type_: type[T] | Any,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> T:
        """Send one request. Returns its answer as ``type_``: a row, a list of rows, None, or Any for a JSON value."""
        answer = self._send(method, path, query, body, headers)
        return decoded(type_, answer, self.connection.url)

    def keyed(
        self,
        type_: type[T] | Any,
        method: str,
        path: str,
        *,
        key: str | None,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> T:
        """As :meth:`one`, with an idempotency key: the request runs once, however often it arrives."""
        named = {**(headers or {}), "idempotency-key": key or new_key()}
        answer = self._send(method, path, query, body, named, repeatable=True)
        return decoded(type_, answer, self.connection.url)

    def rows(self, type_: type[T], path: str, query: Mapping[str, Any]) -> Rows[T]:
        """A list that is read page by page."""

        def read(before: str | None, limit: int | None) -> Page[T]:
            answer = self._send("GET", path, {**query, "limit": limit, "before": before}, None, None)
            return decoded(Page[type_], answer, self.connection.url)  # type: ignore[valid-type]

        return Rows(read)

    def whole(self, type_: type[T], path: str, query: Mapping[str, Any]) -> Rows[T]:
        """A list that the server gives as one page."""

        def read(_before: str | None, _limit: int | None) -> Page[T]:
            answer = self._send("GET", path, query, None, None)
            return decoded(Page[type_], answer, self.connection.url)  # type: ignore[valid-type]

        return Rows(read)

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str | None] | None,
        *,
        repeatable: bool | None = None,
    ) -> Answer:
        given = {name: value for name, value in (headers or {}).items() if value is not None}
        return self.connection.request(
            method, path, query=query, body=_json(body), headers=given, repeatable=repeatable
        )


def quoted(part: Any) -> str:
    """A part of a path."""
    return quote(str(part), safe="")


def if_match(version: int | None) -> str | None:
    """The header for the version that a change starts from."""
    return None if version is None else f'"{version}"'


def given(**fields: Any) -> dict[str, Any]:
    """The fields of a body that were given. A name ends with ``_`` where Python needs it."""
    return {name.rstrip("_"): value for name, value in fields.items() if value is not UNSET}


def decoded(type_: Any, answer: Answer, server: str) -> Any:
    """The body of an answer as ``type_``. Raises :class:`Unavailable` for a body of another form."""
    if type_ is None or not answer.body:
        return None
    if type_ is Any:
        # Values of users: with every number and text that JSON has.
        from functory.engine.serialization import json_codec

        return json_codec.loads(answer.body)
    try:
        return _decoder(type_).decode(answer.body)
    except msgspec.MsgspecError as error:
        raise Unavailable(
            f"the answer of {server} cannot be read",
            f"{error}; the server and this client are of different versions",
            "functory --version, and the version of the server",
        ) from None


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, strict=True)


def _json(body: Any) -> bytes | None:
    if body is None:
        return None
    from functory.engine.serialization import json_codec

    return json_codec.encode(json_codec.from_python(body, "request"))

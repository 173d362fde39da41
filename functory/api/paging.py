"""Pages of lists: keyset cursors, and filters that are refused when they are not known."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import orjson
from fastapi import Query, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.responses import Response

from functory.api import api_request, sparse_fields
from functory.api.access.addresses import refuse_token_in_address
from functory.api.access.rights import rights_of
from functory.engine.database import short_ids
from functory.engine.errors import Invalid
from functory.engine.serialization.storable_text import is_storable

T = TypeVar("T")

MAX_LIMIT = 1000
# Numbers of versions: what the databases store.
MAX_NUMBER = 2**31 - 1
# Parameters that do not choose rows.
_NOT_FILTERS = ("limit", "before", "after", sparse_fields.NAME)

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Number of rows of a page.")]
Before = Annotated[
    str | None, Query(description="Cursor: the rows after those of the page that gave it as next.")
]


class Page(BaseModel, Generic[T]):
    """A page of a list, newest first. ``next`` is the cursor of the next page; null on the last one."""

    items: list[T]
    next: str | None = Field(default=None, description="Send it as before.")


def cursor(key: Any, request: Request) -> str:
    """An opaque cursor: the sort key of the last row, and the hash of the filters that it belongs to."""
    return base64.urlsafe_b64encode(orjson.dumps([key, _filters(request)])).decode().rstrip("=")


def key_of(text: str | None, request: Request) -> str | None:
    """The text in a cursor that a page begins behind; None without a cursor.

    Raises :class:`Invalid` for a cursor of other filters, and for one that a page did not give.
    """
    key = _key_of(text, request)
    if key is not None and not _is_text(key):
        raise _unreadable()
    return key


def id_of(text: str | None, request: Request) -> str | None:
    """The id in a cursor, like :func:`key_of`."""
    key = key_of(text, request)
    if key is not None and not short_ids.is_full(key):
        raise _unreadable()
    return key


def number_of(text: str | None, request: Request) -> int | None:
    """The number in a cursor, like :func:`key_of`."""
    key = _key_of(text, request)
    if key is not None and not (type(key) is int and abs(key) <= MAX_NUMBER):
        raise _unreadable()
    return key


def texts_of(text: str | None, request: Request, count: int) -> list[str] | None:
    """The ``count`` texts in a cursor, like :func:`key_of`."""
    key = _key_of(text, request)
    if key is not None and not (isinstance(key, list) and len(key) == count and all(map(_is_text, key))):
        raise _unreadable()
    return key


def _key_of(text: str | None, request: Request) -> Any:
    if text is None:
        return None
    try:
        found = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error):
        raise _unreadable() from None
    if not isinstance(found, list) or len(found) != 2 or found[0] is None:
        raise _unreadable()
    if found[1] != _filters(request):
        raise Invalid("the cursor belongs to other filters", try_="begin again without it")
    return found[0]


def _is_text(key: Any) -> bool:
    return isinstance(key, str) and is_storable(key)


def _unreadable() -> Invalid:
    return Invalid("the cursor cannot be read", try_="send the value of next as it was")


def page(
    rows: Sequence[Any], limit: int, request: Request, key: Callable[[Any], Any] = lambda row: row["id"]
) -> dict[str, Any]:
    """A page of ``rows``, of which one more than ``limit`` was read when there are more."""
    more = len(rows) > limit
    items = list(rows[:limit])
    return {"items": items, "next": cursor(key(items[-1]), request) if more else None}


def _filters(request: Request) -> str:
    chosen = sorted(
        (name, value) for name, value in request.query_params.multi_items() if name not in _NOT_FILTERS
    )
    return hashlib.sha256(orjson.dumps([request.url.path, chosen])).hexdigest()[:16]


class StrictRoute(APIRoute):
    """A route that refuses query parameters which it does not know (a filter that is ignored lies), and a body that is
    not proper JSON (:mod:`functory.api.api_request`). A list takes ``fields`` (:mod:`functory.api.sparse_fields`).
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        is_read = "GET" in (options.get("methods") or ("GET",))
        self._fields = sparse_fields.of_rows(options.get("response_model")) if is_read else None
        if self._fields is not None:
            options["openapi_extra"] = sparse_fields.described(options.get("openapi_extra"))
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Any]:
        """The handler of FastAPI behind the check."""
        handler = super().get_route_handler()
        known = {field.alias for field in _query_fields(self.dependant)}
        fields = self._fields
        if fields is not None:
            known.add(sparse_fields.NAME)
        has_body = self.body_field is not None
        is_open = any(rights_of(one.dependency) == () for one in self.dependencies if one.dependency)

        async def strict(request: Request) -> Response:
            refuse_token_in_address(request)
            api_request.check_texts(request)
            unknown = sorted(set(request.query_params) - known)
            if unknown:
                raise Invalid(
                    f"unknown parameter {unknown[0]}",
                    f"known are: {', '.join(sorted(known))}" if known else "this takes no parameters",
                )
            asked = request.query_params.getlist(sparse_fields.NAME)
            wanted = sparse_fields.chosen(",".join(asked), fields or ()) if asked else None
            answer = await handler(await api_request.read(request, is_open=is_open) if has_body else request)
            return answer if wanted is None else sparse_fields.only(answer, wanted)

        return strict


def _query_fields(dependant: Any) -> list[Any]:
    return [*dependant.query_params, *(field for d in dependant.dependencies for field in _query_fields(d))]

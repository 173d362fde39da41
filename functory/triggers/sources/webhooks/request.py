"""A webhook request, and the decoding of its body by content type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from functory.engine.errors import Invalid
from functory.engine.serialization import media_types

FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 1000


@dataclass(frozen=True)
class Request:
    """``headers`` are pairs with lower-case names, as often as they came; ``body`` is as it was sent."""

    method: str
    headers: Sequence[tuple[str, str]]
    query: str
    body: bytes

    def all(self, header: str) -> list[str]:
        """Every value of a header."""
        return [value for name, value in self.headers if name == header]

    def one(self, header: str) -> str | None:
        """The value of a header that came exactly once, else None. With two values, the verified one and the
        one that is used later could differ."""
        found = self.all(header)
        return found[0] if len(found) == 1 else None


def content_type(request: Request) -> str:
    """The media type, empty without one. Raises :class:`UnsupportedMediaType` for an unsupported one, and for two."""
    given = request.all("content-type")
    if len(given) > 1:
        raise media_types.UnsupportedMediaType("the request has two content types")
    found = media_types.media_type(given[0]) if given else ""
    if not (found == "" or media_types.is_json(found) or found == FORM or found.startswith("text/")):
        raise media_types.UnsupportedMediaType("JSON, forms and text are read")
    if found == "" and request.body:
        raise media_types.UnsupportedMediaType("the request has a body without a content type")
    return found


def read_body(kind: str, body: bytes, *, payload: bool) -> Any:
    """The value of a body of the media type ``kind``: JSON, an object of a form's fields, a text; None for an empty
    one.

    With ``payload``, a form field of that name holds the whole body as JSON, as GitHub and Slack send it.
    Raises :class:`Invalid`.
    """
    if not body:
        return None
    if media_types.is_json(kind):
        return media_types.read_json(body)
    if kind == FORM:
        fields = read_fields(media_types.read_text(body))
        if payload and isinstance(fields.get("payload"), str):
            return media_types.read_json(fields["payload"].encode())
        return fields
    return media_types.read_text(body)


def read_fields(text: str) -> dict[str, Any]:
    """The fields of a form or a query; a list for one that came several times. Raises :class:`Invalid`."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise Invalid("these are no form fields", str(error)) from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields

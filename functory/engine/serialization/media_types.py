"""Media types: reads received data by its content type, as JSON that is not too deep or as UTF-8 text."""

from __future__ import annotations

from typing import Any

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec

# Senders do not nest JSON deeper on purpose.
MAX_DEPTH = 100


class UnsupportedMediaType(Exception):
    """A content type that is not supported."""


def media_type(content_type: str) -> str:
    """Return the media type of a Content-Type header, in lower case and without its parameters. Raises
    :class:`UnsupportedMediaType` for a character set other than UTF-8.
    """
    media, *parameters = (part.strip().lower() for part in content_type.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMediaType("only UTF-8 is read")
    return media


def is_json(media: str) -> bool:
    """Return True when a media type is JSON (RFC 6839, section 3.1)."""
    return media in ("application/json", "text/json") or (
        media.startswith("application/") and media.endswith("+json")
    )


def read_json(body: bytes) -> Any:
    """Return the value of a JSON body of at most 100 levels. Raises :class:`Invalid`."""
    value = json_codec.loads(body)
    # Only a text with that many brackets can be that deep.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise Invalid("the JSON text is nested too deeply", f"at most {MAX_DEPTH} levels are read")
    return value


def read_text(body: bytes) -> str:
    """Return the text of a UTF-8 body. Raises :class:`Invalid`."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Invalid("this is not UTF-8 text", f"byte {error.start}") from None


def _depth(value: Any) -> int:
    deepest = 0
    waiting = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        below = item.values() if isinstance(item, dict) else item if isinstance(item, list) else None
        if below is not None:
            deepest = max(deepest, depth)
            waiting.extend((inner, depth + 1) for inner in below)
    return deepest

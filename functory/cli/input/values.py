"""Values on the command line: ``k=v`` pairs, JSON texts, ``@file``, ``-`` for stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec

# More than any document that is taken; a larger file is refused instead of read into memory.
MAX_BYTES = 64 * 1024 * 1024

# Longer chains of references are cycles.
_MAX_REFERENCES = 20


def read_text(path: str) -> str:
    """The text of a file, or of stdin for ``-``. Raises :class:`Invalid`."""
    name = "the standard input" if path == "-" else path
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise Invalid(f"{name} is too large", f"at most {MAX_BYTES:,} bytes are read")
        return raw.decode()
    except OSError as error:
        raise Invalid(f"{name} cannot be read", error.strerror or str(error), "check the path") from None
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{name} is not UTF-8 text", f"the byte at position {error.start} is wrong", "save it as UTF-8"
        ) from None


def read_json(argument: str, what: str) -> Any:
    """Read a JSON value from a text, from ``@file``, or from stdin for ``-``. ``what`` names it in errors."""
    if argument == "-" or argument.startswith("@"):
        text = read_text(argument if argument == "-" else argument[1:])
    else:
        text = argument
    try:
        return json_codec.loads(text)
    except Invalid as error:
        raise Invalid(
            f"{what} is not JSON",
            error.why,
            'write JSON in single quotes, \'{"name": "Ada"}\', or @file, or - for stdin',
        ) from None


def parse_value(text: str) -> Any:
    """The value of a ``v`` in ``k=v``: JSON when it is JSON, else the text itself."""
    try:
        return json_codec.loads(text)
    except Invalid:
        return text


def parse_pairs(arguments: Iterable[str], option: str, example: str | None = None) -> dict[str, Any]:
    """``k=v`` pairs as an object. Raises :class:`Invalid` for one without ``=`` or given twice; ``example`` is its
    advice.
    """
    example = example or f"{option} name=Ada, or {option} 'rows=[1, 2]'"
    found: dict[str, Any] = {}
    for pair in arguments:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise Invalid(f"{option} takes name=value", f"got {pair!r}", example)
        if name in found:
            raise Invalid(
                f"{option} {name} is given twice",
                "the second value would replace the first",
                f"a list: {option} '{name}=[…]'",
            )
        found[name] = parse_value(text)
    return found


def coerce_strings(
    values: Mapping[str, Any], texts: Iterable[str], schema: Mapping[str, Any] | None
) -> dict[str, Any]:
    """``given`` with those values as text whose parameter takes only text: ``zip=01234`` and ``id=5`` are
    texts for a function that asks for ``str``. ``texts`` are the pairs as they were written."""
    properties = (schema or {}).get("properties")
    fitting = dict(values)
    for pair in texts:
        name, _, text = pair.partition("=")
        kind = properties.get(name) if isinstance(properties, Mapping) else None
        if not isinstance(kind, Mapping) or isinstance(fitting[name], str):
            continue
        given = fitting[name] is not None or kind.get("type") == "string"
        if given and _is_text(kind, (schema or {}).get("$defs", {})):
            fitting[name] = text
    return fitting


def _is_text(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> bool:
    """Return True for a schema that takes text, and nothing else but null."""
    if not isinstance(schema, Mapping) or depth > _MAX_REFERENCES:
        return False
    if isinstance(reference := schema.get("$ref"), str):
        return _is_text(definitions.get(reference.removeprefix("#/$defs/")), definitions, depth + 1)
    options = schema.get("anyOf")
    if isinstance(options, list):
        rest = [one for one in options if one != {"type": "null"}]
        return bool(rest) and all(_is_text(one, definitions, depth + 1) for one in rest)
    return schema.get("type") == "string"


def read_json_object(argument: str, what: str) -> dict[str, Any]:
    """As :func:`document`, but it must be an object."""
    found = read_json(argument, what)
    if not isinstance(found, dict):
        raise Invalid(
            f"{what} must be a JSON object",
            f"got {json_codec.dumps(found)[:80]}",
            'for example \'{"name": "Ada"}\'',
        )
    return found

"""The JSON codec: encodes and decodes JSON in one place, with the values that encoders treat differently.

orjson is 15 times faster than the standard library but refuses integers over 64 bits and lone
surrogates, and turns NaN into null. Those cases go through the standard library here, so that any
JSON value is stored and read back as it was. NaN and infinities are not JSON
(RFC 8259 section 6) and are refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

import orjson

from functory.engine.errors import Invalid
from functory.engine.serialization import python_values

# Deeper values would exhaust the recursion of any reader downstream. orjson has the same limit.
MAX_DEPTH = 254

# orjson reads integers beyond 64 bits as floats; texts with that number of digits take the exact path.
_LONG_NUMBER = re.compile(rb"\d{19}")


def dumps(value: Any) -> str:
    """Return ``value`` as compact JSON text. Raises :class:`Invalid` when it is not JSON."""
    return encode(value).decode()


_PLAIN = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def encode(value: Any) -> bytes:
    """Return ``value`` as compact JSON bytes (UTF-8). Raises :class:`Invalid` when it is not JSON."""
    try:
        encoded = orjson.dumps(value, option=_PLAIN)
    except (TypeError, ValueError, RecursionError):
        return _encode_slowly(value)
    # orjson writes NaN as null: only a value that shows a null can hide one, and then it reads back as another value.
    # (A tuple does so too.)
    if b"null" in encoded and orjson.loads(encoded) != value:
        _refuse_nan(value)
    return encoded


def encode_stored(value: Any) -> bytes:
    """Return what :func:`encode` does, for a value that was read from JSON and so holds no NaN."""
    try:
        return orjson.dumps(value, option=_PLAIN)
    except (TypeError, ValueError, RecursionError):
        return _encode_slowly(value)


def loads(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises :class:`Invalid` with the position of the fault."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        if _LONG_NUMBER.search(raw):
            raise orjson.JSONDecodeError("long number", "", 0)
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            return json.loads(text, parse_constant=_refuse_constant)
        except RecursionError:
            raise Invalid(
                "the JSON text is nested too deeply", f"at most {MAX_DEPTH} levels are read"
            ) from None
        except (ValueError, UnicodeDecodeError) as error:
            raise Invalid("this is not JSON", str(error)) from None


def from_python(value: Any, what: str) -> Any:
    """Return a caller's value as JSON has it, as results of functions are stored. ``what`` names it in the error.

    Raises :class:`Invalid` with the place of a part that has no JSON form.
    """
    if python_values.is_plain(value, MAX_DEPTH):
        return value
    try:
        return python_values.JsonConverter(MAX_DEPTH).convert(value)
    except python_values.NotSerializable as error:
        raise Invalid(
            f"the {what} is not JSON",
            str(error),
            "pass text, numbers, lists, objects and times; see docs/reference/types.md",
        ) from None


def canonical(value: Any) -> bytes:
    """Return JSON with sorted keys: equal values give equal bytes."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def digest(value: Any) -> str:
    """Return the sha256 (hex) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _encode_slowly(value: Any) -> bytes:
    _check_shape(value)
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_refuse)
    except RecursionError:
        raise Invalid("the value is nested too deeply", f"at most {MAX_DEPTH} levels are stored") from None
    except (TypeError, ValueError) as error:
        raise Invalid(
            "the value is not JSON", str(error), "pass only dict, list, str, numbers, bool, None"
        ) from None
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Lone surrogates have no UTF-8 form; their escape is JSON and reads back as they were.
        return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def _check_shape(value: Any) -> None:
    """Refuse keys that are not text, and values that are too deep: the standard library accepts both."""
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise Invalid("the value is nested too deeply", f"at most {MAX_DEPTH} levels are stored")
        if isinstance(item, dict):
            wrong = next((key for key in item if not isinstance(key, str)), None)
            if wrong is not None or None in item:
                raise Invalid("the value is not JSON", f"the key {wrong!r} is not text", "use text as keys")
            waiting.extend((below, depth + 1) for below in item.values())
        elif isinstance(item, list | tuple):
            waiting.extend((below, depth + 1) for below in item)


def _refuse(value: Any) -> Any:
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_nan(value: Any) -> None:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise Invalid("the value is not JSON", f"{item} has no JSON form", "use null or a string instead")
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)

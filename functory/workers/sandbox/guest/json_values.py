"""Values that leave a child: results and requests exactly or not at all, records of calls as well as they can be.

A call of a dependency passes Python values, which need no JSON form. So a record of it replaces a part without one by
a preview, ``{"$type": "Lock", "$preview": "<unlocked …>"}``.
"""

from __future__ import annotations

import reprlib
from typing import Any, NamedTuple

from functory.engine.serialization.python_values import JsonConverter, TooLarge, escape_surrogates, type_name
from functory.workers.sandbox.protocol.frames import MAX_DEPTH, pack

_repr = reprlib.Repr()
_repr.maxlevel = 6
_repr.maxdict = _repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxfrozenset = _repr.maxdeque = 100
_repr.maxstring = _repr.maxlong = _repr.maxother = 10_000
_REPR_CHARACTERS = 20_000


class Encoded(NamedTuple):
    """Bytes of a value, and its warnings."""

    data: bytes
    warnings: list[str]


def to_json_value(value: Any, budget: int) -> tuple[Any, list[str]]:
    """Return the value as JSON has it, and warnings.

    Raises ``NotSerializable``, and ``TooLarge`` when it surely needs more than ``budget`` bytes.
    """
    converter = JsonConverter(MAX_DEPTH - 2, budget, portable=True)
    carried = converter.convert(value)
    return carried, converter.all_warnings()


def encode(value: Any, limit: int) -> Encoded:
    """Return the value as bytes of a frame, with ``limit`` applied exactly. Raises as :func:`to_json_value`."""
    carried, warnings = to_json_value(value, limit)
    data = pack(carried)
    _check_size(data, limit)
    return Encoded(data, warnings)


def preview(value: Any, limit: int) -> tuple[bytes, bool]:
    """Return the value as bytes for a record of at most ``limit`` bytes, and whether they are only its preview."""
    try:
        data = pack(_Recorder(limit).convert(value))
        _check_size(data, limit)
        return data, False
    except Exception:
        # Too large, or changed by another thread while it was read: a record must not fail the call.
        return pack(typed_preview(value, max(0, limit // 4 - 256))), True


def typed_preview(value: Any, characters: int = _REPR_CHARACTERS) -> dict[str, str]:
    """Return ``{"$type", "$preview"}`` of any value; long reprs are cut, failing ones replaced."""
    try:
        text = _repr.repr(value)
    except Exception as error:
        text = f"<repr failed: {type(error).__name__}>"
    if len(text) > characters:
        text = text[:characters] + "…"
    return {"$type": type_name(type(value)), "$preview": escape_surrogates(text)}


def _check_size(data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise TooLarge(f"it needs {len(data)} bytes of the {limit} that are allowed")


class _Recorder(JsonConverter):
    """Puts a preview in the place of each part without a JSON form."""

    def __init__(self, budget: int) -> None:
        super().__init__(MAX_DEPTH - 2, budget, portable=True)

    def no_form(self, value: Any, what: str) -> dict[str, str]:
        made = typed_preview(value, int(min(_REPR_CHARACTERS, max(0, self._left))))
        self._left -= len(made["$preview"])
        return made

"""Makes any Python value into one that JSON can carry, and says what that cost.

Lists, tuples, dicts, texts, finite numbers, booleans and None travel as they are; anything else becomes
``{"$type": "set", "$repr": "{1, 2}"}`` in its place, with a warning that names the place. Used in the
child, for results, recorded inputs and outputs, and (``strict``) for arguments sent to other executions.
"""

from __future__ import annotations

import math
import reprlib
from typing import Any, NamedTuple

from workers.sandbox.protocol import DEPTH, pack

_MAX_WARNINGS = 20
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1  # what msgpack holds, and what most JSON readers do

_repr = reprlib.Repr()
_repr.maxlevel = 6
_repr.maxdict = _repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxfrozenset = _repr.maxdeque = 100
_repr.maxstring = _repr.maxlong = _repr.maxother = 10_000
_REPR_CHARACTERS = 20_000


class TooLarge(Exception):
    """The value needs more bytes than allowed."""


class Encoded(NamedTuple):
    """Bytes of a value, what a reader should know of them, and whether a part was replaced by its repr."""

    data: bytes
    warnings: list[str]
    replaced: bool


def portable(value: Any, budget: int, *, strict: bool = False) -> tuple[Any, list[str], bool]:
    """The value as JSON can carry it, warnings, and whether any part was replaced by its repr.

    Raises ``TooLarge`` when it surely needs more than ``budget`` bytes, and, if ``strict``, ``TypeError``
    instead of replacing anything.
    """
    walk = _Walk(budget, strict)
    carried = walk.visit(value, "$", 0)
    if walk.dropped:
        walk.warnings.append(f"and {walk.dropped} more")
    return carried, walk.warnings, walk.replaced


def encode(value: Any, limit: int, *, strict: bool = False) -> Encoded:
    """Like ``portable``, as bytes of a frame and with ``limit`` held exactly."""
    carried, warnings, replaced = portable(value, limit, strict=strict)
    data = pack(carried)
    if len(data) > limit:
        raise TooLarge(f"it needs {len(data)} bytes of the {limit} that are allowed")
    return Encoded(data, warnings, replaced)


def preview(value: Any, limit: int) -> tuple[bytes, bool]:
    """Bytes of the value for a record of at most ``limit`` bytes, and whether they are only its repr."""
    try:
        return encode(value, limit).data, False
    except Exception:
        # Too large, or changed by another thread while it was read: a record must not fail the call.
        return pack(typed_repr(value, max(0, limit // 4 - 256))), True


def typed_repr(value: Any, characters: int = _REPR_CHARACTERS) -> dict[str, str]:
    """``{"$type", "$repr"}`` of any value; long reprs are cut, failing ones replaced."""
    kind = type(value)
    try:
        text = _repr.repr(value)
    except Exception as error:
        text = f"<repr failed: {type(error).__name__}>"
    if len(text) > characters:
        text = text[:characters] + "…"
    return {"$type": type_name(kind), "$repr": clean(text)}


def type_name(kind: type) -> str:
    """The name that a reader knows a class by: without a module for built-in ones and the functions' own."""
    module = kind.__module__
    name = kind.__qualname__
    if isinstance(module, str) and module != "builtins" and "@" not in module:
        name = f"{module}.{name}"
    return clean(name)[:200]


def clean(text: str) -> str:
    """Text that UTF-8 can hold: unpaired surrogates become visible escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class _Walk:
    def __init__(self, budget: int, strict: bool) -> None:
        self.warnings: list[str] = []
        self.dropped = 0
        self.replaced = False
        self._budget = self._left = budget
        self._strict = strict
        self._above: set[int] = set()

    def visit(self, value: Any, path: str, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TooLarge(f"it needs more than the {self._budget} bytes that are allowed")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, int):
            if _MIN_INTEGER <= value <= _MAX_INTEGER:
                return int.__int__(value)
            return self._replace(value, path, "an integer beyond 64 bits")
        if isinstance(value, float):
            if math.isfinite(value):
                return float.__float__(value)
            return self._replace(value, path, "not a finite number")
        if isinstance(value, list | tuple | dict):
            if depth >= DEPTH - 2:
                return self._replace(value, path, f"nested deeper than {DEPTH} levels")
            if id(value) in self._above:
                return self._replace(value, path, "a reference to something that contains it")
            self._above.add(id(value))
            try:
                if isinstance(value, dict):
                    return self._mapping(value, path, depth)
                return [self.visit(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
            finally:
                self._above.discard(id(value))
        return self._replace(value, path, f"a {type_name(type(value))}")

    def _text(self, value: str, path: str) -> Any:
        self._left -= len(value)
        if self._left < 0:
            raise TooLarge(f"it needs more than the {self._budget} bytes that are allowed")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return self._replace(value, path, "text with unpaired surrogates")
        return str.__str__(value)

    def _mapping(self, value: dict, path: str, depth: int) -> Any:
        carried = {}
        for key, item in value.items():
            name = key
            if not isinstance(key, str):
                # The names that json.dumps gives to such keys.
                if key is None or key is True or key is False:
                    name = {None: "null", True: "true", False: "false"}[key]
                elif isinstance(key, int) and _MIN_INTEGER <= key <= _MAX_INTEGER:
                    name = int.__repr__(key)
                elif isinstance(key, float) and math.isfinite(key):
                    name = float.__repr__(key)
                else:
                    return self._replace(value, path, f"an object with a key of type {type_name(type(key))}")
                self._warn(f"at {path}: the key {name} became text")
            name = self._text(name, path)
            if not isinstance(name, str):
                return self._replace(value, path, "an object with unpaired surrogates in a key")
            if name in carried:
                return self._replace(value, path, f"an object with two keys that read {name!r} as text")
            carried[name] = self.visit(item, f"{path}.{name}", depth + 1)
        return carried

    def _replace(self, value: Any, path: str, what: str) -> dict[str, str]:
        if self._strict:
            raise TypeError(f"at {path}: {what}; only JSON values travel to another execution")
        self.replaced = True
        self._warn(f"at {path}: {what} is not JSON, stored as its repr")
        text = typed_repr(value, min(_REPR_CHARACTERS, max(0, self._left)))
        self._left -= len(text["$repr"])
        return text

    def _warn(self, text: str) -> None:
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(clean(text)[:1000])
        else:
            self.dropped += 1

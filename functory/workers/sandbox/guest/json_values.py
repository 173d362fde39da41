"""Turns any Python value into one that JSON can hold, and reports every loss.

Lists, tuples, dicts, texts, finite numbers, booleans and None are kept; anything else becomes ``{"$type":
"set", "$repr": "{1, 2}"}`` in its place, with a warning that names the place. Used in the child, for results,
recorded inputs and outputs, and (``strict``) for arguments sent to other executions.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from functory.workers.sandbox.protocol.frames import MAX_DEPTH, pack

_MAX_WARNINGS = 20
_PLAIN = frozenset({type(None), bool, int, float, list, dict, tuple})
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1  # what msgpack holds, and what most JSON readers accept

_repr = reprlib.Repr()
_repr.maxlevel = 6
_repr.maxdict = _repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxfrozenset = _repr.maxdeque = 100
_repr.maxstring = _repr.maxlong = _repr.maxother = 10_000
_REPR_CHARACTERS = 20_000


class TooLarge(Exception):
    """The value needs more bytes than allowed."""


class Encoded(NamedTuple):
    """Bytes of a value, its warnings, and whether a part was replaced by its repr."""

    data: bytes
    warnings: list[str]
    replaced: bool


def to_json_value(value: Any, budget: int, *, strict: bool = False) -> tuple[Any, list[str], bool]:
    """Return the value as JSON can hold it, warnings, and whether any part was replaced by its repr.

    Raises ``TooLarge`` when it surely needs more than ``budget`` bytes, and, if ``strict``, ``TypeError``
    instead of replacing anything.
    """
    walk = _Converter(budget, strict)
    carried = walk.visit(value)
    if walk.dropped:
        walk.warnings.append(f"and {walk.dropped} more")
    return carried, walk.warnings, walk.replaced


def encode(value: Any, limit: int, *, strict: bool = False) -> Encoded:
    """Return the value as bytes of a frame, with ``limit`` applied exactly."""
    carried, warnings, replaced = to_json_value(value, limit, strict=strict)
    data = pack(carried)
    if len(data) > limit:
        raise TooLarge(f"it needs {len(data)} bytes of the {limit} that are allowed")
    return Encoded(data, warnings, replaced)


def preview(value: Any, limit: int) -> tuple[bytes, bool]:
    """Return the value as bytes for a record of at most ``limit`` bytes, and whether they are only its repr."""
    try:
        return encode(value, limit).data, False
    except Exception:
        # Too large, or changed by another thread while it was read: a record must not fail the call.
        return pack(typed_repr(value, max(0, limit // 4 - 256))), True


def typed_repr(value: Any, characters: int = _REPR_CHARACTERS) -> dict[str, str]:
    """Return ``{"$type", "$repr"}`` of any value; long reprs are cut, failing ones replaced."""
    kind = type(value)
    try:
        text = _repr.repr(value)
    except Exception as error:
        text = f"<repr failed: {type(error).__name__}>"
    if len(text) > characters:
        text = text[:characters] + "…"
    return {"$type": type_name(kind), "$repr": escape_surrogates(text)}


def type_name(kind: type) -> str:
    """Return the readable name of a class: without a module for built-in ones and the functions' own."""
    module = kind.__module__
    name = kind.__qualname__
    if isinstance(module, str) and module != "builtins" and "@" not in module:
        name = f"{module}.{name}"
    return escape_surrogates(name)[:200]


def escape_surrogates(text: str) -> str:
    """Return text that UTF-8 can hold: unpaired surrogates become visible escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class _Converter:
    def __init__(self, budget: int, strict: bool) -> None:
        self.warnings: list[str] = []
        self.dropped = 0
        self.replaced = False
        self._budget = self._left = budget
        self._strict = strict
        self._above: set[int] = set()
        self._trail: list[Any] = []

    def visit(self, value: Any) -> Any:
        self._spend(1)
        kind = type(value)
        if kind is str or (kind not in _PLAIN and isinstance(value, str)):
            return self._text(value)
        if value is None or kind is bool:
            return value
        if isinstance(value, int):
            if _MIN_INTEGER <= value <= _MAX_INTEGER:
                return int.__int__(value)
            return self._replace(value, "an integer beyond 64 bits")
        if isinstance(value, float):
            if math.isfinite(value):
                return float.__float__(value)
            return self._replace(value, "not a finite number")
        if isinstance(value, list | tuple | dict):
            if len(self._trail) >= MAX_DEPTH - 2:
                return self._replace(value, f"nested deeper than {MAX_DEPTH} levels")
            if id(value) in self._above:
                return self._replace(value, "a reference to something that contains it")
            self._above.add(id(value))
            self._trail.append(None)
            try:
                return self._mapping(value) if isinstance(value, dict) else self._sequence(value)
            finally:
                self._trail.pop()
                self._above.discard(id(value))
        return self._replace(value, f"a {type_name(kind)}")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLarge(f"it needs more than the {self._budget} bytes that are allowed")

    def _text(self, value: str) -> Any:
        self._spend(len(value))
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return self._replace(value, "text with unpaired surrogates")
        return str.__str__(value)

    def _sequence(self, value: Sequence[Any]) -> Any:
        carried = []
        for index, item in enumerate(value):
            self._trail[-1] = index
            carried.append(self.visit(item))
        return carried

    def _mapping(self, value: dict) -> Any:
        carried = {}
        for key, item in value.items():
            self._trail[-1] = None
            name = key if type(key) is str else self._name(key)
            if name is None:
                return self._replace(value, f"an object with a key of type {type_name(type(key))}")
            name = self._text(name)
            if not isinstance(name, str):
                return self._replace(value, "an object with unpaired surrogates in a key")
            if name in carried:
                return self._replace(value, f"an object with two keys that read {name!r} as text")
            self._trail[-1] = name
            carried[name] = self.visit(item)
        return carried

    def _name(self, key: Any) -> str | None:
        """Return the name that ``json.dumps`` gives to a key; None when it gives none."""
        if isinstance(key, str):
            return str.__str__(key)
        name = None
        if key is None or key is True or key is False:
            name = {None: "null", True: "true", False: "false"}[key]
        elif isinstance(key, int) and _MIN_INTEGER <= key <= _MAX_INTEGER:
            name = int.__repr__(key)
        elif isinstance(key, float) and math.isfinite(key):
            name = float.__repr__(key)
        if name is not None and not self._strict:
            self._warn(f"the key {name} became text")
        return name

    def _replace(self, value: Any, what: str) -> dict[str, str]:
        if self._strict:
            raise TypeError(f"at {self._place()}: {what}; only JSON values travel to another execution")
        self.replaced = True
        self._warn(f"{what} is not JSON, stored as its repr")
        text = typed_repr(value, min(_REPR_CHARACTERS, max(0, self._left)))
        self._left -= len(text["$repr"])
        return text

    def _place(self) -> str:
        steps = (
            "" if step is None else f"[{step}]" if isinstance(step, int) else f".{step}"
            for step in self._trail
        )
        return "$" + "".join(steps)

    def _warn(self, text: str) -> None:
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(escape_surrogates(f"at {self._place()}: {text}")[:1000])
        else:
            self.dropped += 1

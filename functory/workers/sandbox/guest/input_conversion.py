"""Converts an input, JSON values by parameter name, to the types of a function's hints.

A converter is made once for each function of a process. A hint that cannot be evaluated or that has no JSON form leaves
its argument as it is; the save of the function has reported it.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypedDict

from functory.engine.serialization.python_values import MAX_BYTES
from functory.workers.sandbox.guest import hints

_BINARY = ("Bytes", "ByteArray", "MemoryView")
# Types that need no second look at their values.
_SIMPLE = frozenset({str, int, float, bool, list, dict, type(None)})


class InvalidInput(Exception):
    """An argument does not fit its hint. The message names the place in the input."""


@lru_cache(maxsize=64)
def converter_of(function: Callable[..., Any]) -> InputConverter:
    """Return a function's converter, cached for processes that call the same function repeatedly."""
    return InputConverter(function)


class InputConverter:
    """The hints of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._hints: dict[str, Any] = {}
        self._more: Any = None
        function = inspect.unwrap(function)
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return
        self._parameters = frozenset(parameters)
        if all(parameter.annotation is inspect.Parameter.empty for parameter in parameters.values()):
            # The copy of all names touches each of them: in a fresh child thirty pages.
            return
        names = hints.namespace(getattr(function, "__globals__", {}))
        for name, parameter in parameters.items():
            hint = _usable(parameter.annotation, names)
            if hint is None:
                continue
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self._more = hint
            else:
                many = parameter.kind is inspect.Parameter.VAR_POSITIONAL
                self._hints[name] = list[hint] if many else hint
        if self._hints:
            self._type = _object(self._hints)
            self._check = _Check.of(self._type, self._hints.values())

    def convert(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the input with converted arguments.

        Raises :class:`InvalidInput`, and the errors of the own code of classes.
        """
        if self._hints:
            given = {**given, **_converted(given, self._type, self._check)}
        if self._more is not None and (rest := {k: v for k, v in given.items() if k not in self._parameters}):
            type_ = _object(dict.fromkeys(rest, self._more))
            given = {**given, **_converted(rest, type_, _Check.of(type_, [self._more]))}
        return given


def _usable(annotation: Any, names: dict[str, Any]) -> Any:
    """Return the evaluated hint; None where there is nothing to convert to."""
    if annotation is inspect.Parameter.empty:
        return None
    try:
        hint = hints.evaluate(annotation, names)
    except Exception:
        return None
    if hint is Any or (not _is_simple(hint) and hints.problem(hint) is not None):
        return None
    return hint


def _is_simple(hint: Any) -> bool:
    return hint is Any or (isinstance(hint, type) and hint in _SIMPLE)


def _object(fields: dict[str, Any]) -> Any:
    return TypedDict("input", fields, total=False)  # type: ignore[operator,misc]


def _converted(given: dict[str, Any], type_: Any, check: _Check | None) -> dict[str, Any]:
    try:
        converted = hints.convert(given, type_)
    except hints.library().ValidationError as error:
        raise InvalidInput(str(error)) from None
    if check is not None:
        check.value(converted)
    return converted


class _Check:
    """Checks converted values where msgspec is more lenient: times without an offset, and long bytes."""

    def __init__(self, info: Any) -> None:
        self._info = info
        self._concerned: dict[int, bool] = {}

    @classmethod
    def of(cls, type_: Any, types: Any) -> _Check | None:
        """Return the check of a type; None where nothing needs one."""
        if all(map(_is_simple, types)):
            return None
        info = hints.type_info(type_)
        return cls(info) if any(map(_is_concerned, hints.nodes(info))) else None

    def value(self, value: Any) -> None:
        """Raises :class:`InvalidInput`."""
        self._visit(value, self._info, "$")

    def _visit(self, value: Any, node: Any, place: str) -> None:
        if not self._concerns(node):
            return
        while hints.kind_of(node) == "Metadata":
            node = node.type
        if hints.kind_of(node) == "Union":
            for member in node.types:
                self._visit(value, member, place)
        elif _is_concerned(node):
            _refuse(value, place)
        else:
            for item, part, step in _items(value, node):
                self._visit(item, part, place + step)

    def _concerns(self, node: Any) -> bool:
        known = self._concerned.get(id(node))
        if known is None:
            known = self._concerned[id(node)] = any(map(_is_concerned, hints.nodes(node)))
        return known


def _is_concerned(node: Any) -> bool:
    kind = hints.kind_of(node)
    return kind in _BINARY or (kind == "DateTime" and node.tz is None)


def _refuse(value: Any, place: str) -> None:
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        raise InvalidInput(
            f"Expected `datetime` with an offset, got {value.isoformat()!r} - at `{place}`\n"
            "try: add the offset (2026-01-02T03:04:05Z), or annotate the parameter as Naive[datetime]"
        )
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > MAX_BYTES:
        raise InvalidInput(
            f"Expected at most {MAX_BYTES} `bytes`, got {len(value)} - at `{place}`\n"
            "try: write them to a file, and pass its path"
        )


def _items(value: Any, node: Any) -> Iterator[tuple[Any, Any, str]]:
    """Yield the parts of a value with their types and the step to each in a path."""
    kind = hints.kind_of(node)
    if kind == "Collection" and isinstance(value, list | tuple | set | frozenset):
        yield from ((item, node.item_type, f"[{index}]") for index, item in enumerate(value))
    elif kind == "Tuple" and isinstance(value, tuple):
        pairs = enumerate(zip(value, node.item_types, strict=False))
        yield from ((item, part, f"[{index}]") for index, (item, part) in pairs)
    elif kind == "Dict" and isinstance(value, dict):
        yield from ((item, node.value_type, f".{key}") for key, item in value.items())
    elif kind == "TypedDict" and isinstance(value, dict):
        for field in node.fields:
            if field.name in value:
                yield value[field.name], field.type, f".{field.name}"
    elif (fields := getattr(node, "fields", None)) and isinstance(value, _class_of(node)):
        for field in fields:
            yield getattr(value, field.name, None), field.type, f".{field.encode_name}"


def _class_of(node: Any) -> Any:
    return getattr(node.cls, "__origin__", node.cls)

"""Restores the order of members in the objects that the CEL library returns; its own order is arbitrary.

An object with the content of one in the event is that one. Any other has the order in which the expression writes its
names, or that of the alphabet where it computes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from functory.engine.serialization import json_codec
from functory.triggers.expressions.syntax_tree import (
    CONSTANT,
    ENTRY_KEY,
    STRING_VALUE,
    STRUCT,
    STRUCT_ENTRIES,
    Message,
    children_of,
    read_message,
    read_syntax,
)

Names = frozenset[str]
Literals = Mapping[Names, tuple[str, ...]]


def read_literals(syntax: bytes) -> Literals:
    """Return the names of each object that a serialized, checked expression writes, in their order."""
    found: dict[Names, tuple[str, ...]] = {}
    _collect(read_syntax(syntax), found)
    return found


def _collect(expr: Message, found: dict[Names, tuple[str, ...]]) -> None:
    if STRUCT in expr:
        entries = [read_message(entry) for entry in read_message(expr[STRUCT][0]).get(STRUCT_ENTRIES, [])]
        keys = [read_message(entry[ENTRY_KEY][0]) for entry in entries]
        texts = [read_message(key[CONSTANT][0]).get(STRING_VALUE) for key in keys if CONSTANT in key]
        names = tuple(text[0].decode() for text in texts if text)
        if len(names) == len(keys):
            found.setdefault(frozenset(names), names)
    for child in children_of(expr):
        _collect(child, found)


class MemberOrder:
    """The order of members for one evaluation over these ``variables``."""

    def __init__(self, variables: Mapping[str, Any], literals: Literals) -> None:
        self._variables = variables
        self._literals = literals
        self._given: dict[Names, list[dict[str, Any]]] | None = None
        self._by_content: dict[Names, dict[bytes, dict[str, Any]]] = {}

    def restore(self, value: Any) -> Any:
        """``value`` with its members in order. Raises ValueError for a part that is not JSON."""
        if value is None or isinstance(value, str | int):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ValueError(f"{value} is not JSON")
            return value
        if isinstance(value, list):
            return [self.restore(one) for one in value]
        if not isinstance(value, dict):
            raise ValueError(f"it holds a {type(value).__name__}")
        if not all(isinstance(name, str) for name in value):
            raise ValueError("it has a member name that is not a text")
        return self._object(value)

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        names = frozenset(value)
        original = self._original(names, value) if len(names) > 1 else None
        if original is not None:
            return original
        return {name: self.restore(value[name]) for name in self._literals.get(names) or sorted(names)}

    def _original(self, names: Names, value: dict[str, Any]) -> dict[str, Any] | None:
        """The object of the variables with this content."""
        if self._given is None:
            self._given = _objects(self._variables)
        if names not in self._given:
            return None
        if names not in self._by_content:
            self._by_content[names] = {json_codec.canonical(one): one for one in self._given[names]}
        return self._by_content[names].get(json_codec.canonical(value))


def _objects(variables: Mapping[str, Any]) -> dict[Names, list[dict[str, Any]]]:
    found: dict[Names, list[dict[str, Any]]] = {}
    waiting: list[Any] = [*variables.values()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found.setdefault(frozenset(value), []).append(value)
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
    return found

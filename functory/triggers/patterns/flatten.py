"""Flattens an event for patterns: each path with all its values.

``{"data": {"items": [{"sku": "A"}, {"sku": "B"}]}}`` becomes ``{"data.items.sku": ["A", "B"]}``. An event is
flattened once and then matched against any number of patterns. Member names are joined with dots, so a name
that holds dots and real nesting are the same path; arrays add nothing to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.errors import Invalid

# A pattern may not name a longer path, so values below one are dropped. Without a bound, one long name
# above 100,000 leaves would be copied 100,000 times.
MAX_PATH = 512
# Deeper arrays are entered but not distinguished. No event of ours nests more than three.
MAX_ARRAY_DEPTH = 64

# (number of the array within the event, index of the element) for each array around a value, outermost first.
ArrayPosition = tuple[tuple[int, int], ...]


class _Word:
    """``true`` or ``false``. In Python ``True == 1``, so the bools themselves would be taken for numbers."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


TRUE = _Word("true")
FALSE = _Word("false")


class FlatEvent:
    """A flattened event.

    ``values``: path to the list of its leaves: str, int, float, None, TRUE or FALSE. Never an empty list.
    ``in_arrays``: only the leaves of objects in arrays, each with its position; they are at the end of the same path's
    list in ``values``. Empty for most events.
    """

    __slots__ = ("in_arrays", "values")

    def __init__(
        self, values: dict[str, list[Any]], placed: dict[str, list[tuple[Any, ArrayPosition]]]
    ) -> None:
        self.values = values
        self.in_arrays = placed

    def values_with_positions(self, path: str) -> list[tuple[Any, ArrayPosition]]:
        """Return every value of ``path`` with its position; ``()`` for a value outside of arrays."""
        placed = self.in_arrays.get(path, [])
        everything = self.values.get(path, [])
        return [(value, ()) for value in everything[: len(everything) - len(placed)]] + placed


def flatten(event: Mapping[str, Any] | FlatEvent) -> FlatEvent:
    """Flatten one event (a JSON object; a :class:`FlatEvent` is returned unchanged).

    An empty object or array has no value, so its path is absent. A scalar directly in an array is not tied to
    the position of that array: ``{"a": [1, 3], "b": [4, 2]}`` combines a = 1 with b = 2. Raises Invalid when
    the event is not a JSON object.
    """
    if isinstance(event, FlatEvent):
        return event
    if not isinstance(event, Mapping):
        raise Invalid(
            "the event is not a JSON object", f"got a {type(event).__name__}", "send an object: {...}"
        )
    values: dict[str, list[Any]] = {}
    placed: dict[str, list[tuple[Any, ArrayPosition]]] = {}
    arrays = 0
    todo: list[tuple[str | None, Any, ArrayPosition]] = [
        (None, event, ())
    ]  # dicts (first: any mapping) and lists
    for path, node, place in todo:  # grows while it is walked: no recursion, so no depth is too deep
        if type(node) is not list:
            prefix = "" if path is None else path + "."
            for name, value in node.items():
                if type(name) is not str and not isinstance(name, str):
                    raise _not_json(name)
                leaf = prefix + name
                kind = type(value)
                if kind is str or kind is int or kind is float or kind is dict or kind is list:
                    plain = value
                else:
                    plain = _plain(value)
                    kind = type(plain)
                if kind is dict or kind is list:
                    if len(leaf) <= MAX_PATH:
                        todo.append((leaf, plain, place))
                elif place:
                    placed.setdefault(leaf, []).append((plain, place))
                elif leaf in values:
                    values[leaf].append(plain)
                else:
                    values[leaf] = [plain]
            continue
        leaf = path or ""
        number, arrays = arrays, arrays + 1
        for index, value in enumerate(node):
            plain = _plain(value)
            if type(plain) is dict or type(plain) is list:
                inner = (*place, (number, index)) if len(place) < MAX_ARRAY_DEPTH else place
                todo.append((leaf, plain, inner))
            elif place:
                placed.setdefault(leaf, []).append((plain, place))
            else:
                values.setdefault(leaf, []).append(plain)
    for leaf, found in placed.items():
        values[leaf] = values.get(leaf, []) + [value for value, _ in found]
    return FlatEvent(values, placed)


def _plain(value: Any) -> Any:
    """Convert subclasses of JSON's types to the plain types. Raises Invalid for other types."""
    kind = type(value)
    if kind is bool:
        return TRUE if value else FALSE
    if value is None or kind in (str, int, float, dict, list):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return list(value)
    raise _not_json(value)


def _not_json(value: Any) -> Invalid:
    return Invalid(
        "the event is not JSON",
        f"it holds a {type(value).__name__}; JSON knows objects (with text names), lists, text, numbers, "
        "true, false and null",
        "encode the value as text or a number first",
    )

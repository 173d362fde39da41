"""Follows a path through a JSON Schema, and finds where no value can be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.triggers.save_checks.problems import listed, nearest

# Keywords whose value is an object of schemas by name.
_OF_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
# Schemas may refer to themselves.
MAX_REFERENCES = 20


@dataclass(frozen=True)
class Gap:
    """The end of a path: the number of steps that exist, the reason, and the names that exist there."""

    at: int
    why: str
    names: Collection[str] = ()
    certain: bool = False


def find_gap(schema: Any, steps: Sequence[str | int], *, through_lists: bool = False) -> Gap | None:
    """Return where a path ends by a schema; None when the schema allows a value.

    An object that may have more members than the schema names is a gap only for a name that is very like one of them.
    ``through_lists``: a name also applies to the elements of a list.
    """
    return _find(schema, schema, steps, 0, through_lists)


def closed(schema: Any) -> Any:
    """Return a schema whose objects have only the members that it names."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {
        name: {key: closed(one) for key, one in below.items()}
        if name in _OF_NAMES and isinstance(below, Mapping)
        else closed(below)
        for name, below in schema.items()
    }
    if made.get("properties") and made.get("additionalProperties", True) is True:
        made["additionalProperties"] = False
    return made


def _find(root: Any, schema: Any, steps: Sequence[str | int], at: int, through: bool) -> Gap | None:
    schema = _resolve(root, schema)
    if at == len(steps) or not isinstance(schema, Mapping) or "allOf" in schema:
        return None
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            gaps = [_find(root, one, steps, at, through) for one in schema[choice]]
            ends = [gap for gap in gaps if gap is not None]
            return max(ends, key=lambda gap: gap.at) if len(ends) == len(gaps) else None
    step = steps[at]
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if isinstance(step, int):
        if types and "array" not in types:
            return Gap(at, f"it is of type {' or '.join(types)}, not a list")
        return _find(root, schema.get("items"), steps, at + 1, through)
    if types and "object" not in types:
        if through and "array" in types:
            return _find(root, schema.get("items"), steps, at, through)
        return Gap(at, f"it is of type {' or '.join(types)} and has no members")
    members: Mapping[str, Any] = schema.get("properties") or {}
    if step in members:
        return _find(root, members[step], steps, at + 1, through)
    if "patternProperties" in schema:
        return None
    more = schema.get("additionalProperties", True)
    if more is False:
        return Gap(at, f"it has {listed(members) or 'no members'}", tuple(members))
    if more is True and nearest(step, members, 0.8) is not None:
        return Gap(at, f"it has {listed(members)}", tuple(members))
    return None if more is True else _find(root, more, steps, at + 1, through)


def _resolve(root: Any, schema: Any) -> Any:
    """Follow references within the schema; what cannot be followed allows everything."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        place = schema["$ref"]
        if not isinstance(place, str) or not place.startswith("#/"):
            return None
        schema = root
        for part in place[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(name) if isinstance(schema, Mapping) else None
    return None

"""The subschemas of a JSON Schema, numbered: what each costs itself, and what it applies to which part of a value.

:mod:`functory.engine.serialization.schema_cost` counts with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import re2

from functory.engine.errors import Invalid
from functory.engine.serialization.schema_references import METASCHEMA, References, identifier

# Looks at one part of a value up to which the size of the value alone bounds the check: half a second for a megabyte.
FLAT = 64
MAX_SUBSCHEMAS = 5_000
# Instructions of all regular expressions of a schema (RE2's count): about ten megabytes of memory.
MAX_PATTERN_SIZE = 100_000
FORMAT_REGEX = 1_000_000
_META_LOOKS = 32

_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_ANY_ITEM = ("contains", "unevaluatedItems", "additionalItems")
_ANY_MEMBER = ("unevaluatedProperties", "patternProperties")
# Keywords with an object of subschemas; the others have one, or a list of them.
_BY_NAME = frozenset({"dependentSchemas", "dependencies", "patternProperties"})
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


@dataclass(slots=True)
class Subschema:
    """A subschema: what it costs itself, and what it applies to the same value, to members and to items."""

    number: int
    names: int = 0
    compared: int = 0
    unique: bool = False
    pattern: PatternCost | None = None
    name_patterns: list[PatternCost] = field(default_factory=list)
    text_cost: int = 0
    in_place: list[int] = field(default_factory=list)
    branches: list[int] = field(default_factory=list)
    # Keywords about what no other one has looked at look at all of it again.
    repeats: int = 1
    members: dict[str, int] = field(default_factory=dict)
    other_member: list[int] = field(default_factory=list)
    any_member: list[int] = field(default_factory=list)
    member_name: list[int] = field(default_factory=list)
    first_items: list[int] = field(default_factory=list)
    other_item: list[int] = field(default_factory=list)
    any_item: list[int] = field(default_factory=list)

    def looks(self) -> int:
        """Return what one look costs at most for each part or character of a value."""
        patterns = [*self.name_patterns, *([self.pattern] if self.pattern else [])]
        each = sum(one.each for one in patterns) + (FLAT if any(one.is_squared for one in patterns) else 0)
        # What is costly itself is measured with each value; only many looks are refused.
        return 1 + min(FLAT, self.compared + each + (FLAT // 2 if self.unique else 0) + self.text_cost)

    def below(self) -> list[int]:
        """Return the subschemas that it applies to members and items."""
        return [
            *self.members.values(), *self.other_member, *self.any_member, *self.member_name,
            *self.first_items, *self.other_item, *self.any_item,
        ]  # fmt: skip


class PatternCost(NamedTuple):
    """``each``: units for each character of a text. ``is_squared``: the time grows with the square of the text."""

    each: int
    size: int
    is_squared: bool

    def of(self, text: str) -> int:
        length = len(text)
        return length * self.each + (length * length * self.size // 100 if self.is_squared else 0)


class Subschemas(list[Subschema]):
    """The subschemas of ``root`` by number, with all that its references lead to. ``what`` names the schema in errors.

    ``root`` is the number of the schema itself, ``patterns`` the number of its regular expressions. Raises
    :class:`Invalid` for too many of them.
    """

    def __init__(self, root: Mapping[str, Any] | bool, what: str) -> None:
        super().__init__([Subschema(0), Subschema(1, compared=_META_LOOKS, any_member=[1], any_item=[1])])
        self.patterns = 0
        places = References(root)
        numbers: dict[int, int] = {}
        waiting: list[tuple[Mapping[str, Any], Any]] = []
        size = 0

        def number_of(schema: Any, resource: Any) -> int:
            if not isinstance(schema, Mapping):
                return 0
            known = numbers.get(id(schema))
            if known is None:
                known = numbers[id(schema)] = len(self)
                self.append(Subschema(known))
                waiting.append((schema, resource))
                if known > MAX_SUBSCHEMAS:
                    raise refusal(what, f"it has more than {MAX_SUBSCHEMAS:,} subschemas")
            return known

        self.root = number_of(root, root)
        while waiting:
            schema, resource = waiting.pop()
            made = self[numbers[id(schema)]]
            if identifier(schema):
                resource = schema
            for target, base in places.of(schema, resource):
                made.in_place.append(1 if target is METASCHEMA else number_of(target, base))
            _read_keywords(schema, made, lambda inner, base=resource: number_of(inner, base))
            own = [*made.name_patterns, *([made.pattern] if made.pattern else [])]
            self.patterns += len(own)
            size += sum(one.size for one in own)
            if size > MAX_PATTERN_SIZE:
                raise refusal(
                    what, "its regular expressions are too large", "repeat less in them: {1,100000} is large"
                )


def refusal(
    what: str, why: str, try_: str = "use a flatter schema, and check the rest in the function"
) -> Invalid:
    """Return the error for a schema that is too costly."""
    return Invalid(f"the schema of the {what} is too costly to check", why, try_)


def _read_keywords(schema: Mapping[str, Any], made: Subschema, number_of: Callable[[Any], int]) -> None:
    for keyword in _IN_PLACE:
        found = [number_of(one) for one in _inner(schema, keyword)]
        made.in_place += found
        if keyword in ("anyOf", "oneOf"):
            made.branches += found
    for keyword in _ANY_ITEM:
        made.any_item += [number_of(one) for one in _inner(schema, keyword)]
    for keyword in _ANY_MEMBER:
        made.any_member += [number_of(one) for one in _inner(schema, keyword)]
    if "unevaluatedItems" in schema or "unevaluatedProperties" in schema:
        made.repeats = 3
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        made.members = {name: number_of(one) for name, one in properties.items()}
    if "additionalProperties" in schema:
        made.other_member.append(number_of(schema["additionalProperties"]))
    if "propertyNames" in schema:
        made.member_name.append(number_of(schema["propertyNames"]))
    items = schema.get("items")
    listed = items if isinstance(items, list) else schema.get("prefixItems")
    made.first_items = [number_of(one) for one in listed] if isinstance(listed, list) else []
    if isinstance(items, Mapping):
        made.other_item.append(number_of(items))
    required = schema.get("required")
    made.names = len(made.members) + (len(required) if isinstance(required, list) else 0)
    compared = [schema["const"]] if "const" in schema else []
    compared += schema["enum"] if isinstance(schema.get("enum"), list) else []
    made.compared = sum(isinstance(one, dict | list) for one in compared)
    made.unique = schema.get("uniqueItems") is True
    if isinstance(schema.get("pattern"), str):
        made.pattern = _pattern_cost(schema["pattern"])
    if isinstance(schema.get("patternProperties"), Mapping):
        made.name_patterns = [_pattern_cost(one) for one in schema["patternProperties"]]
    if "format" in schema:
        made.text_cost = FORMAT_REGEX if schema["format"] == "regex" else 4


def _inner(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    given = schema.get(keyword)
    if keyword in _BY_NAME:
        return list(given.values()) if isinstance(given, Mapping) else []
    return given if isinstance(given, list) else [given] if isinstance(given, Mapping | bool) else []


def _pattern_cost(text: str) -> PatternCost:
    options = re2.Options()
    options.log_errors = False
    try:
        size = re2.compile(_ESCAPE.sub(r"\\x{\1}", text), options).programsize
    except (re2.error, UnicodeEncodeError):
        # Look-around, back-references, or a syntax that RE2 does not have: jsonschema-rs may go back over the text.
        return PatternCost(1, 16 + len(text), True)
    return PatternCost(1 + size // 3, size, False)

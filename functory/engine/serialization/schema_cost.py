"""The cost of a check by a JSON Schema: counted before the check, so that no schema can hold up its process.

A schema of one kilobyte can ask for more steps than any computer makes: ``anyOf`` of two equal references, one below
the other, doubles the work at each level. So the steps are counted without making them. Each pair of a subschema and a
part of the value is looked at once, and what it costs is multiplied by how often the check would look at it.

- :class:`SchemaCost` refuses a schema that would be too costly for small values: when it is saved, and before it is
  compiled.
- Most schemas look at each part of a value a few times (``is_flat``). Their check is proportional to the value: nothing
  is counted.
- For the others :meth:`SchemaCost.measure` counts the steps for one value.

A unit of work is about 10 ns: one look of jsonschema-rs at one part of a value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import re2

from functory.engine.errors import Invalid
from functory.engine.serialization.json_codec import MAX_DEPTH
from functory.engine.serialization.schema_references import METASCHEMA, References, identifier

# Half a second in one check.
MAX_WORK = 50_000_000
# Looks at one part of a value up to which the size of the value alone bounds the check: half a second for a megabyte.
FLAT = 64
# Looks at one part of a value that no schema may need: two milliseconds for each part.
MAX_LOOKS = 200_000
MAX_SUBSCHEMAS = 5_000
# Instructions of all regular expressions of a schema (RE2's count): about ten megabytes of memory.
MAX_PATTERN_SIZE = 100_000
# Pairs of a subschema and a part of a value that are counted: half a second.
MAX_PAIRS = 200_000
# Entries of the lists of subschemas that apply to the same part of a value.
_MAX_CLOSURES = 300_000
# Steps of the count of a schema's looks by depth. A schema that needs more is measured with each value.
_MAX_STEPS = 1_000_000
# One error of jsonschema-rs has its own copy of the value, which costs as much as errors of this number of parts.
_PARTS_PER_ERROR = 64
_META_LOOKS = 32
_FORMAT_REGEX = 1_000_000

_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_ANY_ITEM = ("contains", "unevaluatedItems", "additionalItems")
_ANY_MEMBER = ("unevaluatedProperties", "patternProperties")
# Keywords with an object of subschemas; the others have one, or a list of them.
_BY_NAME = frozenset({"dependentSchemas", "dependencies", "patternProperties"})
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


class Measured(NamedTuple):
    """What a check of one value may need.

    ``errors``: the errors that it may have at most, and the looks that finding them takes. ``branch_errors``: those of
    one ``anyOf`` or ``oneOf``, which are collected also when only the first error is wanted.
    """

    work: int
    errors: int
    branch_errors: int


@dataclass(slots=True)
class _Subschema:
    """A subschema: what it costs itself, and what it applies to the same value, to members and to items."""

    number: int
    names: int = 0
    compared: int = 0
    unique: bool = False
    pattern: _PatternCost | None = None
    name_patterns: list[_PatternCost] = field(default_factory=list)
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


class _PatternCost(NamedTuple):
    """``each``: units for each character of a text. ``is_squared``: the time grows with the square of the text."""

    each: int
    size: int
    is_squared: bool

    def of(self, text: str) -> int:
        length = len(text)
        return length * self.each + (length * length * self.size // 100 if self.is_squared else 0)


class SchemaCost:
    """The cost of one schema. ``what`` names it in errors. Raises :class:`Invalid` for one that is too costly."""

    def __init__(self, schema: Mapping[str, Any] | bool, what: str) -> None:
        self._what = what
        self._schemas: list[_Subschema] = []
        self._closures: dict[int, list[tuple[int, int]]] = {}
        self._entries = 0
        self.patterns = 0
        self._read(schema)
        self.has_branches = any(one.branches for one in self._schemas)
        self._order = self._order_in_place()
        self._edges = sum(1 + len(one.in_place) + len(_children(one)) for one in self._schemas)
        self.referred = self._referred()
        self._check_looks()
        self.is_flat = self._is_flat()

    def measure(self, value: Any) -> Measured | None:
        """Return what the check of a value may need; None when counting it takes too long itself."""
        try:
            return _Count(self).total(value)
        except (_TooMany, RecursionError):
            return None

    def closure(self, number: int) -> list[tuple[int, int]]:
        """Return the subschemas that apply to a value which subschema ``number`` is applied to, and how often each."""
        known = self._closures.get(number)
        if known is not None:
            return known
        counts = {number: 1}
        for one in sorted(self._below(number), key=self._order.__getitem__, reverse=True):
            schema = self._schemas[one]
            for inner in schema.in_place:
                counts[inner] = counts.get(inner, 0) + counts[one] * schema.repeats
        self._entries += len(counts)
        if self._entries > _MAX_CLOSURES:
            raise _TooMany
        found = self._closures[number] = list(counts.items())
        return found

    def schema(self, number: int) -> _Subschema:
        return self._schemas[number]

    def _below(self, number: int) -> set[int]:
        found, waiting = {number}, [number]
        while waiting:
            for inner in self._schemas[waiting.pop()].in_place:
                if inner not in found:
                    found.add(inner)
                    waiting.append(inner)
        return found

    def _refuse(
        self, why: str, try_: str = "use a flatter schema, and check the rest in the function"
    ) -> Invalid:
        return Invalid(f"the schema of the {self._what} is too costly to check", why, try_)

    # Reading.

    def _read(self, root: Mapping[str, Any] | bool) -> None:
        places = References(root)
        numbers: dict[int, int] = {}
        waiting: list[tuple[Mapping[str, Any], Any]] = []
        size = 0
        self._schemas = [_Subschema(0), _Subschema(1, compared=_META_LOOKS, any_member=[1], any_item=[1])]

        def number_of(schema: Any, resource: Any) -> int:
            if not isinstance(schema, Mapping):
                return 0
            known = numbers.get(id(schema))
            if known is None:
                known = numbers[id(schema)] = len(self._schemas)
                self._schemas.append(_Subschema(known))
                waiting.append((schema, resource))
                if known > MAX_SUBSCHEMAS:
                    raise self._refuse(f"it has more than {MAX_SUBSCHEMAS:,} subschemas")
            return known

        self.root = number_of(root, root)
        while waiting:
            schema, resource = waiting.pop()
            made = self._schemas[numbers[id(schema)]]
            if identifier(schema):
                resource = schema
            for target, base in places.of(schema, resource):
                made.in_place.append(1 if target is METASCHEMA else number_of(target, base))
            self._read_keywords(schema, made, lambda inner, base=resource: number_of(inner, base))
            own = [*made.name_patterns, *([made.pattern] if made.pattern else [])]
            self.patterns += len(own)
            size += sum(one.size for one in own)
            if size > MAX_PATTERN_SIZE:
                raise self._refuse(
                    "its regular expressions are too large", "repeat less in them: {1,100000} is large"
                )

    @staticmethod
    def _read_keywords(schema: Mapping[str, Any], made: _Subschema, number_of: Any) -> None:
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
            made.text_cost = _FORMAT_REGEX if schema["format"] == "regex" else 4

    # Looks at one part of a value, for any value.

    def _order_in_place(self) -> dict[int, int]:
        """Return the position of each subschema behind all that it applies to the same value."""
        order: dict[int, int] = {}
        open_: set[int] = set()
        for first in range(len(self._schemas)):
            waiting = [] if first in order else [(first, False)]
            while waiting:
                number, is_done = waiting.pop()
                if is_done:
                    open_.discard(number)
                    order[number] = len(order)
                elif number in open_:
                    raise self._refuse(
                        "it refers to itself for the same value", "remove the $ref that leads back"
                    )
                elif number not in order:
                    open_.add(number)
                    waiting.append((number, True))
                    waiting += [(one, False) for one in self._schemas[number].in_place if one not in order]
        return order

    def _check_looks(self) -> None:
        """Refuse a schema that looks too often at one part of some value. What leads back to itself counts alone."""
        before: Mapping[int, int] | None = None
        steps = 0
        while before is None or any(before.values()):
            before = self._looks_at_level(before, self.referred)
            steps += self._edges
            if max(before.values()) > MAX_LOOKS or steps > _MAX_STEPS:
                raise self._refuse(
                    f"its parts apply to one value in more than {MAX_LOOKS:,} ways: they multiply at each level "
                    "where several members of anyOf, oneOf or allOf lead to the same part",
                    "name each alternative once",
                )

    def _is_flat(self) -> bool:
        before: Mapping[int, int] | None = None
        for level in range(MAX_DEPTH + 1):
            now = self._looks_at_level(before, ())
            most = now[self.root]
            if before is None:
                # The names of the value itself are looked for once.
                most -= min(most, sum(one.names // 4 for one in self._schemas))
            if most > FLAT or level * self._edges > _MAX_STEPS:
                return False
            if now == before:
                break
            before = now
        return True

    def _looks_at_level(self, before: Mapping[int, int] | None, left_out: Collection[int]) -> dict[int, int]:
        """Return the looks at one part of a value, one level further below it than ``before``, by the subschema that
        checks the value. ``left_out``: subschemas that are not counted where members or items have them.
        """
        members: dict[int, int] = {}
        items: dict[int, int] = {}
        now: dict[int, int] = {}
        below = {**(before or {}), **dict.fromkeys(left_out, 0)}
        for number in self._order:
            schema = self._schemas[number]
            if before is None:
                in_objects = in_lists = schema.looks() + schema.names // 4
            else:
                in_objects = _most(below, [*schema.members.values(), *schema.other_member]) + sum(
                    below[one] for one in (*schema.any_member, *schema.member_name)
                )
                in_lists = _most(below, [*schema.first_items, *schema.other_item]) + sum(
                    below[one] for one in schema.any_item
                )
            in_objects += schema.repeats * sum(members[one] for one in schema.in_place)
            in_lists += schema.repeats * sum(items[one] for one in schema.in_place)
            members[number], items[number] = min(in_objects, 10**12), min(in_lists, 10**12)
            now[number] = max(members[number], items[number])
        return now

    def _referred(self) -> dict[int, int]:
        """Return the subschemas that lead back to themselves, and how many places refer to each.

        jsonschema-rs remembers what it found with each of these places for a part of the value: it looks once.
        """
        edges = [{*one.in_place, *_children(one)} for one in self._schemas]
        places: dict[int, int] = {}
        for inner in edges:
            for one in inner:
                places[one] = places.get(one, 0) + 1
        return {one: places[one] for group in _components(edges) for one in group}


def _components(edges: list[set[int]]) -> list[list[int]]:
    """Return the groups of nodes that lead to each other (Tarjan's algorithm, without recursion)."""
    found: list[list[int]] = []
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for first in range(len(edges)):
        waiting = [] if first in index else [(first, iter(edges[first]))]
        while waiting:
            node, left = waiting[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            for inner in left:
                if inner not in index:
                    waiting.append((inner, iter(edges[inner])))
                    break
                if inner in on_stack:
                    low[node] = min(low[node], index[inner])
            else:
                waiting.pop()
                if waiting:
                    low[waiting[-1][0]] = min(low[waiting[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    group = stack[at:]
                    del stack[at:]
                    on_stack.difference_update(group)
                    if len(group) > 1 or node in edges[node]:
                        found.append(group)
    return found


class _TooMany(Exception):
    """The count itself takes too long."""


class _Count:
    """Counts the work and the errors of one value; each pair of a subschema and a part of the value is counted once."""

    def __init__(self, cost: SchemaCost) -> None:
        self._cost = cost
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        self._sizes: dict[int, int] = {}
        self._branch_errors = 0
        # The work of pairs that are looked at once, however many lead there.
        self._once = 0
        self._left = MAX_PAIRS

    def total(self, value: Any) -> Measured:
        work, errors = self._pair(self._cost.root, value)
        return Measured(work + self._once, errors, self._branch_errors)

    def _pair(self, number: int, value: Any) -> tuple[int, int]:
        key = (number, id(value))
        known = self._known.get(key)
        if known is not None:
            return known
        work = errors = 0
        size = self._size(value)
        closure = self._cost.closure(number)
        for inner, times in closure:
            self._left -= 1
            if self._left < 0:
                raise _TooMany
            schema = self._cost.schema(inner)
            work += times * _own_work(schema, value, size)
            errors += times * (1 + size // _PARTS_PER_ERROR)
            for below, part in _applied(schema, value):
                more, faults = self._pair(below, part)
                work += times * more
                errors += times * faults
        if places := self._cost.referred.get(number):
            self._once += places * work
            work = 1
        self._known[key] = found = (work, errors)
        for inner, _ in closure:
            if branches := self._cost.schema(inner).branches:
                collected = sum(self._pair(one, value)[1] for one in branches)
                self._branch_errors = max(self._branch_errors, collected)
        return found

    def _size(self, value: Any) -> int:
        if isinstance(value, str):
            return 1 + len(value) // 16
        if not isinstance(value, dict | list | tuple):
            return 1
        known = self._sizes.get(id(value))
        if known is None:
            parts = value.values() if isinstance(value, dict) else value
            known = self._sizes[id(value)] = 1 + sum(map(self._size, parts))
            self._left -= len(value) // 8
            if self._left < 0:
                raise _TooMany
        return known


def _own_work(schema: _Subschema, value: Any, size: int) -> int:
    work = 1 + schema.compared
    if isinstance(value, str):
        work += schema.text_cost * (1 if schema.text_cost == _FORMAT_REGEX else len(value))
        work += schema.pattern.of(value) if schema.pattern else 0
    elif isinstance(value, dict):
        work += schema.names
        work += sum(one.of(name) for one in schema.name_patterns for name in value)
    elif schema.unique:
        work += 4 * size
    return work


def _applied(schema: _Subschema, value: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            own = schema.members.get(name)
            for number in schema.other_member if own is None else (own,):
                yield number, part
            for number in schema.any_member:
                yield number, part
            for number in schema.member_name:
                yield number, name
    elif isinstance(value, list | tuple):
        for at, part in enumerate(value):
            for number in schema.first_items[at : at + 1] or schema.other_item:
                yield number, part
            for number in schema.any_item:
                yield number, part


def _children(schema: _Subschema) -> list[int]:
    return [
        *schema.members.values(), *schema.other_member, *schema.any_member, *schema.member_name,
        *schema.first_items, *schema.other_item, *schema.any_item,
    ]  # fmt: skip


def _most(looks: Mapping[int, int], numbers: list[int]) -> int:
    return max((looks[one] for one in numbers), default=0)


def _inner(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    given = schema.get(keyword)
    if keyword in _BY_NAME:
        return list(given.values()) if isinstance(given, Mapping) else []
    return given if isinstance(given, list) else [given] if isinstance(given, Mapping | bool) else []


def _pattern_cost(text: str) -> _PatternCost:
    options = re2.Options()
    options.log_errors = False
    try:
        size = re2.compile(_ESCAPE.sub(r"\\x{\1}", text), options).programsize
    except (re2.error, UnicodeEncodeError):
        # Look-around, back-references, or a syntax that RE2 does not have: jsonschema-rs may go back over the text.
        return _PatternCost(1, 16 + len(text), True)
    return _PatternCost(1 + size // 3, size, False)

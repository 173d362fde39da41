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

from collections.abc import Collection, Mapping
from typing import Any

from functory.engine.serialization.json_codec import MAX_DEPTH
from functory.engine.serialization.schema_measure import Closures, Count, Measured, TooMany
from functory.engine.serialization.subschemas import FLAT, Subschemas, refusal

# Half a second in one check.
MAX_WORK = 50_000_000
# Looks at one part of a value that no schema may need: two milliseconds for each part.
MAX_LOOKS = 200_000
# Steps of the count of a schema's looks by depth. A schema that needs more is measured with each value.
_MAX_STEPS = 1_000_000


class SchemaCost:
    """The cost of one schema. ``what`` names it in errors. Raises :class:`Invalid` for one that is too costly."""

    def __init__(self, schema: Mapping[str, Any] | bool, what: str) -> None:
        self._what = what
        self._schemas = Subschemas(schema, what)
        self.patterns = self._schemas.patterns
        self.has_branches = any(one.branches for one in self._schemas)
        self._order = self._order_in_place()
        self._edges = sum(1 + len(one.in_place) + len(one.below()) for one in self._schemas)
        self._referred = self._find_referred()
        self._check_looks()
        self.is_flat = self._is_flat()
        self._closures = Closures(self._schemas, self._order)

    def measure(self, value: Any) -> Measured | None:
        """Return what the check of a value may need; None when counting it takes too long itself."""
        try:
            return Count(self._schemas, self._closures, self._referred).total(self._schemas.root, value)
        except (TooMany, RecursionError):
            return None

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
                    raise refusal(
                        self._what,
                        "it refers to itself for the same value",
                        "remove the $ref that leads back",
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
            before = self._looks_at_level(before, self._referred)
            steps += self._edges
            if max(before.values()) > MAX_LOOKS or steps > _MAX_STEPS:
                raise refusal(
                    self._what,
                    f"its parts apply to one value in more than {MAX_LOOKS:,} ways: they multiply at each level "
                    "where several members of anyOf, oneOf or allOf lead to the same part",
                    "name each alternative once",
                )

    def _is_flat(self) -> bool:
        before: Mapping[int, int] | None = None
        for level in range(MAX_DEPTH + 1):
            now = self._looks_at_level(before, ())
            most = now[self._schemas.root]
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

    def _find_referred(self) -> dict[int, int]:
        """Return the subschemas that lead back to themselves, and how many places refer to each.

        jsonschema-rs remembers what it found with each of these places for a part of the value: it looks once.
        """
        edges = [{*one.in_place, *one.below()} for one in self._schemas]
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


def _most(looks: Mapping[int, int], numbers: list[int]) -> int:
    return max((looks[one] for one in numbers), default=0)

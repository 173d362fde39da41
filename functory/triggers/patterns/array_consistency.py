"""Checks that the values chosen for several paths can come from the same elements of the event's arrays.

``{"items": {"sku": ["A"], "stock": [0]}}`` must not match ``{"items": [{"sku": "A", "stock": 9}, {"sku": "B",
"stock": 0}]}``: both values are there, but no single item has both. The rule: choose one value for each path
such that, in every array of the event, all chosen values that lie in it lie in the same element. Values
outside of an array are not bound by it. Paths are taken in alphabetical order, and a path that must be absent
must have no value that agrees with what was chosen before it.

Arrays nest as a tree, so the search fixes the element of an outermost array, drops what disagrees and goes on
inside; paths that share no array are searched apart from each other. For events as people write them that is
linear in the number of values. Events whose names imitate nesting (``{"a.b": [...], "a": {"b": [...]}}``) can
make it exponential, so a search has a budget and raises BudgetExceeded beyond it.
"""

from __future__ import annotations

from typing import NamedTuple

from functory.triggers.patterns.flatten import ArrayPosition

# A million candidates is about a second: ten times what the largest event needs.
BUDGET = 1_000_000
# Each level fixes the element of one array. Far more than any event has, far less than Python's stack.
MAX_LEVELS = 200


class RequiredPath(NamedTuple):
    """A path that must have a value: its rank in the order of paths, and the positions of the values that fit."""

    rank: int
    positions: list[ArrayPosition]


class ForbiddenValue(NamedTuple):
    """A value that must not agree with the values chosen for paths of lower rank: its path's rank, and its position."""

    rank: int
    position: ArrayPosition


class BudgetExceeded(Exception):
    """A search would try too many combinations of array elements."""


class Search:
    """One search with its budget; ``possible`` may be called several times."""

    def __init__(self) -> None:
        self.left = BUDGET

    def possible(self, needs: list[RequiredPath], bans: list[ForbiddenValue], level: int = 0) -> bool:
        """Return True if each need has a position such that no ban agrees with them.

        Raises :class:`BudgetExceeded`.
        """
        self.left -= sum(len(need.positions) for need in needs) + len(bans)
        if self.left < 0 or level > MAX_LEVELS:
            raise BudgetExceeded
        if not all(need.positions for need in needs) or not all(ban.position for ban in bans):
            return False
        if not bans:
            # A value outside of all arrays agrees with everything; nothing is gained by another.
            needs = [need for need in needs if () not in need.positions]
        return all(self._solve(*part, level) for part in _parts(needs, bans))

    def _solve(self, needs: list[RequiredPath], bans: list[ForbiddenValue], level: int) -> bool:
        if not needs:
            return not bans
        if len(needs) == 1 and not bans:
            return True
        first = min(needs, key=lambda need: need.rank)
        if any(ban.rank < first.rank for ban in bans):
            return False
        rest = [need for need in needs if need is not first]
        if () in first.positions and self.possible(rest, bans, level + 1):
            return True
        for array, elements in _by_element(first.positions).items():
            others = [(need.rank, *_split(need.positions, array)) for need in rest]
            inner_bans: dict[int, list[ForbiddenValue]] = {}
            outer_bans: list[ForbiddenValue] = []
            for ban in bans:
                (outermost, index), *inner = ban.position
                if outermost == array:
                    inner_bans.setdefault(index, []).append(ForbiddenValue(ban.rank, tuple(inner)))
                else:
                    outer_bans.append(ban)
            for index, chosen in elements.items():
                remaining = [
                    RequiredPath(rank, inside.get(index, []) + outside) for rank, inside, outside in others
                ]
                self.left -= 1 + len(outer_bans) + sum(len(outside) for _, _, outside in others)
                if self.left < 0:
                    raise BudgetExceeded
                if all(need.positions for need in remaining) and self.possible(
                    [RequiredPath(first.rank, chosen), *remaining],
                    inner_bans.get(index, []) + outer_bans,
                    level + 1,
                ):
                    return True
        return False


def _by_element(places: list[ArrayPosition]) -> dict[int, dict[int, list[ArrayPosition]]]:
    """Group places by their outermost array, then by its element; each without that outermost step."""
    groups: dict[int, dict[int, list[ArrayPosition]]] = {}
    for place in places:
        if place:
            array, index = place[0]
            groups.setdefault(array, {}).setdefault(index, []).append(place[1:])
    return groups


def _split(
    places: list[ArrayPosition], array: int
) -> tuple[dict[int, list[ArrayPosition]], list[ArrayPosition]]:
    """Divide places: those whose outermost array is ``array``, by element and inside it, and the others."""
    inside: dict[int, list[ArrayPosition]] = {}
    outside: list[ArrayPosition] = []
    for place in places:
        if place and place[0][0] == array:
            inside.setdefault(place[0][1], []).append(place[1:])
        else:
            outside.append(place)
    return inside, outside


def _parts(
    needs: list[RequiredPath], bans: list[ForbiddenValue]
) -> list[tuple[list[RequiredPath], list[ForbiddenValue]]]:
    """Divide the search into independent parts: no two share an outermost array."""
    parts: list[tuple[set[int], list[RequiredPath], list[ForbiddenValue]]] = []
    for need in needs:
        arrays, together = {place[0][0] for place in need.positions if place}, [need]
        apart = []
        for part in parts:
            if part[0].isdisjoint(arrays):
                apart.append(part)
            else:
                arrays, together = arrays | part[0], part[1] + together
        parts = [*apart, (arrays, together, [])]
    home = {array: part for part in parts for array in part[0]}
    stray: list[ForbiddenValue] = []
    for ban in bans:
        part = home.get(ban.position[0][0])
        (part[2] if part else stray).append(ban)
    divided = [(part[1], part[2]) for part in parts]
    return [*divided, ([], stray)] if stray else divided

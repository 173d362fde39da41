"""Draws docs/explanation/architecture.svg from the imports: ``python -m tests.support.architecture_picture``.

A box is a room: a package or module of one house. A line is an import, from the upper room to the lower one. The
picture omits a line when other lines imply it (the transitive reduction), so it stays readable. A test compares the
stored picture with the current imports.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "explanation" / "architecture.svg"

HOUSES = {
    "functory": "the face: what a user imports and runs",
    "workers": "from execution to result",
    "triggers": "from event to execution",
    "packs": "importers",
    "engine": "the rows and their rules; alone speaks SQL",
}
# These modules are not drawn: every room imports them.
SHARED = {"errors", "settings", "names", "_version"}

BOX_HEIGHT, GAP, ROW, MARGIN = 30, 14, 66, 24
CHARACTER = 7.4


def room_of(module: str) -> tuple[str, str] | None:
    """The house and the room of a dotted module name; None for what is not drawn."""
    parts = module.split(".")
    if parts[0] != "functory" or len(parts) < 2 or parts[1] == "migrations":
        return None
    if parts[1] in HOUSES:
        return (parts[1], parts[2] if len(parts) > 2 else "") if parts[-1] not in SHARED else None
    return None if parts[1] in SHARED else ("functory", parts[1])


def modules() -> dict[str, Path]:
    """Every module of the product by its dotted name."""
    found = {}
    for path in sorted((ROOT / "functory").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imported(tree: ast.Module) -> Iterable[str]:
    """Dotted names that a module imports when it is loaded or run; imports for type checkers are left out."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def arrows() -> tuple[dict[str, set[str]], dict[tuple[str, str], set[str]]]:
    """The rooms of each house, and for each (house, room) the rooms of the same house that it imports."""
    known = modules()
    rooms: dict[str, set[str]] = defaultdict(set)
    edges: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, path in known.items():
        own = room_of(name)
        if own is None or not own[1]:
            continue
        rooms[own[0]].add(own[1])
        for target in imported(ast.parse(path.read_text())):
            if target not in known:
                continue
            other = room_of(target)
            if other is not None and other[1] and other[0] == own[0] and other != own:
                edges[own].add(other[1])
    return rooms, edges


def levels(rooms: set[str], below: dict[str, set[str]]) -> dict[str, int]:
    """The length of the longest import chain below each room, in rooms. Raises ValueError for a circle of imports."""
    path: list[str] = []

    @cache
    def level(room: str) -> int:
        if room in path:
            raise ValueError(f"imports form a circle: {' → '.join([*path, room])}")
        path.append(room)
        height = 1 + max((level(lower) for lower in below[room]), default=-1)
        path.pop()
        return height

    return {room: level(room) for room in sorted(rooms)}


def reduced(below: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The lines that no longer path through other rooms implies."""

    @cache
    def reach(room: str) -> frozenset[str]:
        return frozenset(below[room]).union(*(reach(lower) for lower in below[room]))

    return sorted(
        (room, lower)
        for room, lowers in below.items()
        for lower in lowers
        if not any(lower in reach(other) for other in lowers if other != lower)
    )


def house(
    name: str, rooms: set[str], edges: dict[tuple[str, str], set[str]], top: int, width: int
) -> tuple[str, int]:
    """One house as SVG, and its height in pixels."""
    below = {room: edges.get((name, room), set()) for room in rooms}
    level = levels(rooms, below)
    rows: dict[int, list[str]] = defaultdict(list)
    for room in sorted(rooms):
        rows[level[room]].append(room)
    highest = max(level.values())
    place: dict[str, tuple[float, float, float]] = {}
    for number, row in rows.items():
        widths = [len(room) * CHARACTER + 20 for room in row]
        left = (width - sum(widths) - GAP * (len(row) - 1)) / 2
        for room, wide in zip(row, widths, strict=True):
            place[room] = (left, top + 44 + (highest - number) * ROW, wide)
            left += wide + GAP
    height = 44 + highest * ROW + BOX_HEIGHT + 18
    parts = [
        f'<rect class="house" x="{MARGIN / 2:.0f}" y="{top}" width="{width - MARGIN:.0f}" height="{height}" rx="10"/>',
        f'<text class="title" x="{MARGIN}" y="{top + 24}">{escape(name)}'
        f'<tspan class="note" dx="10">{escape(HOUSES[name])}</tspan></text>',
    ]
    for upper, lower in reduced(below):
        x1, y1, w1 = place[upper]
        x2, y2, w2 = place[lower]
        start, end, middle = (x1 + w1 / 2, y1 + BOX_HEIGHT), (x2 + w2 / 2, y2), (y1 + BOX_HEIGHT + y2) / 2
        parts.append(
            f'<path class="line" d="M{start[0]:.1f} {start[1]:.1f} C{start[0]:.1f} {middle:.1f} '
            f'{end[0]:.1f} {middle:.1f} {end[0]:.1f} {end[1]:.1f}"/>'
        )
    for room, (x, y, wide) in place.items():
        parts.append(
            f'<rect class="room" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{BOX_HEIGHT}" rx="5"/>'
        )
        parts.append(f'<text class="name" x="{x + wide / 2:.1f}" y="{y + 20:.1f}">{escape(room)}</text>')
    return "\n".join(parts), height


STYLE = """\
.house { fill: #00968811; stroke: #00968866; }
.room { fill: #ffffff; stroke: #00796b; }
.line { fill: none; stroke: #00796b99; stroke-width: 1.3; }
.title { font: 600 16px system-ui, sans-serif; fill: #00695c; }
.note { font: 400 13px system-ui, sans-serif; fill: #5f7d79; }
.name { font: 12.5px ui-monospace, monospace; fill: #17302d; text-anchor: middle; }
.order { font: 400 13px system-ui, sans-serif; fill: #5f7d79; text-anchor: middle; }"""


def picture() -> str:
    """The whole picture as SVG text."""
    rooms, edges = arrows()
    width, top, parts = 1280, 10, []
    order = [name for name in HOUSES if len(rooms.get(name, ())) > 1]
    for name in order:
        drawn, height = house(name, rooms[name], edges, top, width)
        parts.append(drawn)
        top += height + 34
        if name != order[-1]:
            text = "imports" if name in ("functory", order[-2]) else "beside it: neither imports the other"
            parts.append(f'<text class="order" x="{width / 2:.0f}" y="{top - 12}">{escape(text)}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top - 20}" role="img" '
        'aria-label="The rooms of Functory and their imports">'
    )
    return f"{head}\n<style>\n{STYLE}\n</style>\n" + "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())
    print(f"wrote {PICTURE.relative_to(ROOT)}")

"""Draws the pictures of docs/explanation that are made by hand: ``python -m tests.support.explanation_pictures``.

Each picture is a function that returns SVG. A test compares the stored files with them, so a change of a text here is
a change of the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "explanation"

STYLE = """\
.area { fill: #00968811; stroke: #00968866; }
.box { fill: #ffffff; stroke: #00796b; }
.row { fill: #e0f2f1; stroke: #00796b; }
.bad { fill: #fdecea; stroke: #b3261e; }
.stopped { fill: #fff4e0; stroke: #9a5b00; stroke-dasharray: 5 3; }
.line { fill: none; stroke: #00796b; stroke-width: 1.6; marker-end: url(#tip); }
.hint { fill: none; stroke: #7a8f8c; stroke-width: 1.4; stroke-dasharray: 5 4; marker-end: url(#tip); }
.title { font: 600 14px system-ui, sans-serif; fill: #17302d; }
.text { font: 400 12.5px system-ui, sans-serif; fill: #17302d; }
.note { font: 400 12.5px system-ui, sans-serif; fill: #6b8380; }
.head { font: 600 15px system-ui, sans-serif; fill: #00897b; }
@media (prefers-color-scheme: dark) { .note { fill: #a5bab7; } .line { stroke: #26a69a; } }"""

LINE_HEIGHT = 18


def box(kind: str, x: int, y: int, width: int, lines: Sequence[str], height: int | None = None) -> str:
    """A box with a title, the first of the lines, and a text below it."""
    tall = height or 14 + LINE_HEIGHT * len(lines)
    parts = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{tall}" rx="6"/>']
    for number, line in enumerate(lines):
        name = "title" if number == 0 else "text"
        parts.append(text(name, x + 12, y + 22 + LINE_HEIGHT * number, line))
    return "\n".join(parts)


def text(kind: str, x: int, y: int, words: str, anchor: str = "start") -> str:
    """One line of text."""
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def line(path: str, kind: str = "line") -> str:
    """An arrow along an SVG path."""
    return f'<path class="{kind}" d="{path}"/>'


def drawing(width: int, height: int, about: str, parts: Sequence[str]) -> str:
    """A whole SVG file. ``about`` is for people who do not see it."""
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="#00796b"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(about)}">\n<style>\n{STYLE}\n</style>\n{tip}\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def event_path() -> str:
    """The way of one event: three processes, three transactions, and the broker beside them."""
    columns = (40, 350, 660)
    wide = 260
    processes = (
        ("a source or a function", "a file came, emit(), a new version"),
        ("router", "match → guards → flow control"),
        ("worker", "claim → child process → finish"),
    )
    stored = (
        ("event: pending", "the change that it describes", "its place in the routing queue"),
        ("event: routed", "firing: fired, or suppressed and why", "execution: queued"),
        ("execution: succeeded", "result, spans, log", "its own events: pending"),
    )
    parts = [
        text("head", 40, 30, "processes"),
        '<rect class="area" x="20" y="186" width="916" height="122" rx="10"/>',
        text("head", 40, 208, "rows of the database"),
        text("head", 40, 372, "broker"),
    ]
    for x, process, rows in zip(columns, processes, stored, strict=True):
        parts.append(box("box", x, 44, wide, process, 52))
        parts.append(box("row", x, 220, wide, rows, 72))
    for number, x in enumerate(columns, 1):
        parts.append(line(f"M{x + 190} 96 V218"))
        parts.append(text("note", x + 182, 152, f"transaction {number}", "end"))
    for x, label in ((350, "takes pending events"), (660, "takes executions")):
        parts.append(line(f"M{x - 60} 218 C{x - 60} 150 {x + 30} 180 {x + 30} 98"))
        parts.append(text("note", x + 40, 122, label))
    parts += [
        box("box", 350, 384, wide, ("topic exchange", "CloudEvents, for any subscriber"), 52),
        box("box", 660, 384, wide, ("message", "ids of executions, and nothing else"), 52),
        line("M440 292 V382"),
        text("note", 448, 366, "after the commit, from the outbox"),
        line("M570 292 C580 350 700 316 716 382", "hint"),
        line("M920 410 C958 410 958 70 922 70", "hint"),
        text("note", 738, 366, "a hint: it may be lost"),
        line("M700 292 C640 346 260 346 180 294"),
        text("note", 200, 350, "and so on, one deeper"),
    ]
    return drawing(960, 456, "The way of one event through processes, rows and the broker", parts)


def guarded_tree() -> str:
    """A causal tree that a guard ends: an update, its check, the rollback, and the check that does not start."""
    steps = (
        ("row", "event function.updated, about parse", "depth 0   chain: empty"),
        ("bad", "execution validate_parse: failed", "depth 1   chain: check-each-change (parse)"),
        ("row", "event execution.failed, about validate_parse", "depth 1   the same chain"),
        (
            "box",
            "execution roll_back: succeeded",
            "depth 2   chain: check-each-change (parse), undo (validate_parse)",
        ),
        ("row", "event function.activated, about parse", "depth 2   the same chain"),
        (
            "stopped",
            "check-each-change: suppressed, cycle",
            "it is in the chain already, for the same subject",
        ),
    )
    links = ("trigger check-each-change", "emits", "trigger undo", "emits", "trigger check-each-change")
    parts = []
    for number, (kind, title, note) in enumerate(steps):
        x, y = 20 + 34 * number, 20 + 74 * number
        parts.append(box(kind, x, y, 376, (title,), 36))
        parts.append(text("note", x + 388, y + 23, note))
        if number < len(links):
            parts.append(line(f"M{x + 22} {y + 36} V{y + 92} H{x + 32}"))
            parts.append(text("note", x + 32, y + 60, links[number]))
    return drawing(
        960,
        446,
        "A causal tree: an update, a failed check, a rollback, and a check that a guard stops",
        parts,
    )


def sandbox_tiers() -> str:
    """What lies between a function and the machine, from outside to inside, in each tier."""
    tiers = (
        (
            "tier A",
            "the worker is root",
            ("user id of its own", "namespaces", "Landlock", "system call filter", "limits"),
        ),
        (
            "tier B",
            "ordinary user, namespaces allowed",
            ("namespaces", "Landlock", "system call filter", "limits"),
        ),
        ("tier C", "the usual container", ("Landlock", "system call filter", "limits")),
    )
    parts = []
    for number, (name, where, layers) in enumerate(tiers):
        x, wide = 20 + 316 * number, 290
        parts.append(text("head", x, 26, name))
        parts.append(text("note", x + 56, 26, where))
        for depth, layer in enumerate(layers):
            inset = depth * 12
            top = 40 + depth * 26
            parts.append(
                f'<rect class="area" x="{x + inset}" y="{top}" width="{wide - 2 * inset}" '
                f'height="{274 - 26 * depth - inset}" rx="8"/>'
            )
            parts.append(text("note", x + inset + 10, top + 18, layer))
        parts.append(box("box", x + 62, 190, 166, ("the function", "computes, and asks"), 56))
        parts.append(line(f"M{x + 145} 246 V338"))
    parts += [
        box(
            "box",
            20,
            340,
            922,
            (
                "worker: has the database and the keys",
                "one socket for each child: calls, events, state, secrets, connections to granted hosts",
                "each request is checked against the grants of the version",
            ),
        ),
    ]
    return drawing(
        960,
        430,
        "The layers around a function in the tiers A, B and C, and its one socket to the worker",
        parts,
    )


PICTURES: dict[str, Callable[[], str]] = {
    "event-path.svg": event_path,
    "guarded-tree.svg": guarded_tree,
    "sandbox-tiers.svg": sandbox_tiers,
}


if __name__ == "__main__":
    for file, draw in PICTURES.items():
        (FOLDER / file).write_text(draw())

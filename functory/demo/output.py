"""Output of the demo: steps, events on their way, a table. Colours on a terminal, plain text in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from functory.engine.executions.lineage import Node
from functory.terminal.causal_tree import error_summary, label, visible_children
from functory.terminal.errors import escape_control_characters

_MARKS = {
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "timed_out": ("✗", "red"),
    "dead": ("✗", "red"),
}


class DemoOutput:
    """Prints line by line; never wraps, never asks for a width. Says nothing at all when ``quiet``."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(highlight=False, soft_wrap=True, quiet=quiet)

    def line(self, text: str | Text = "", style: str = "") -> None:
        """One indented line."""
        body = text if isinstance(text, Text) else Text(text, style=style)
        self._console.print(Text("  ").append_text(body) if body else Text())

    def title(self, text: str) -> None:
        """A line that opens a part."""
        self.line()
        self.line(text, "bold")
        self.line()

    def step_done(self, what: str, detail: str, seconds: float) -> None:
        """A step of the set-up."""
        self.line(
            Text("✓ ", "green")
            .append(f"{what:<16}", "default")
            .append(f"{detail:<62}{seconds:5.1f} s", "dim")
        )

    def timeline(self, tops: Sequence[Node]) -> None:
        """Print an event and its effects in order. Events that started nothing are left out."""
        for top in tops:
            self._timeline_node(top, 0)

    def _timeline_node(self, node: Node, depth: int) -> None:
        shown = _timeline_line(node, depth)
        if shown is not None:
            self.line(shown)
        for child in node.children:
            self._timeline_node(child, depth if node.kind == "event" else depth + 1)

    def tree(self, tops: Sequence[Node]) -> None:
        """The causal tree as the command line draws it, without the ids."""
        for top in tops:
            self._branch(top, "", "")

    def _branch(self, node: Node, first: str, rest: str) -> None:
        parts = [
            (escape_control_characters(text), style) for text, style in label(node) if node.id not in text
        ]
        self.line(Text.assemble((first, "dim"), *parts))
        below = visible_children(node, show_all=False)
        for place, child in enumerate(below, 1):
            last = place == len(below)
            self._branch(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Aligned columns."""
        cells = [[escape_control_characters(str(cell)) for cell in row] for row in [heads, *rows]]
        widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
        for index, row in enumerate(cells):
            text = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            self.line(text, "bold" if index == 0 else "")

    @contextmanager
    def progress_counter(self, what: str, total: int) -> Iterator[Any]:
        """A counter that is rewritten in place on a terminal, and one closing line elsewhere."""
        if not self._console.is_terminal or self._console.quiet:
            yield lambda done: None
            return
        with self._console.status("") as status:
            yield lambda done: status.update(f"{what} {done} of {total}")


def _timeline_line(node: Node, depth: int) -> Text | None:
    row = node.row
    indent = "   " * depth
    if node.kind == "event":
        if not any(child.kind in ("execution", "suppressed") for child in node.children):
            return None
        detail = row["subject"] or ""
        if row["type"] == "output.matched":
            detail = f"{detail}: {row['data']['pattern']}"
        return (
            _time_prefix(row["time"], indent)
            .append("event  ", "dim")
            .append(f"{row['type']:<20}", "cyan")
            .append(escape_control_characters(detail))
        )
    if node.kind == "execution":
        mark, colour = _MARKS.get(row["state"], (row["state"], "yellow"))
        took = (
            f"{(row['finished_at'] - row['started_at']).total_seconds() * 1000:.0f} ms"
            if row["finished_at"]
            else ""
        )
        why = f"trigger {row['trigger']}" if row.get("trigger") else "called"
        text = _time_prefix(row["started_at"] or row["created_at"], indent).append(
            f" └▶ {row['function']} v{row['version']} "
        )
        text.append(mark, colour).append(f" {took:<8}", "dim").append(f"{why}", "dim")
        if row["error"]:
            text.append(f"   {escape_control_characters(error_summary(row['error']))[:100]}", "red")
        return text
    if node.kind == "suppressed":
        text = (
            _time_prefix(row["time"], indent)
            .append(" ■ guard ", "bold yellow")
            .append(f"stopped {row['trigger']}: {row['reason']} ")
        )
        return text.append(f"(limit {row['limit_value']}, would be {row['actual_value']})", "dim")
    return None


def _time_prefix(time: Any, indent: str) -> Text:
    return Text(f"{time:%H:%M:%S.%f}"[:12] + f"  {indent}")

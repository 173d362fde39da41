"""Output of commands: tables for people, tab-separated lines in a pipe, JSON, or ids alone.

A command makes one :class:`CommandOutput` from its ``--json`` and ``-q`` and passes rows to it; this module
knows nothing about functions or events. Rich is imported only when something is drawn on a terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.engine.database import short_ids
from functory.engine.serialization.control_characters import (
    escape_control_characters,
    marked_lines,
    one_line,
)
from functory.explanations.quantities import count_of as count_of
from functory.explanations.quantities import format_duration as format_duration

if TYPE_CHECKING:
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print ids or names only.")]

# A word in a table, and its colour on a terminal.
STYLES = {
    "succeeded": "green",
    "ok": "green",
    "enabled": "green",
    "fired": "green",
    "failed": "red",
    "dead": "red",
    "timed_out": "red",
    "fail": "red",
    "quarantined": "red",
    "error": "red",
    "running": "cyan",
    "queued": "yellow",
    "pending": "yellow",
    "paused": "yellow",
    "suppressed": "yellow",
    "warn": "yellow",
    "cancelled": "magenta",
    "expired": "magenta",
    "disabled": "magenta",
    "no match": "dim",
}

# Nothing is wrapped or cut in a pipe.
_UNWRAPPED_WIDTH = 100_000


class CommandOutput:
    """The output of one command: a table, lines, JSON, or ids alone."""

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.is_terminal = sys.stdout.isatty()

    def table(
        self,
        rows: Sequence[Mapping[str, Any]],
        columns: Mapping[str, str],
        *,
        key: str = "id",
        empty: str = "",
        data: Sequence[Any] | Callable[[], Sequence[Any]] | None = None,
        ids: Collection[str] = (),
    ) -> None:
        """Print rows. ``columns`` maps a field to its heading; ``-q`` prints the field ``key``; ``empty`` is the
        message for no rows. ``data`` has the values for ``--json`` if they differ from the rows, or returns them, if
        they cost something. A terminal shows the short form of ids: of ``id``, of names that end with ``_id``, and of
        the columns ``ids``. A pipe gets whole ones.
        """
        if self.json:
            data = data() if callable(data) else data
            self.value(list(data) if data is not None else [dict(row) for row in rows])
        elif self.quiet:
            self.lines(one_line(str(row[key])) for row in rows)
        elif not self.is_terminal:
            self.lines("\t".join(_cell(row.get(name), False) for name in columns) for row in rows)
        elif not rows:
            note(empty or "nothing found")
        else:
            from functory.terminal import tables

            cells = [
                [
                    short_ids.short(row[name])
                    if (name in ids or name == "id" or name.endswith("_id")) and row.get(name)
                    else _cell(row.get(name), True)
                    for name in columns
                ]
                for row in rows
            ]
            numbers = [all(isinstance(row.get(name), int | float) for row in rows) for name in columns]
            tables.draw(
                self.console(), columns, cells, numbers=numbers, style=lambda cell: STYLES.get(cell, "")
            )

    def record(self, fields: Mapping[str, Any]) -> None:
        """Print names and values, one per line, without None."""
        shown = {name: value for name, value in fields.items() if value is not None}
        width = max((len(name) for name in shown), default=0) + 2
        for name, value in shown.items():
            text = _cell(value, self.is_terminal, lines=True).replace("\n", "\n" + " " * width)
            # Its further lines are marked by their indentation.
            self._line((f"{name:<{width}}", "bold"), (text, STYLES.get(text, "")))

    def title(self, text: str) -> None:
        """Print a heading."""
        self.styled(("", ""))
        self.styled((text, "bold"))

    def styled(self, *parts: tuple[str, str]) -> None:
        """Print one line of (text, style) parts. Further lines of a text are marked: none looks like one of ours."""
        self._line(*((marked_lines(text), style) for text, style in parts))

    def _line(self, *parts: tuple[str, str]) -> None:
        parts = tuple((escape_control_characters(text), style) for text, style in parts)
        if not self.is_terminal:
            self.lines(["".join(text for text, _ in parts).rstrip()])
            return
        from rich.text import Text

        self.console().print(Text.assemble(*parts), soft_wrap=True)

    def clause(self, clause: Mapping[str, Any]) -> None:
        """Print one line of an explanation: path, expected value, found value."""
        matched = clause["matched"]
        self.styled(
            ("  ✓ ", "green") if matched else ("  ✗ ", "red"),
            (clause["path"], "bold"),
            (f"  expected {clause['expected']}", ""),
            (f"; found {clause['found']}", "" if matched else "yellow"),
        )

    def code(self, text: str) -> None:
        """Print Python source with line numbers; highlighted on a terminal."""
        text = escape_control_characters(text.rstrip("\n"))
        if self.is_terminal:
            from rich.syntax import Syntax

            self.console().print(
                Syntax(text, "python", line_numbers=True, theme="ansi_dark", background_color="default")
            )
        else:
            self.lines(f"{number:>4}  {line}".rstrip() for number, line in enumerate(text.split("\n"), 1))

    def value(self, value: Any) -> None:
        """Print one JSON value: indented on a terminal, on one line in a pipe."""
        if self.is_terminal and not self.quiet:
            import json

            self.lines([json.dumps(to_json_value(value), indent=2, ensure_ascii=True)])
        else:
            self.json_line(value)

    def json_line(self, value: Any) -> None:
        """Print one JSON value on one line: in ASCII on a terminal, which would obey some characters."""
        import json

        from functory.engine.serialization import json_codec

        ready = to_json_value(value)
        self.lines([json.dumps(ready, ensure_ascii=True) if self.is_terminal else json_codec.dumps(ready)])

    def text(self, text: str) -> None:
        """Print a text: unchanged into a pipe or a file, harmless on a terminal."""
        self.lines([escape_control_characters(text) if self.is_terminal else text])

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines unchanged."""
        for line in lines:
            sys.stdout.write(line + "\n")

    def flush(self) -> None:
        """Flush stdout, for readers of a stream."""
        sys.stdout.flush()

    def console(self) -> Console:
        """Rich's console on stdout."""
        from rich.console import Console

        return Console(
            file=sys.stdout,
            highlight=False,
            markup=False,
            emoji=False,
            width=None if self.is_terminal else _UNWRAPPED_WIDTH,
        )


def hint(text: str) -> str:
    """Return ``text`` as it is printed on stdout: a terminal shows short ids in the commands that it names."""
    return short_ids.in_commands(text) if sys.stdout.isatty() else text


def note(message: str) -> None:
    """Print a note on stderr; the commands that it names have short ids on a terminal."""
    if sys.stderr.isatty():
        message = short_ids.in_commands(message)
    quote(message)


def quote(message: str) -> None:
    """Print what others have written on stderr, such as a line of a log."""
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        sys.stderr.write(f"\x1b[2m{marked_lines(message)}\x1b[0m\n")
    else:
        sys.stderr.write(f"{marked_lines(message)}\n")


def warn(message: str) -> None:
    """Print a warning on stderr."""
    sys.stderr.write(f"warning: {marked_lines(message)}\n")


def to_json_value(value: Any) -> Any:
    """``value`` as JSON values: times as the API has them, in UTC with six digits of a second."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, Mapping):
        return {str(name): to_json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    return value


def iso_time(value: datetime) -> str:
    """Format a time in ISO 8601, for lines in a pipe."""
    return value.isoformat().replace("+00:00", "Z")


def format_time(value: datetime | None) -> str:
    """Format a time in the local time zone, to the second."""
    return "" if value is None else value.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def short_json(value: Any, length: int = 60) -> str:
    """A JSON value on one line, cut to ``length`` characters."""
    from functory.engine.serialization import json_codec

    text = json_codec.dumps(to_json_value(value))
    return text if len(text) <= length else text[: length - 1] + "…"


def _cell(value: Any, is_terminal: bool, lines: bool = False) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return format_time(value) if is_terminal else iso_time(value)
    if isinstance(value, float):
        return f"{value:g}"
    text = escape_control_characters(
        str(value) if isinstance(value, str | int) else short_json(value, 10_000)
    )
    return text if lines else " ".join(text.split("\n")).replace("\t", " ")

"""Changes of labels on the command line: ``+label`` adds one, ``-label`` takes it away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from functory.engine.errors import Invalid

LabelChanges = Annotated[
    list[str],
    typer.Argument(
        help="Changes: +label adds one, -label takes it away.", metavar="±LABEL…", show_default=False
    ),
]
# A label that is taken away begins with a dash, as an option does: this command knows no short options.
CONTEXT: dict[str, Any] = {"ignore_unknown_options": True, "help_option_names": ["--help"]}


def parse_changes(changes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the labels to add and those to take away. Raises :class:`Invalid`."""
    for change in changes:
        if change[:1] not in ("+", "-"):
            raise Invalid(
                f"{change!r} is not a change of a label",
                "+label adds one, -label takes it away",
                f"+{change}",
            )
    return (
        [change[1:] for change in changes if change.startswith("+")],
        [change[1:] for change in changes if change.startswith("-")],
    )

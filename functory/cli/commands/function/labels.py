"""``functory function label``: who sees and changes a function."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.cli.input.labels import LabelChanges, parse_changes
from functory.terminal.console import CommandOutput


def label(
    name: Annotated[str, typer.Argument(help="Name of the function.", show_default=False)],
    changes: LabelChanges,
) -> None:
    """Add and remove labels of a function: users with labels see what has one of theirs."""
    add, remove = parse_changes(changes)
    with session.engine() as engine:
        labels = engine.labels.function(name, add, remove, author=engine.author)
    CommandOutput().styled(
        (f"{name} has the labels {', '.join(labels)}" if labels else f"{name} has no labels", "")
    )


EXAMPLE = "functory function label parse +team:billing -draft"

"""``functory trigger label``: who sees and changes a trigger."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.cli.input.labels import LabelChanges, parse_changes
from functory.terminal.console import CommandOutput


def label(
    name: Annotated[str, typer.Argument(help="Name of the trigger.", show_default=False)],
    changes: LabelChanges,
) -> None:
    """Add and remove labels of a trigger: users with labels see what has one of theirs."""
    add, remove = parse_changes(changes)
    with session.engine() as engine:
        labels = engine.labels.trigger(name, add, remove, author=engine.author)
    CommandOutput().styled(
        (f"{name} has the labels {', '.join(labels)}" if labels else f"{name} has no labels", "")
    )


EXAMPLE = "functory trigger label on-order +team:billing -draft"

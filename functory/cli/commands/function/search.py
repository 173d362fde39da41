"""``functory function describe`` and ``search``: what functions do in words, and which one fits a goal."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.cli.input import values
from functory.terminal.console import AsJson, CommandOutput, Quiet

_COLUMNS = {"name": "NAME", "effect": "EFFECT", "description": "DESCRIPTION"}


def describe(
    name: Annotated[str, typer.Argument(help="Name of the function.", show_default=False)],
    text: Annotated[
        str,
        typer.Argument(
            help='Description, at most 1,024 characters; "" removes it; - reads it from stdin.',
            show_default=False,
        ),
    ],
) -> None:
    """Describe a function for models that choose tools, and for people. It makes no new version."""
    given = values.read_text(text) if text == "-" else text
    with session.engine() as engine:
        row = engine.annotations.describe(name, given, author=engine.author)
    CommandOutput().styled((f"{name} is described" if row else f"{name} has no description of its own", ""))


def search(
    text: Annotated[str, typer.Argument(help="Goal: what the function shall do.", show_default=False)],
    number: Annotated[int, typer.Option("--number", "-k", min=1, max=100, help="Number of functions.")] = 12,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find functions by name, description and parameters, and with embedding_model by their meaning: the best first."""
    from functory.rows.descriptions import FoundFunction

    with session.engine() as engine:
        rows = engine.tools.search(text, number)
    CommandOutput(json=json, quiet=quiet).table(
        [row | {"description": row["description"].partition("\n")[0]} for row in rows],
        _COLUMNS,
        key="name",
        data=lambda: [FoundFunction.as_json(row) for row in rows],
        empty="no function fits",
    )


VERBS = (
    (describe, 'functory function describe parse "Reads a bank statement."'),
    (search, 'functory function search "read a bank statement"'),
)

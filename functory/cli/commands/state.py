"""``functory state``: the small values that functions keep between their runs."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.cli.command_group import command_group
from functory.cli.input import values
from functory.terminal.console import AsJson, CommandOutput

app = command_group("State: small values that functions keep between executions.")

Function = Annotated[str, typer.Argument(help="Function that owns the value.", show_default=False)]
Key = Annotated[str, typer.Argument(help="Key of the value.", show_default=False)]


@app.command(epilog="Example: functory state get counter total")
def get(function: Function, key: Key, json: AsJson = False) -> None:
    """Print a value as JSON. With --json also its version."""
    from functory.engine.errors import NotFound

    with session.engine() as engine:
        found = engine.state.get(function, key)
    if found is None:
        raise NotFound(
            f"{function} has no value under the key {key!r}",
            try_=f"functory state set {function} {key} VALUE",
        )
    CommandOutput().value(
        {"function": function, "key": key, "value": found[0], "version": found[1]} if json else found[0]
    )


@app.command("set", epilog="Example: functory state set counter total 12")
def set_(
    function: Function,
    key: Key,
    value: Annotated[
        str,
        typer.Argument(
            help="Value: JSON if it is valid JSON, else text. @file or - reads JSON.", show_default=False
        ),
    ],
    expected_version: Annotated[
        int | None,
        typer.Option(help="Fail unless this is the current version (0: the key is new).", show_default=False),
    ] = None,
) -> None:
    """Store a value."""
    read = (
        values.read_json(value, "the value")
        if value == "-" or value.startswith("@")
        else values.parse_value(value)
    )
    with session.engine() as engine:
        engine.functions.get(function)
        version = engine.state.set(
            function, key, read, expected_version=expected_version, author=engine.author
        )
    CommandOutput().styled((f"saved {key} of {function}, version {version}", ""))


@app.command(epilog="Example: functory state delete counter total")
def delete(function: Function, key: Key) -> None:
    """Delete a value."""
    from functory.engine.errors import NotFound

    with session.engine() as engine:
        if not engine.state.delete(function, key, author=engine.author):
            raise NotFound(f"{function} has no value under the key {key!r}")
    CommandOutput().styled((f"{key} of {function} is deleted", ""))

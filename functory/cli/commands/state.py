"""``functory state``: the small values that functions keep between their runs."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.cli.command_group import command_group
from functory.cli.input import values
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("State: small values that functions keep between executions.")

Function = Annotated[str, typer.Argument(help="Function that owns the value.", show_default=False)]
Key = Annotated[str, typer.Argument(help="Key of the value.", show_default=False)]


@app.command("list", epilog="Example: functory state list counter")
def list_(
    function: Function,
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=1000, help="Number of keys.")] = 100,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List the keys of a function with the sizes of their values, and when each was written."""
    from functory.rows.operations import StateRow

    with session.engine() as engine:
        rows = engine.state.list(function, limit=number)
        if not rows:
            engine.functions.get(function)
    more, rows = len(rows) > number, rows[:number]
    CommandOutput(json=json, quiet=quiet).table(
        rows,
        {"key": "KEY", "bytes": "BYTES", "version": "VERSION", "updated_at": "WRITTEN"},
        key="key",
        data=lambda: [StateRow.as_json(row) for row in rows],
        empty=f"{function} keeps nothing; its code does: from functory import state; state.set('total', 1)",
    )
    if more:
        console.note(f"there are more keys: functory state list {function} -n {min(1000, number * 10)}")


@app.command(epilog="Example: functory state get counter total")
def get(function: Function, key: Key, json: AsJson = False) -> None:
    """Print a value as JSON. With --json also its version."""
    from functory.engine.errors import NotFound

    with session.engine() as engine:
        found = engine.state.get(function, key)
    if found is None:
        raise NotFound(
            f"{function} has no value under the key {key!r}",
            try_=f"functory state list {function}",
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
            raise NotFound(
                f"{function} has no value under the key {key!r}", try_=f"functory state list {function}"
            )
    CommandOutput().styled((f"{key} of {function} is deleted", ""))

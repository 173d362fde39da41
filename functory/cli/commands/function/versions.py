"""Verbs of ``functory function`` about versions: diff, versions, activate, rollback, disable.

:mod:`functory.cli.commands.function.crud` registers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from functory.cli import session
from functory.terminal import console, json_fields
from functory.terminal.console import AsJson, CommandOutput, Quiet

Name = Annotated[str, typer.Argument(help="Name of the function.", show_default=False)]


def diff(
    name: Name,
    older: Annotated[int, typer.Argument(metavar="A", help="Number of a version.", show_default=False)],
    newer: Annotated[
        int | None,
        typer.Argument(
            metavar="[B]", help="Number of another version. Default: the active version.", show_default=False
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show the differences between two versions: source and all other fields, as a unified diff."""
    from functory.cli.output import version_diff

    with session.engine() as engine:
        before, after = engine.functions.get(name, older), engine.functions.get(name, newer)
    lines = version_diff.unified(before, after)
    out = CommandOutput(json=json)
    if json:
        changed = [field for field in version_diff.COMPARED_FIELDS if before[field] != after[field]]
        out.value(
            {
                "name": name,
                "from": before["number"],
                "to": after["number"],
                "changed": changed,
                "diff": "\n".join(lines),
            }
        )
        return
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        out.styled((line, "bold" if line[:3] in ("+++", "---") else colours.get(line[:1], "")))
    if not lines:
        console.note(f"v{before['number']} and v{after['number']} of {name} are equal")


def versions(name: Name, json: AsJson = False, quiet: Quiet = False) -> None:
    """List all versions, newest first."""
    with session.engine() as engine:
        rows = engine.functions.versions(name)
    shown = [
        row
        | {
            "is_active": "active" if row["active"] == row["number"] else "",
            "short": row["sha256"][:12],
            "reference": f"{row['name']}@{row['number']}",
        }
        for row in rows
    ]
    columns = {
        "number": "VERSION",
        "is_active": "ACTIVE",
        "created_at": "SAVED",
        "author": "AUTHOR",
        "short": "SHA256",
    }
    CommandOutput(json=json, quiet=quiet).table(
        shown, columns, key="reference", data=[json_fields.function(row) for row in rows]
    )


def activate(
    name: Name,
    number: Annotated[int, typer.Argument(metavar="N", help="Number of the version.", show_default=False)],
    expected_version: Annotated[
        int | None, typer.Option(help="Fail unless this is the active version.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """Make a version the active one. A disabled function is enabled again."""
    with session.engine() as engine:
        row = engine.functions.activate(name, number, author=engine.author, expected_version=expected_version)
    _print_result(f"{name} v{row['number']} is active", json_fields.function(row), json)


def rollback(name: Name, json: AsJson = False) -> None:
    """Activate the version before the active one."""
    with session.engine() as engine:
        row = engine.functions.rollback(name, author=engine.author)
    _print_result(f"{name} v{row['number']} is active again", json_fields.function(row), json)


def disable(name: Name, json: AsJson = False) -> None:
    """Disable a function: no more executions start. Its versions stay."""
    with session.engine() as engine:
        engine.functions.disable(name, author=engine.author)
        row = engine.functions.get(name)
    _print_result(
        f"{name} is disabled; to enable it: functory function activate {name} {row['number']}",
        json_fields.function(row),
        json,
    )


def _print_result(message: str, data: Mapping[str, Any], json: bool) -> None:
    out = CommandOutput(json=json)
    out.value(data) if json else out.styled((message, ""))


VERBS = (
    (diff, "functory function diff parse 1 3"),
    (versions, "functory function versions parse"),
    (activate, "functory function activate parse 2"),
    (rollback, "functory function rollback parse"),
    (disable, "functory function disable parse"),
)

"""What is said of a function version after it was saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from functory.cli.output import execution_result, function_version
from functory.terminal import console, json_fields
from functory.terminal.console import CommandOutput

if TYPE_CHECKING:
    from functory.client import Functory


def print_saved(engine: Functory, row: Mapping[str, Any], out: CommandOutput) -> None:
    """Print a version that was saved, or that was there already; fail when it lacks its packages."""
    from functory.engine.errors import FunctoryError

    for warning in (*row["warnings"], *engine.pending(row)):
        console.warn(warning)
    for finding in row["findings"]:
        console.warn(f"{function_version.finding_location(finding)} ({finding['kind']})")
    if row["findings"]:
        console.note(f"why, and what to do: functory function show {row['name']}@{row['number']}")
    other = f"active is v{row['active']}" if row["active"] else "none is active"
    active = "" if row["active"] == row["number"] else f" ({other})"
    if out.json:
        out.value(json_fields.function(row) | {"created": row["created"]})
    elif out.quiet:
        out.lines([f"{row['name']}@{row['number']}"])
    elif row["created"]:
        out.styled((f"saved {row['name']} v{row['number']}{active}", ""))
    else:
        out.styled((f"{row['name']} v{row['number']} is the same already; nothing was saved", ""))
    if row["environment_error"]:
        raise FunctoryError(
            f"{row['name']} v{row['number']} is saved, but its packages are missing: it cannot be activated",
            row["environment_error"],
            f"functory environment build {row['name']}@{row['number']}",
        )
    if row["created"] and engine.triggers.list():
        execution_result.warn_without_workers(engine, "no trigger fires on this")

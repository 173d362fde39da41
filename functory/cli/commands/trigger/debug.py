"""``functory trigger debug``: what waits in the flow control of a trigger, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput

if TYPE_CHECKING:
    from functory.engine.firings.inspection import TriggerInspection


def debug(
    name: Annotated[str, typer.Argument(help="Name of the trigger.", show_default=False)],
    key: Annotated[
        str | None, typer.Option(help="Show only what waits for this key.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """Show what waits in the flow control of a trigger, for which key, and what to do. Nothing is changed."""
    from functory.cli.output import trigger_backlog

    with session.engine() as engine:
        found, advice = engine.inspections.trigger_flow(name, key)
    out = CommandOutput(json=json)
    if json:
        out.value(_data(found) | {"advice": advice})
        return
    row = found.trigger
    out.styled(
        (f"{row['name']} v{row['version']}", "bold"),
        (f"   {row['state']}", console.STYLES.get(row["state"], "")),
        (f"   {row['note']}" if row["note"] else "", "dim"),
    )
    out.styled((advice, "yellow"))
    for section in trigger_backlog.sections(found):
        out.title(section.title)
        out.styled((section.summary, "dim"))
        if section.rows:
            out.table(section.rows, {heading: heading for heading in _headings(out, section.rows)})
        if section.remaining:
            out.styled((f"… and {section.remaining:,} more", "dim"))


def _headings(out: CommandOutput, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns to print. A terminal shows no empty columns; in a pipe each column keeps its place."""
    return [name for name in rows[0] if not out.is_terminal or any(row[name] != "" for row in rows)]


def _data(found: TriggerInspection) -> dict[str, Any]:
    """The facts as JSON shows them."""
    row, data = found.trigger, asdict(found)
    definition = row["definition"]
    return {
        "trigger": row["name"],
        **{name: row[name] for name in ("version", "state", "note")},
        "function": definition["function"],
        "flow": definition.get("flow"),
        "composite": definition.get("composite"),
        **{name: value for name, value in data.items() if name != "trigger"},
    }

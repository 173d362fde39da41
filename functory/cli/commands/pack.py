"""``functory pack``: bring packs of other systems along, as functions and triggers, with a report."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from functory.cli import session
from functory.cli.command_group import command_group
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput

if TYPE_CHECKING:
    from functory.client import Functory
    from functory.packs.stackstorm.pack import Pack
    from functory.packs.stackstorm.report import Entry

app = command_group("Packs of other systems, imported as functions and triggers.")


class System(StrEnum):
    """Whose packs are understood."""

    stackstorm = "stackstorm"


@app.callback()
def _verbs() -> None:
    """Packs of other systems, imported as functions and triggers."""


@app.command("import", epilog="Example: functory pack import stackstorm packs/github --dry-run")
def import_(
    system: Annotated[System, typer.Argument(help="System that the pack is made for.", show_default=False)],
    folder: Annotated[Path, typer.Argument(help="Folder of the pack.", show_default=False)],
    prefix: Annotated[
        str | None,
        typer.Option(help="Prefix of the new names. Default: the name of the pack.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report; save nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Import the rules and Python actions of a pack. Report what cannot be imported, and why.

    No code of the pack is run. A repeated import saves new versions only of what changed.
    """
    from functory.packs.stackstorm.pack import read_pack

    pack = read_pack(folder, prefix=prefix)
    with session.engine(create=True) as engine:
        for entry in pack.entries:
            _import_entry(engine, pack, entry, dry_run)
    out = CommandOutput(json=json)
    if json:
        names = {outcome: pack.count(outcome) for outcome in ("imported", "paused", "left out")}
        entries = [entry.as_json() for entry in pack.entries]
        out.value(
            {"pack": pack.ref, "version": pack.version, "dry_run": dry_run, **names, "entries": entries}
        )
        return
    _draw(out, pack, dry_run)


def _import_entry(engine: Functory, pack: Pack, entry: Entry, dry_run: bool) -> None:
    """Save or check one entry. An entry that the engine refuses is reported with its reason."""
    from functory.engine.errors import Conflict, Invalid

    try:
        if entry.function is not None:
            _import_function(engine, entry, dry_run)
        elif entry.trigger is not None:
            lost = {e.became for e in pack.entries if e.kind == "action" and e.outcome == "left out"}
            _import_trigger(engine, entry, lost, dry_run)
    except (Invalid, Conflict) as error:
        entry.leave_out(error.reason, error.try_)


def _import_function(engine: Functory, entry: Entry, dry_run: bool) -> None:
    from functory.engine.functions.registry import Functions
    from functory.engine.functions.source import parser
    from functory.engine.serialization import json_schema

    assert entry.function is not None
    declared = dict(entry.function)
    text, name = declared.pop("text"), declared.pop("name")
    parser.parse(text, name)
    json_schema.parse_declared(declared["input_parameters"], "input_parameters")
    if dry_run:
        return
    # Without the child process that would import the source to look at its type hints: nothing of a pack runs.
    row = Functions(engine.database, settings=engine.settings).save(
        text, name=name, author=engine.author, **declared
    )
    if entry.outcome == "paused" and row["created"] and row["number"] == 1:
        engine.functions.disable(name, author=engine.author)


def _import_trigger(engine: Functory, entry: Entry, lost: set[str], dry_run: bool) -> None:
    from functory.engine.errors import Invalid, NotFound
    from functory.triggers import definition

    assert entry.trigger is not None
    fields = dict(entry.trigger)
    name = fields.pop("name")
    if fields["function"] in lost:
        raise Invalid(
            f"its function {fields['function']} was not imported",
            try_="the report says why the action was not imported",
        )
    definition.parse(fields)
    if dry_run:
        return
    try:
        known = engine.triggers.get(name)
    except NotFound:
        known = None
    # A disabled rule starts in shadow mode, so that the trigger cannot fire before it is paused.
    rests = known is None and entry.outcome == "paused"
    entry.notes += engine.save_trigger(name, shadow=rests, **fields)["warnings"]
    if rests:
        engine.triggers.pause(name, note=entry.why, author=engine.author)


def _draw(out: CommandOutput, pack: Pack, dry_run: bool) -> None:
    for entry in pack.entries:
        style = {"imported": "green", "paused": "yellow", "left out": "red"}[entry.outcome]
        out.styled(
            (f"{entry.outcome:<9}", style),
            (f"{entry.kind} ", ""),
            (entry.name, "bold"),
            (f"  {entry.file}", "dim"),
        )
        if entry.became and entry.outcome != "left out":
            out.styled((f"          → {entry.became}", ""))
        for line in (entry.why, entry.try_ and f"try: {entry.try_}", *entry.notes):
            if line:
                out.styled((f"          {line}", ""))
    counts = ", ".join(f"{pack.count(outcome)} {outcome}" for outcome in ("imported", "paused", "left out"))
    out.styled((f"{pack.ref} {pack.version}: {counts}", "bold"))
    if dry_run:
        console.note("nothing was saved, because of --dry-run")

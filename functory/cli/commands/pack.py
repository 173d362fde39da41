"""``functory pack``: bring packs of other systems along, as functions and triggers, with a report."""

from __future__ import annotations

import itertools
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from functory.cli import session
from functory.cli.command_group import command_group
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput
from functory.terminal.progress import progress

if TYPE_CHECKING:
    from functory.client.pack_import import PackImport
    from functory.packs.stackstorm.pack import Pack

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
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with values of the pack's configuration, as in StackStorm's configs folder.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host that the functions may connect to: api.example.com. Repeatable.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report; save nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Import the rules and Python actions of a pack. Report what runs, what is missing, and what cannot be imported.

    The modules of an action are imported once, in the sandbox and without any rights, to see whether it can start. A
    repeated import saves new versions only of what changed.
    """
    from functory.client.pack_import import PackImport
    from functory.packs.stackstorm.pack import read_pack

    pack = read_pack(folder, prefix=prefix, config=config, hosts=host or ())
    if dry_run:
        from functory.engine.settings import load_settings
        from functory.workers.sandbox.checks.startup import check_tier
        from functory.workers.sandbox.runner import Runner

        session.log_to_stderr()
        settings = load_settings()
        with Runner.from_settings(settings) as runner:
            check_tier(settings, runner, inspecting=True)
            _run_import(PackImport(pack, runner.inspect, None), pack)
    else:
        with session.engine(create=True) as engine:
            _run_import(PackImport(pack, engine.inspect, engine), pack)
    out = CommandOutput(json=json)
    if json:
        entries = [entry.as_json() for entry in pack.entries]
        out.value(
            {
                "pack": pack.ref,
                "version": pack.version,
                "dry_run": dry_run,
                **pack.counts(),
                "entries": entries,
            }
        )
        return
    _draw(out, pack, dry_run)


def _run_import(made: PackImport, pack: Pack) -> None:
    with progress(len(pack.entries), "entries") as tell:
        done = itertools.count(1)
        made.run(lambda _: tell(next(done)))


def _draw(out: CommandOutput, pack: Pack, dry_run: bool) -> None:
    from functory.packs.stackstorm.report import ACTION_OUTCOMES, OTHER_OUTCOMES

    for entry in pack.entries:
        style = "green" if entry.outcome in ("runs", "imported") else "red" if entry.is_left_out else "yellow"
        out.styled(
            (f"{entry.outcome:<9}", style),
            (f"{entry.kind} ", ""),
            (entry.name, "bold"),
            (f"  {entry.file}", "dim"),
        )
        if entry.became and not entry.is_left_out:
            out.styled((f"          → {entry.became}", ""))
        for need in entry.needs:
            out.styled((f"          needs {need.what}", ""))
            if need.try_:
                out.styled((f"          try: {need.try_}", ""))
        for line in (entry.why, entry.try_ and f"try: {entry.try_}", *entry.notes):
            if line:
                out.styled((f"          {line}", ""))
    counts = pack.counts()
    for kind, outcomes in (
        ("actions", ACTION_OUTCOMES),
        ("rules", OTHER_OUTCOMES),
        ("others", OTHER_OUTCOMES),
    ):
        if any(counts[kind].values()):
            said = ", ".join(f"{counts[kind][outcome]} {outcome}" for outcome in outcomes)
            out.styled((f"{pack.ref} {pack.version}: {kind}: {said}", "bold"))
    if dry_run:
        console.note("nothing was saved, because of --dry-run")

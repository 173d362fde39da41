"""Verbs that the nouns ``watch``, ``webhook`` and ``schedule`` share: list, show, pause, resume, delete.

A noun says in a :class:`SourceNoun` how its sources are read and drawn, and adds verbs of its own.
``functory source`` has the same verbs, but names a source by its kind and name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from functory.cli import session
from functory.cli.command_group import Yes, confirm
from functory.cli.output.dashboard_page import Open, open_source
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

Row = Mapping[str, Any]

# Where the label of a field is not its name.
_LABELS = {
    "holder": "runs at",
    "url": "address",
    "last_event_at": "last event",
    "events_last_hour": "events in the last hour",
    "files": "files known",
}


@dataclass(frozen=True, kw_only=True)
class SourceNoun:
    """A noun whose things are sources of events.

    ``help`` has the help text of each shared verb; a verb without one is not registered. ``list`` prints ``columns``
    of ``rows``. ``show`` prints what ``detail`` makes of a row: ``fields`` and ``details``, names separated by spaces.
    With ``--json`` both print the row of the API, and ``show`` the ``details`` too.
    """

    name: str
    kinds: Sequence[str]
    name_help: str
    example: str
    first_step: str
    help: Mapping[str, str]
    columns: Mapping[str, str]
    fields: str
    details: str = ""
    rows: Callable[[Functory], list[dict[str, Any]]]
    find: Callable[[Functory, str], dict[str, Any]]
    detail: Callable[[Functory, dict[str, Any]], dict[str, Any]]
    draw: Callable[[CommandOutput, Row], None] | None = None

    def as_json(self, engine: Functory, row: Row) -> dict[str, Any]:
        """The source of a row as the API has it."""
        from functory.rows.sources import Source

        return Source.as_json(session.read_models(engine).source(row["kind"], row["name"]))

    def list_as_json(self, engine: Functory) -> list[dict[str, Any]]:
        """All sources of these kinds as the API has them."""
        from functory.rows.sources import Source

        found = session.read_models(engine).all_sources(self.kinds[0] if len(self.kinds) == 1 else None)
        return [Source.as_json(row) for row in found if row["kind"] in self.kinds]


def source_verbs(app: typer.Typer, noun: SourceNoun) -> None:
    """Register the shared verbs for which ``noun`` has a help text."""
    name_argument: Any = typer.Argument(help=noun.name_help, show_default=False)
    note_option: Any = typer.Option("", help=f"Reason, shown with the {noun.name}.", show_default=False)

    def list_(json: AsJson = False, quiet: Quiet = False) -> None:
        with session.engine() as engine:
            rows = noun.list_as_json(engine) if json else noun.rows(engine)
        CommandOutput(json=json, quiet=quiet).table(
            rows,
            noun.columns,
            key="name",
            empty=f"no {noun.name}s yet; try: functory {noun.name} {noun.first_step}",
        )

    def show(name: str = name_argument, open_: Open = False, json: AsJson = False) -> None:
        with session.engine() as engine:
            row = noun.detail(engine, noun.find(engine, name))
            data = noun.as_json(engine, row) if json else {}
            if open_:
                open_source(engine, row["kind"], name)
        out, details = CommandOutput(json=json), {field: row[field] for field in noun.details.split()}
        if json:
            out.value(data | details)
        elif noun.draw is not None:
            noun.draw(out, row)
        else:
            draw_source(out, {field: row.get(field) for field in noun.fields.split()} | details)

    def pause(name: str = name_argument, note: str = note_option) -> None:
        with session.engine() as engine:
            row = noun.find(engine, name)
            engine.sources.pause(row["kind"], name, note=note, author=engine.author)
        say(f"{name} is paused; to resume it: functory {noun.name} resume {name}")

    def resume(name: str = name_argument) -> None:
        with session.engine() as engine:
            row = noun.find(engine, name)
            engine.sources.resume(row["kind"], name, author=engine.author)
        say(f"{name} is enabled")

    def delete(name: str = name_argument, yes: Yes = False) -> None:
        with session.engine() as engine:
            row = noun.find(engine, name)
            confirm(f"Delete the {noun.name} {name}?", yes)
            engine.sources.delete(row["kind"], name, author=engine.author)
        say(f"{name} is deleted")

    def say(what: str) -> None:
        CommandOutput().styled((f"{noun.name} {what}", ""))

    commands = {"list": list_, "show": show, "pause": pause, "resume": resume, "delete": delete}
    arguments = {
        "list": "",
        "pause": f" {noun.example} --note 'maintenance until Monday'",
        "delete": f" {noun.example} --yes",
    }
    for verb, command in commands.items():
        if verb in noun.help:
            example = f"functory {noun.name} {verb}{arguments.get(verb, f' {noun.example}')}"
            app.command(verb, help=noun.help[verb], epilog=f"Example: {example}")(command)


def draw_source(out: CommandOutput, fields: Row) -> None:
    """Print the fields of a source, then its configuration and why it refused what came; warnings go to stderr."""
    shown = dict(fields)
    warnings, refusals = shown.pop("warnings", ()), shown.pop("refusals", ())
    config: dict[str, Any] = {}
    for field, value in shown.pop("config").items():
        config |= (
            {f"{field}.{part}": one for part, one in value.items()} if field == "auth" else {field: value}
        )
    out.record({_LABELS.get(field, field.replace("_", " ")): value for field, value in shown.items()})
    out.title("configuration")
    out.record(
        {
            field: ", ".join(map(str, value)) or None if isinstance(value, list) else value
            for field, value in config.items()
        }
    )
    if refusals:
        out.title("refused")
        out.table(refusals, {"count": "COUNT", "last_at": "LAST", "what": "BECAUSE"}, key="reason")
    for warning in warnings:
        console.warn(warning)

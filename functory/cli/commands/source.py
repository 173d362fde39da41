"""``functory source``: all sources of events, of every kind that is installed, plug-ins among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm
from functory.cli.input import values
from functory.cli.output.dashboard_page import Open, open_source
from functory.cli.output.saved import print_saved
from functory.cli.source_verbs import draw_source
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Sources of events of every kind, plug-ins included.")

Kind = Annotated[
    str, typer.Argument(help="Kind of source; functory source kinds lists them.", show_default=False)
]
Name = Annotated[str, typer.Argument(help="Name of the source.", show_default=False)]

# Fields of a source that show prints.
_FIELDS = (
    "kind name state version config note paused_until problem problem_at holder lease_until cursor "
    "last_event_at events_last_hour refused refusals waiting looked_at author created_at updated_at"
)


@app.command(epilog="Example: functory source kinds")
def kinds(json: AsJson = False, quiet: Quiet = False) -> None:
    """List the installed kinds of sources and the events that they write."""
    from functory.engine.errors import FunctoryError
    from functory.triggers.sources.registry import installed_plugins as installed

    rows: list[dict[str, Any]] = []
    for name in installed():
        try:
            kind = installed()[name]
        except FunctoryError as error:
            rows.append(
                {"kind": name, "summary": None, "types": [], "config_schema": None, "runs": None,
                 "problem": str(error)}
            )  # fmt: skip
        else:
            rows.append(
                {"kind": name, "summary": kind.summary, "types": list(kind.types),
                 "config_schema": kind.Config.model_json_schema(), "runs": kind.runs, "problem": None}
            )  # fmt: skip
    CommandOutput(json=json, quiet=quiet).table(
        [row | {"shown": ", ".join(row["types"]), "text": row["summary"] or row["problem"]} for row in rows],
        {"kind": "KIND", "text": "WHAT", "shown": "EVENTS"},
        key="kind",
        data=rows,
    )


@app.command(epilog="Example: functory source add queue orders url_secret=BROKER queue=orders")
def add(
    kind: Kind,
    name: Name,
    fields: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIELD=VALUE]...", help="Field of the configuration.", show_default=False),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(help="Whole configuration: JSON text, @file, or - for stdin.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """Save a source. Secrets are given by name; functory secret set stores them."""
    from functory.triggers.sources import registry

    plugin = registry.find_plugin(kind)
    document = values.read_json_object(config, "--config") if config is not None else {}
    document |= _coerce_strings(fields or (), plugin.Config.model_json_schema())
    with session.engine(create=True) as engine:
        row = engine.sources.save(kind, name, document, author=engine.author)
        data = _as_json(engine, row) if json else {}
    print_saved(CommandOutput(json=json), kind, row, data)


@app.command("list", epilog="Example: functory source list --kind queue")
def list_(
    kind: Annotated[
        str | None, typer.Option(help="List only sources of this kind.", show_default=False)
    ] = None,
    problems: Annotated[bool, typer.Option("--problems", help="List only sources with a problem.")] = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List all sources: where they run, their events in the last hour, waiting messages, lag, and their problem."""
    from functory.rows.sources import Source

    with session.engine() as engine:
        found = [_with_plugin_problem(row) for row in session.read_models(engine).all_sources(kind)]
    if problems:
        found = [row for row in found if _trouble(row)]
    columns = {
        "kind": "KIND",
        "name": "NAME",
        "state": "STATE",
        "holder": "RUNS AT",
        "events_last_hour": "EVENTS/H",
        "waiting": "WAITING",
        "lag": "LAG",
        "last_event_at": "LAST EVENT",
        "trouble": "PROBLEM",
    }
    CommandOutput(json=json, quiet=quiet).table(
        [row | {"trouble": _trouble(row), "lag": _lag(row)} for row in found],
        columns,
        key="name",
        data=lambda: [Source.as_json(row) for row in found],
        empty="no sources" + (" with a problem" if problems else " yet; try: functory source add --help"),
    )


@app.command(epilog="Example: functory source show queue orders")
def show(kind: Kind, name: Name, open_: Open = False, json: AsJson = False) -> None:
    """Show configuration, cursor and problem of a source, and why it refused what came."""
    with session.engine() as engine:
        row = _with_plugin_problem(engine.sources.get(kind, name))
        data = _as_json(engine, row) if json else {}
        if open_:
            open_source(engine, kind, name)
    out = CommandOutput(json=json)
    if json:
        out.value(data)
    else:
        draw_source(out, {field: row[field] for field in _FIELDS.split()})


@app.command(epilog="Example: functory source pause queue orders --note 'the shop is closed'")
def pause(
    kind: Kind,
    name: Name,
    note: Annotated[str, typer.Option(help="Reason, shown with the source.", show_default=False)] = "",
) -> None:
    """Pause a source: it takes in no events until it is resumed."""
    with session.engine() as engine:
        engine.sources.pause(kind, name, note=note, author=engine.author)
    CommandOutput().styled((f"{kind} {name} is paused", ""))


@app.command(epilog="Example: functory source resume queue orders")
def resume(kind: Kind, name: Name) -> None:
    """Resume a paused source."""
    with session.engine() as engine:
        engine.sources.resume(kind, name, author=engine.author)
    CommandOutput().styled((f"{kind} {name} is enabled", ""))


@app.command(epilog="Example: functory source delete queue orders --yes")
def delete(kind: Kind, name: Name, yes: Yes = False) -> None:
    """Delete a source. Its events stay."""
    confirm(f"Delete the {kind} {name}?", yes)
    with session.engine() as engine:
        engine.sources.delete(kind, name, author=engine.author)
    CommandOutput().styled((f"{kind} {name} is deleted", ""))


def _as_json(engine: Functory, row: Mapping[str, Any]) -> dict[str, Any]:
    from functory.rows.sources import Source

    found = session.read_models(engine).source(row["kind"], row["name"])
    return _with_plugin_problem(Source.as_json(found))


def _lag(row: Mapping[str, Any]) -> str:
    from functory.engine.serialization.durations import format_duration

    seconds = row["lag_seconds"]
    return "" if seconds is None else format_duration(round(seconds))


def _trouble(row: Mapping[str, Any]) -> str | None:
    """Why a source does not work: its problem, or what its breaker says."""
    return row["problem"] or (row["note"] if row["paused_until"] else None)


def _with_plugin_problem(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose ``problem`` also reports a plug-in that is not installed here."""
    from functory.triggers.sources.registry import installed_plugins as installed

    shown = dict(row)
    if row["kind"] not in installed():
        shown["problem"] = row["problem"] or f"no plug-in for the kind {row['kind']} is installed here"
    return shown


def _coerce_strings(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Parse ``name=value`` pairs. A field of type string keeps its text: ``key=null``, ``queue=5``."""
    found = values.parse_pairs(pairs, "a field")
    texts = {name: text for name, _, text in (pair.partition("=") for pair in pairs)}
    for name, value in found.items():
        kinds = _json_types(schema.get("properties", {}).get(name, {}))
        if "string" in kinds and not isinstance(value, str) and _json_type(value) not in kinds - {"null"}:
            found[name] = texts[name]
    return found


def _json_types(field: Mapping[str, Any]) -> set[str]:
    return {one["type"] for one in (field, *field.get("anyOf", ())) if isinstance(one.get("type"), str)}


def _json_type(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")

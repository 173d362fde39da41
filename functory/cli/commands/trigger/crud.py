"""``functory trigger``: save, read, pause and try the rules that turn events into executions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import ExpectedVersion, Yes, command_group, confirm, option
from functory.cli.commands.trigger import debug, labels
from functory.cli.commands.trigger import guards as guard_commands
from functory.cli.input import values
from functory.cli.input.labels import CONTEXT
from functory.cli.output.dashboard_page import Open, open_page
from functory.cli.output.saved import print_saved
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Triggers: rules that turn events into executions.")

for _verb, _example in (*guard_commands.VERBS, (debug.debug, "functory trigger debug reorder --key ada")):
    app.command(epilog=f"Example: {_example}")(_verb)
app.command(epilog=f"Example: {labels.EXAMPLE}", context_settings=CONTEXT)(labels.label)

Name = Annotated[str, typer.Argument(help="Name of the trigger.", show_default=False)]


@app.command(
    epilog='Example: functory trigger add reorder --on \'{"type": ["stock.changed"]}\' '
    "--when 'data.stock < 3' --function reorder"
)
def add(
    name: Annotated[
        str | None, typer.Argument(help="Name of the trigger; can also be in the file.", show_default=False)
    ] = None,
    on: Annotated[str | None, option("Event pattern: JSON text, @file, or - for stdin.")] = None,
    function: Annotated[str | None, option("Function to run: name or name@3.")] = None,
    when: Annotated[str | None, option("CEL condition over the event, such as data.stock < 3.")] = None,
    criteria: Annotated[
        str | None, option("StackStorm criteria over the data, as JSON, in addition to --when.")
    ] = None,
    input_: Annotated[str | None, option("Input template: JSON with {{ … }} expressions.", "--input")] = None,
    guards: Annotated[
        str | None,
        option("Guards: JSON with max_depth, max_revisits, budget, rate, allow_self, acknowledge_cycle."),
    ] = None,
    file: Annotated[
        str | None, option("YAML, JSON or TOML file with these fields; - reads JSON from stdin.")
    ] = None,
    debounce: Annotated[
        str | None, option("Fire after a time without events: 10s, or 10s/5m to wait 5 minutes at most.")
    ] = None,
    throttle: Annotated[
        str | None, option("Maximum number of starts in a period; further executions wait: 3/1m.")
    ] = None,
    rate_limit: Annotated[
        str | None, option("Maximum number of firings in a period; further ones are dropped: 3/1m.")
    ] = None,
    batch: Annotated[
        str | None, option("Collect events: 100/60s fires with 100 events, or after 60 seconds.")
    ] = None,
    concurrency: Annotated[
        int | None, option("Maximum number of executions that run at the same time; the rest waits.")
    ] = None,
    key: Annotated[
        str | None,
        option(
            "CEL expression, such as data.customer: the other options apply to each of its values separately."
        ),
    ] = None,
    singleton: Annotated[
        str | None, option("One execution at a time: skip drops the new one, cancel ends the older one.")
    ] = None,
    idempotency: Annotated[
        str | None, option("CEL expression: the trigger fires once in 24 hours for each of its values.")
    ] = None,
    overlap: Annotated[
        str | None,
        option(
            "If an earlier one is not finished: skip, buffer_one, buffer_all, cancel_other, terminate_other, allow_all."
        ),
    ] = None,
    priority: Annotated[
        str | None, option("CEL expression: seconds by which its executions go before others, -600 to 600.")
    ] = None,
    expires: Annotated[
        str | None, option("Executions that did not start within this time expire: 10m.")
    ] = None,
    flow: Annotated[
        str | None, option("Whole flow control: JSON text, @file, or - for stdin.", "--flow")
    ] = None,
    composite: Annotated[
        str | None,
        option("Several events, or the absence of one, instead of --on: JSON text, @file, or - for stdin."),
    ] = None,
    compensate: Annotated[
        bool | None,
        typer.Option(
            "--compensate/--no-compensate",
            help="Compensate the executions that it starts when the execution that caused the event fails.",
            show_default=False,
        ),
    ] = None,
    event_type: Annotated[
        str | None, option("BabyAGI's spelling: type of the event, such as function_updated.")
    ] = None,
    target_function: Annotated[
        str | None, option("BabyAGI's spelling: function that the event is about.")
    ] = None,
    trigger_function: Annotated[str | None, option("BabyAGI's spelling: function to run.")] = None,
    condition: Annotated[
        list[str] | None, option("BabyAGI's spelling: key=value of metadata or data. Repeatable.")
    ] = None,
    expected_version: ExpectedVersion = None,
    shadow: Annotated[bool, typer.Option("--shadow", help="Record decisions, run nothing.")] = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Save a trigger. An existing trigger gets a new version."""
    from functory.cli.input import flow_control as controls
    from functory.engine.errors import Invalid

    fields = _read_file(file) if file is not None else {}
    named = {
        "on": values.read_json(on, "--on") if on is not None else None,
        "function": function,
        "when": when,
        "criteria": values.read_json_object(criteria, "--criteria") if criteria is not None else None,
        "input": values.read_json(input_, "--input") if input_ is not None else None,
        "guards": values.read_json_object(guards, "--guards") if guards is not None else None,
        "flow": controls.from_options(
            debounce=debounce,
            throttle=throttle,
            rate_limit=rate_limit,
            batch=batch,
            concurrency=concurrency,
            key=key,
            singleton=singleton,
            idempotency=idempotency,
            overlap=overlap,
            priority=priority,
            expires=expires,
            flow=flow,
        ),
        "composite": values.read_json_object(composite, "--composite") if composite is not None else None,
        "compensate": compensate,
        "event_type": event_type,
        "target_function": target_function,
        "trigger_function": trigger_function,
        "conditions": values.parse_pairs(condition, "--condition") if condition else None,
    }
    fields |= {field: value for field, value in named.items() if value is not None}
    if not any(fields.get(field) for field in ("on", "event_type", "composite")):
        raise Invalid(
            "the trigger has no pattern",
            "neither --on nor --composite nor --event-type nor --file gives one",
            'functory trigger add NAME --on \'{"type": ["order.created"]}\' --function handle_order',
        )
    chosen = name or fields.get("name")
    fields.pop("name", None)
    with session.engine(create=True) as engine:
        row = _save(engine, chosen, fields, expected_version, shadow)
        data = _as_json(session.read_models(engine).trigger(row["name"])) if json else {}
        data |= {"warnings": row["warnings"]}
    for warning in row["warnings"]:
        console.warn(warning)
    print_saved(CommandOutput(json=json, quiet=quiet), "trigger", row, data)


@app.command("list", epilog="Example: functory trigger list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """List all triggers and how often each has fired."""
    with session.engine() as engine:
        if json:
            _print_definitions(session.read_models(engine).all_triggers())
            return
        rows = engine.triggers.list()
    shown = [
        row
        | {
            "function": row["definition"]["function"],
            "on": _pattern_line(row["definition"]),
            "fired": row["fired"] or 0,
            "suppressed": row["suppressed"] or 0,
        }
        for row in rows
    ]
    columns = {
        "name": "NAME",
        "version": "VERSION",
        "state": "STATE",
        "function": "FUNCTION",
        "fired": "FIRED",
        "suppressed": "SUPPRESSED",
        "last_at": "LAST",
        "on": "ON",
    }
    CommandOutput(quiet=quiet).table(
        shown,
        columns,
        key="name",
        empty="no triggers yet; try: functory trigger add --help",
    )


@app.command(epilog="Example: functory trigger show reorder")
def show(name: Name, open_: Open = False, json: AsJson = False) -> None:
    """Show pattern, condition, input, guards and state of a trigger."""
    from functory.cli.output import trigger_definition

    with session.engine() as engine:
        row = next((r for r in engine.triggers.list() if r["name"] == name), None) or engine.triggers.get(
            name
        )
        failure = engine.trigger_failure(row)
        data = _as_json(session.read_models(engine).trigger(name, totals=True)) if json else {}
        if open_:
            open_page(engine, "triggers", name)
    out = CommandOutput(json=json)
    if json:
        out.value(data)
    else:
        trigger_definition.draw(out, row, failure)


def _as_json(found: Mapping[str, Any]) -> dict[str, Any]:
    from functory.rows.triggers import Trigger

    return Trigger.as_json(found)


def _print_definitions(found: Iterable[Mapping[str, Any]]) -> None:
    from functory.rows.triggers import TriggerDefinition

    CommandOutput(json=True).value([TriggerDefinition.as_json(row) for row in found])


@app.command(epilog="Example: functory trigger versions reorder")
def versions(name: Name, json: AsJson = False, quiet: Quiet = False) -> None:
    """List all versions of a trigger, newest first."""
    with session.engine() as engine:
        rows = engine.triggers.versions(name)
    data = [
        {field: row[field] for field in ("number", "definition", "sha256", "author", "created_at")}
        for row in rows
    ]
    shown = [
        row | {"function": row["definition"]["function"], "on": _pattern_line(row["definition"])}
        for row in rows
    ]
    columns = {
        "number": "VERSION",
        "created_at": "SAVED",
        "author": "AUTHOR",
        "function": "FUNCTION",
        "on": "ON",
    }
    CommandOutput(json=json, quiet=quiet).table(shown, columns, key="number", data=data)


@app.command(epilog="Example: functory trigger pause reorder --note 'stocktaking until Monday'")
def pause(
    name: Name,
    note: Annotated[
        str, typer.Option(help="Reason, shown with every suppressed firing.", show_default=False)
    ] = "",
) -> None:
    """Pause a trigger: its firings are suppressed and recorded until it is resumed."""
    with session.engine() as engine:
        engine.triggers.pause(name, note=note, author=engine.author)
    CommandOutput().styled((f"trigger {name} is paused; to resume it: functory trigger resume {name}", ""))


@app.command(epilog="Example: functory trigger resume reorder")
def resume(name: Name) -> None:
    """Resume a paused trigger."""
    with session.engine() as engine:
        engine.triggers.resume(name, author=engine.author)
    CommandOutput().styled((f"trigger {name} is enabled; what was suppressed meanwhile stays suppressed", ""))


@app.command(epilog="Example: functory trigger delete reorder --yes")
def delete(name: Name, yes: Yes = False) -> None:
    """Delete a trigger. Its firings and versions stay readable."""
    with session.engine() as engine:
        engine.triggers.get(name)
        confirm(f"Delete the trigger {name}?", yes)
        engine.triggers.delete(name, author=engine.author)
    CommandOutput().styled((f"trigger {name} is deleted", ""))


@app.command(epilog="Example: functory trigger test reorder --event event.json")
def test(
    name: Name,
    event: Annotated[
        str,
        typer.Option(
            help="Id of a stored event, JSON text, a JSON file, or - for stdin.", show_default=False
        ),
    ],
    json: AsJson = False,
) -> int:
    """Test a trigger on an event, clause by clause. Nothing is started. Exit status 1 when it would not fire."""
    from functory.cli.commands.trigger import dry_run

    with session.engine() as engine:
        given = dry_run.read_event(engine, event)
        answer = engine.inspections.test_trigger(name, given, source="/functory/cli")
    out = CommandOutput(json=json)
    if json:
        out.value(answer)
    else:
        dry_run.draw(out, answer)
    return 0 if answer["fires"] and not answer["problem"] else 1


@app.command(epilog="Example: functory trigger vectors patterns.json")
def vectors(
    file: Annotated[
        Path, typer.Argument(help="JSON file with test cases and invalid patterns.", show_default=False)
    ],
) -> int:
    """Check a file of pattern test cases. Prints one line of JSON. Exit status 1 when a case fails."""
    import sys

    from functory.engine.errors import Invalid
    from functory.engine.serialization import json_codec
    from functory.triggers.patterns.conformance import run_vectors

    try:
        counts = run_vectors(file)
    except OSError as error:
        raise Invalid(f"{file} cannot be read", error.strerror or str(error), "check the path") from None
    sys.stdout.write(json_codec.dumps(counts) + "\n")
    return 1 if counts["wrong"] or counts["invalid_accepted"] else 0


def _pattern_line(definition: Mapping[str, Any]) -> str:
    """Return the pattern, or the composite, on one line."""
    return console.short_json(definition["on"] if "on" in definition else definition["composite"])


def _read_file(file: str) -> dict[str, Any]:
    import tomllib

    from functory.engine.errors import Invalid

    if file.endswith((".yaml", ".yml")):
        from functory.packs.stackstorm.document import parse_document

        found = parse_document(values.read_text(file), file)
        if not isinstance(found, dict):
            raise Invalid(f"{file} holds no trigger", "the file must hold an object", "on: …, function: …")
        return found
    if not file.endswith(".toml"):
        return values.read_json_object("-" if file == "-" else f"@{file}", "the trigger file")
    try:
        return tomllib.loads(values.read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{file} is not TOML", str(error), "correct the file, or write JSON") from None


def _save(
    engine: Functory, name: Any, fields: Mapping[str, Any], expected_version: int | None, shadow: bool
) -> dict[str, Any]:
    from functory.engine.errors import Invalid

    if expected_version is not None and not name:
        raise Invalid(
            "the trigger has no name", "--expected-version needs one", "functory trigger add NAME …"
        )
    return engine.save_trigger(name, shadow=shadow, expected_version=expected_version, **fields)

"""``functory canary``: versions of functions that get a share of the executions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import command_group, option
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("Versions of functions that get a share of the executions.")

Name = Annotated[str, typer.Argument(help="Name of the function.", show_default=False)]
Reason = Annotated[str, option("Why, for other people.")]
Hours = Annotated[float | None, option("Hours from now; then it waits for a person.")]


@app.command(epilog="Example: functory canary start parse@8 --share 10%")
def start(
    version: Annotated[str, typer.Argument(help="The version.", metavar="NAME@N", show_default=False)],
    share: Annotated[str, typer.Option(help="Share of the executions, 1% to 50%.")] = "10%",
    unit: Annotated[
        str, typer.Option(help="What keeps one version: root (a causal tree) or subject (of the event).")
    ] = "root",
    hours: Annotated[float, typer.Option(help="Hours until it waits for a person.")] = 72.0,
    json: AsJson = False,
) -> None:
    """Let a version have a share of the executions. It is rolled back if it is worse, and promoted if it is not."""
    from functory.engine.errors import Invalid
    from functory.engine.functions import dependencies
    from functory.engine.serialization import written_quantities

    name, number = dependencies.parse_reference(version)
    if number is None:
        raise Invalid(
            f"which version of {name}?", "its number is missing", f"functory function versions {name}"
        )
    with session.engine() as engine:
        # The engine refuses another word, with the words that there are.
        given: Any = unit
        row = engine.canaries.start(
            name,
            number,
            share=written_quantities.share(share, "--share"),
            unit=given,
            hours=hours,
            author=engine.author,
        )
    _print(
        row, f"{name} v{number} gets {written_quantities.format_share(row['share'])} of the executions", json
    )


@app.command("list", epilog="Example: functory canary list --open")
def list_(
    function: Annotated[str | None, option("Only those of this function.")] = None,
    is_open: Annotated[bool, typer.Option("--open", help="Only those that are open or held.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of canaries.")] = 20,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List canaries, newest first."""
    from functory.cli.output import canaries as output
    from functory.rows.canaries import Canary

    with session.engine() as engine:
        rows = engine.canaries.list(function=function, is_open=is_open, limit=limit)
    CommandOutput(json=json, quiet=quiet).table(
        [output.in_list(row) for row in rows],
        {
            "function": "FUNCTION",
            "versions": "VERSIONS",
            "state": "STATE",
            "share": "SHARE",
            "failed": "FAILED",
            "base_failed": "FAILED OF THE BASE",
            "started_at": "STARTED",
        },
        key="function",
        data=lambda: [Canary.as_json(row) for row in rows],
        empty="no canaries",
    )


@app.command(epilog="Example: functory canary show parse")
def show(function: Name, json: AsJson = False) -> None:
    """Show the newest canary of a function: what its units have shown, and what is missing for a promotion."""
    from functory.cli.output import canaries as output
    from functory.rows.canaries import Canary

    with session.engine() as engine:
        row = engine.canaries.get(function)
    if json:
        CommandOutput().value(Canary.as_json(row))
        return
    CommandOutput().record(output.record(row))


@app.command(epilog="Example: functory canary advance parse --share 50%")
def advance(
    function: Name,
    share: Annotated[str | None, option("A larger share of the executions, up to 50%.")] = None,
    hours: Hours = None,
    json: AsJson = False,
) -> None:
    """Raise the share, or let it go on. One that was held goes on."""
    from functory.engine.serialization import written_quantities

    with session.engine() as engine:
        row = engine.canaries.advance(
            function,
            share=None if share is None else written_quantities.share(share, "--share"),
            hours=hours,
            author=engine.author,
        )
    _print(
        row,
        f"{function} v{row['version']} gets {written_quantities.format_share(row['share'])} of the executions",
        json,
    )


@app.command(epilog="Example: functory canary hold parse --reason 'until Monday'")
def hold(function: Name, reason: Reason = "", json: AsJson = False) -> None:
    """Keep it as it is until a person decides: it is not promoted. It is still rolled back if it is worse."""
    with session.engine() as engine:
        row = engine.canaries.hold(function, reason=reason, author=engine.author)
    _print(row, f"the canary of {function} is held", json)


@app.command(epilog="Example: functory canary promote parse")
def promote(function: Name, reason: Reason = "", json: AsJson = False) -> None:
    """Make its version the active one now."""
    with session.engine() as engine:
        row = engine.canaries.promote(function, reason=reason, author=engine.author)
    _print(row, f"{function} v{row['version']} is active", json)


@app.command(epilog="Example: functory canary rollback parse --reason 'wrong totals'")
def rollback(function: Name, reason: Reason = "", json: AsJson = False) -> None:
    """Take the executions back and mark its version bad. What has not begun runs with the active version."""
    with session.engine() as engine:
        row = engine.canaries.roll_back(function, reason=reason, author=engine.author)
    _print(row, f"{function} v{row['version']} is rolled back, and marked bad", json)


@app.command(epilog="Example: functory canary stop parse")
def stop(function: Name, reason: Reason = "", json: AsJson = False) -> None:
    """End it without a verdict: new executions run with the active version."""
    with session.engine() as engine:
        row = engine.canaries.stop(function, reason=reason, author=engine.author)
    _print(row, f"the canary of {function} is stopped", json)


def _print(row: Mapping[str, Any], text: str, json: bool) -> None:
    from functory.rows.canaries import Canary

    if json:
        CommandOutput().value(Canary.as_json(row))
        return
    CommandOutput().styled((text, ""))

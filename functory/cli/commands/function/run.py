"""``functory function run`` and ``functory run``: start an execution of a function and print its result.

:mod:`functory.cli.commands.function.crud` registers it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.cli.command_group import FunctionReference, Timeout, Wait
from functory.cli.input import values as input_values
from functory.cli.output import dashboard_page, execution_result
from functory.terminal.console import AsJson, CommandOutput, Quiet


def run(
    name: FunctionReference,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            help="Input: parameter=value. A value that is valid JSON is read as JSON. Repeatable.",
            show_default=False,
        ),
    ] = None,
    input_json: Annotated[
        str | None,
        typer.Option(help="Whole input: JSON text, @file, or - for stdin.", show_default=False),
    ] = None,
    wait: Wait = True,
    timeout: Timeout = None,
    open_: dashboard_page.Open = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a function and print its result as JSON. Exit status 1 when it fails."""
    from functory.engine import choices
    from functory.engine.errors import NotFound
    from functory.engine.functions import dependencies

    values = input_values.read_json_object(input_json, "--input-json") if input_json is not None else {}
    values |= input_values.parse_pairs(input_ or (), "--input")
    out = CommandOutput(json=json, quiet=quiet)
    with session.engine(start=wait) as engine:
        function, version = dependencies.parse_reference(name)
        if open_:
            # A missing dashboard is an error before something runs.
            dashboard_page.address(engine)
        try:
            row = engine.executions.start(
                function,
                lambda _, schema: input_values.coerce_strings(values, input_ or (), schema),
                version=version,
                cause="manual",
                author=engine.author,
            )
        except NotFound as error:
            known = [one["name"] for one in engine.functions.list()]
            if error.why or function in known:
                raise
            meant = choices.suggestion(function, known).removeprefix("; ")
            raise NotFound(error.what, meant, error.try_) from None
        if open_:
            dashboard_page.open_page(engine, "executions", row["id"])
        if not wait:
            execution_result.print_queued(engine, row, out)
            return
        execution_result.wait_and_print(engine, row["id"], timeout, out)


VERBS = ((run, "functory function run parse --input 'rows=[1, 2]' --timeout 10"),)

"""``functory function stats``: how often functions run, how long, what fails, and what to do about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from functory.cli import session
from functory.terminal.console import AsJson, CommandOutput, Quiet


def stats(
    name: Annotated[
        str | None, typer.Argument(help="Name of the function. Default: all functions.", show_default=False)
    ] = None,
    since: Annotated[
        str,
        typer.Option(help="Age of the oldest minute or hour of the function: 90m, 24h, 30d."),
    ] = "24h",
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show how often functions run, how long they take, how many fail, and advice that follows from it.

    With a name: percentiles of run and queue time, versions, calls of other functions and errors of this function.
    """
    from functory.cli.output import function_stats
    from functory.engine.errors import Invalid
    from functory.engine.serialization import durations

    seconds = durations.parse(since, "--since", minimum=60)
    if name is None and since != "24h":
        raise Invalid(
            "--since needs the name of a function",
            "the list of all functions is about the last 24 hours",
            f"functory function stats NAME --since {since}",
        )
    out = CommandOutput(json=json, quiet=quiet)
    with session.engine() as engine:
        if name is None:
            function_stats.print_all(engine.inspections.function_summaries(), out)
            return
        found = engine.inspections.function_stats(name, engine.now() - timedelta(seconds=seconds))
    function_stats.print_one(found, out)


EXAMPLE = "functory function stats parse --since 7d"

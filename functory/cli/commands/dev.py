"""``functory dev``: all roles in one process."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli.command_group import Port, Yes
from functory.cli.commands.server import import_http_server


def dev(
    port: Port = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Delete the data file first: functions, events, executions.")
    ] = False,
    yes: Yes = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print events as they happen.")] = False,
) -> int:
    """Run all roles in one process, for development. Not for production."""
    from functory.dev import server as development
    from functory.roles import process

    import_http_server()
    settings = development.dev_settings(process.configure("dev", embedded=True), port)
    if reset:
        development.reset(settings, confirmed=yes)
    return development.run(settings, quiet=quiet)

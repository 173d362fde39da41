"""``functory dev``: all roles in one process."""

from __future__ import annotations

from pathlib import Path
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
    follow: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a project: its functions/*.py are saved as they change. "
            "Default: the folder of functory.toml, if it has functions/.",
            show_default=False,
        ),
    ] = None,
    no_follow: Annotated[bool, typer.Option("--no-follow", help="Follow no folder.")] = False,
    rerun: Annotated[
        bool,
        typer.Option(
            "--rerun/--no-rerun",
            help="Run a saved function again with its last input, unless it has rights.",
        ),
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print events as they happen.")] = False,
) -> int:
    """Run all roles in one process, for development. Not for production.

    The functions of a project are saved as they change in an editor.
    """
    from functory.dev import server as development
    from functory.engine.errors import Invalid
    from functory.roles import process

    if follow is not None and no_follow:
        raise Invalid("--follow and --no-follow exclude each other")
    import_http_server()
    settings = development.dev_settings(process.configure("dev", embedded=True), port)
    if reset:
        development.reset(settings, confirmed=yes)
    project = None if no_follow else follow or development.project_here()
    return development.run(settings, quiet=quiet, project=project, rerun=rerun)

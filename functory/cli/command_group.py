"""What every noun shares: its Typer app, and the question before something is lost."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def command_group(help_: str) -> typer.Typer:
    """An app for one noun; its verbs are added with ``@app.command(epilog="Example: …")``."""
    return typer.Typer(
        help=help_,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )


def confirm(question: str, yes: bool) -> None:
    """Ask before something is lost. Raises :class:`Invalid` where nobody can answer, Abort for a no."""
    from functory.engine.errors import Invalid

    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid("not confirmed", "there is no terminal to ask at", "add --yes")
    if not typer.confirm(question, err=True):
        raise typer.Abort

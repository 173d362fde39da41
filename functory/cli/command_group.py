"""Parts that commands share: the Typer application of a noun, common options, the question before a deletion."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from functory.engine.serialization.control_characters import one_line


def option(help_: str, *names: str) -> Any:
    """Make an option whose default is not shown: it has none, or the help says it."""
    return typer.Option(*names, help=help_, show_default=False)


def seconds(text: str | float) -> float:
    """Read a length of time: ``90``, a number of seconds, or with units, as ``2m`` and ``1h30m``.

    The default of an option comes as a number.
    """
    from functory.engine.errors import Invalid
    from functory.engine.serialization import durations

    try:
        return (
            float(text)
            if not isinstance(text, str) or text.strip("0123456789.") == ""
            else durations.parse(text, "time")
        )
    except (Invalid, ValueError):
        raise typer.BadParameter(
            f"{text!r} is neither a number of seconds nor a number with a unit, as 90s, 2m or 1h30m"
        ) from None


def duration(help_: str, *names: str) -> Any:
    """Make an option for a length of time, in seconds or with a unit."""
    return typer.Option(*names, help=help_, parser=seconds, metavar="TIME", show_default=False)


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Migrate = Annotated[
    bool, typer.Option("--migrate", help="Upgrade the database to this version's schema first.")
]
ExpectedVersion = Annotated[int | None, option("Fail unless this is the current version (0: it is new).")]
MaxPerMinute = Annotated[
    int | None,
    option(
        "Events a minute, over ten minutes, beyond which its breaker pauses it; 0 for no limit. "
        "Default: what is stored, else FUNCTORY_SOURCE_RATE.",
        "--max-per-minute",
    ),
]
FunctionReference = Annotated[
    str,
    typer.Argument(help="Function: name, or name@3 for version 3.", metavar="NAME[@N]", show_default=False),
]
Wait = Annotated[
    bool,
    typer.Option("--wait/--no-wait", help="Wait for the result, or print the id of the execution at once."),
]
Timeout = Annotated[
    float | None,
    duration("Longest time to wait, in seconds or as 2m; then exit status 124."),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Port to listen on; 0 takes a free one. Default: FUNCTORY_PORT.",
        show_default=False,
    ),
]


def command_group(help_: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Make the application of one noun; its verbs are added with ``@app.command(epilog="Example: …")``."""
    return typer.Typer(
        cls=cls,
        help=help_,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )


def confirm(question: str, yes: bool) -> None:
    """Ask before something is deleted. Raises :class:`Invalid` without a terminal, :class:`typer.Abort` for a no."""
    from functory.engine.errors import Invalid

    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(
            "not confirmed", "the command asks first, and there is no terminal to ask in", "add --yes"
        )
    if not typer.confirm(one_line(question), err=True):
        raise typer.Abort

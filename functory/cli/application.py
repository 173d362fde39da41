"""Command tree: loads a noun when it is used, and turns every error into its exit status."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from functory.cli import command_index
from functory.terminal import errors, output_encoding

# Typer does not export its parser's classes; BadParameter is public and derives from them.
UsageError: Any = typer.BadParameter.__mro__[1]


class LazyGroup(TyperGroup):
    """Top-level group: imports a command when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, for the completion."""
        return [entry.name for entry in command_index.entries()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by name or alias; None for an unknown name."""
        entry = command_index.find(cmd_name)
        return None if entry is None else load_command(entry)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve a command, with a suggestion for a misspelt name."""
        if args and command_index.find(args[0]) is None and not args[0].startswith("-"):
            known = [name for entry in command_index.entries() for name in (entry.name, *entry.aliases)]
            near = difflib.get_close_matches(args[0], known, 1)
            raise UsageError(
                f"unknown command {args[0]!r}" + (f"; did you mean {near[0]}?" if near else ""), ctx
            )
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page of the command index."""
        formatter.write(command_index.help_text())


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from functory._version import __version__

        typer.echo(f"functory {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """An event-driven engine for Python functions that live in a database."""


def load_command(entry: command_index.CommandEntry) -> Any:
    """Import a command. A plain function becomes a command of its own."""
    target = getattr(importlib.import_module(entry.module), entry.attribute)
    if not isinstance(target, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        single.command(name=entry.name, context_settings={"help_option_names": ["--help", "-h"]})(target)
        command = typer.main.get_command(single)
    else:
        command = typer.main.get_command(target)
        if entry.verb is not None:
            return command.get_command(None, entry.verb)  # type: ignore[attr-defined]
    command.name = entry.name
    return command


def _check_place(arguments: Sequence[str]) -> None:
    """Refuse a command that works on this machine where the process speaks to a server."""
    entry = command_index.find(arguments[0]) if arguments else None
    if entry is None or not entry.here_only or {"--help", "-h"}.intersection(arguments):
        return
    from functory.remote import address

    if address.url_of_process() is not None:
        from functory.engine.errors import Refused

        raise Refused(
            f"functory {entry.name} works on the machine that it runs on",
            "FUNCTORY_URL, or url in functory.toml, names a server",
            f"FUNCTORY_URL= functory {entry.name} …, on the machine of the engine",
        )
    if (login := address.url_of_login()) is not None:
        from functory.terminal import console

        console.note(f"functory {entry.name} works on this machine, and not on {login} (functory login)")


def run(arguments: Sequence[str]) -> int:
    """Run a command line. Returns its exit status; prints errors to stderr."""
    output_encoding.never_fail()
    command = typer.main.get_command(app)
    try:
        _check_place(arguments)
        status = command.main(args=list(arguments), prog_name="functory", standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as left:
        return left.exit_code
    except (typer.Abort, KeyboardInterrupt):
        errors.print_interrupted()
        return errors.EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; Python must not report it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.EXIT_PIPE_CLOSED
    except UsageError as error:
        return errors.print_usage_error(error)
    except Exception as error:
        if isinstance(advice := getattr(error, "try_", None), str):
            from functory.cli.output import hints

            error.try_ = hints.for_command_line(advice)  # type: ignore[attr-defined]
            error.why = hints.in_message(error.why)  # type: ignore[attr-defined]
            if isinstance(trace := (getattr(error, "error", None) or {}).get("traceback"), str):
                error.error = error.error | {"traceback": hints.in_message(trace)}  # type: ignore[attr-defined]
        return errors.print_error(error)
    if status == errors.EXIT_INTERRUPTED:
        # Typer has caught Ctrl-C itself and says nothing.
        errors.print_interrupted()
    return status if isinstance(status, int) else 0

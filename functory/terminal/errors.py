"""Errors on stderr and their exit status: ``error: what``, then why, then what to try."""

from __future__ import annotations

import os
import re
import shlex
import sys
import traceback
from typing import Any

from functory.engine.database import short_ids
from functory.engine.serialization.control_characters import escape_control_characters, marked_lines
from functory.terminal.near_options import near_options

_EXTRA = re.compile(r"Got unexpected extra argument\S* \((.*)\)", re.DOTALL)
_PAIR = re.compile(r"[^\W\d]\w*=\S*")

EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
EXIT_USAGE = 2


def print_error(error: BaseException) -> int:
    """Print an error and return its exit status. An unexpected error also shows its traceback."""
    from functory.engine import os_errors
    from functory.engine.errors import ExecutionFailed, FunctoryError

    if os_errors.is_of_system(error) and not os.environ.get("FUNCTORY_DEBUG"):
        error = os_errors.explain(error)
    if isinstance(error, ExecutionFailed):
        print_execution_error(error)
    elif isinstance(error, FunctoryError):
        print_message(error.what, error.why, error.try_)
    else:
        traceback.print_exception(error)
        print_message(
            f"{type(error).__name__}: {error}",
            "this is a defect of functory",
            "report it with the lines above",
        )
    return getattr(error, "code", 1) if isinstance(error, FunctoryError) else 1


def print_execution_error(error: Any) -> None:
    """Print the error of an execution, with the traceback of the function's own lines."""
    print_message(error.what, error.why, "")
    trace = (error.error or {}).get("traceback")
    if trace:
        print_lines("", *str(trace).rstrip("\n").split("\n"))
    if error.try_:
        _print_try(error.try_)


def print_usage_error(error: Any) -> int:
    """Print what is wrong with a command line, or its help. Returns the exit status."""
    # Typer's validator puts the kind of its error before the text.
    message = (_wrong_option(error) or error.format_message()).replace(": Value error, ", ": ")
    where = error.ctx.command_path if error.ctx is not None else "functory"
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(message.rstrip("\n") + "\n")
        return 0
    try_ = _as_input(error) or f"{where} --help"
    print_message(message[:1].lower() + message[1:].rstrip("."), "", try_)
    return EXIT_USAGE


def _as_input(error: Any) -> str | None:
    """Return the option for input or data that was written as a further argument, ``n=1`` or ``{"n": 1}``; else
    None.
    """
    extra = _EXTRA.fullmatch(error.message or "")
    options = {name for one in (error.ctx.command.params if error.ctx else ()) for name in one.opts}
    if extra is None:
        return None
    if "--data" in options and extra[1].startswith(("{", "[")):
        return f"--data {shlex.quote(extra[1])}"
    if "--input-json" not in options:
        return None
    if extra[1].startswith("{"):
        return f"--input-json {shlex.quote(extra[1])}"
    # Several come joined with spaces, and where a value with a space ends is not known.
    given = extra[1].split(" ")
    if all(_PAIR.fullmatch(one) for one in given):
        return " ".join(f"--input {shlex.quote(one)}" for one in given)
    return None


def _wrong_option(error: Any) -> str | None:
    """Say which options an unknown one may stand for; None for any other error."""
    if error.ctx is None or not hasattr(error, "possibilities") or not hasattr(error, "option_name"):
        return None
    known = (name for one in error.ctx.command.params for name in (*one.opts, *one.secondary_opts))
    near = near_options(error.option_name, (name for name in known if name.startswith("--")))
    return error.message.rstrip(".") + (f"; did you mean {' or '.join(near)}?" if near else "")


def print_interrupted() -> None:
    """Print that Ctrl-C ended the command."""
    print_message("interrupted", "", "")


def print_message(what: str, why: str, try_: str) -> None:
    """Print the three parts of an error on stderr."""
    sys.stderr.write(_error_label() + f" {marked_lines(what)}\n")
    print_lines(*why.split("\n") if why else ())
    if try_:
        _print_try(try_)


def _print_try(text: str) -> None:
    if sys.stderr.isatty():
        text = short_ids.in_commands(text)
    print_lines(*f"try: {text}".split("\n"))


def print_lines(*lines: str) -> None:
    """Print indented lines on stderr."""
    for line in lines:
        sys.stderr.write(f"  {escape_control_characters(line)}".rstrip() + "\n")


def _error_label() -> str:
    coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return "\x1b[1;31merror:\x1b[0m" if coloured else "error:"

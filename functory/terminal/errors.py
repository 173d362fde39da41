"""Errors on stderr, and the exit status of each: ``error: what``, why it is so, what to try."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

INTERRUPTED = 130
PIPE_CLOSED = 141
USAGE = 2


def report(error: BaseException) -> int:
    """Print an error and return its exit status. One that nobody foresaw also shows its traceback."""
    from functory.engine.errors import ExecutionFailed, FunctoryError

    if isinstance(error, ExecutionFailed):
        execution(error)
    elif isinstance(error, FunctoryError):
        write(error.what, error.why, error.try_)
    elif isinstance(error, OSError) and not os.environ.get("FUNCTORY_DEBUG"):
        write(error.strerror or str(error), str(error.filename or ""), "")
    else:
        traceback.print_exception(error)
        write(
            f"{type(error).__name__}: {error}",
            "this is a defect of functory",
            "report it with the lines above",
        )
    return getattr(error, "code", 1) if isinstance(error, FunctoryError) else 1


def execution(error: Any) -> None:
    """An execution that did not succeed: its error with the traceback of the function's own lines."""
    write(error.what, error.why, "")
    trace = (error.error or {}).get("traceback")
    if trace:
        write_lines("", *str(trace).rstrip("\n").split("\n"))
    if error.try_:
        write_lines(f"try: {error.try_}")


def usage(error: Any) -> int:
    """A command line that cannot be understood."""
    message = error.format_message()
    where = error.ctx.command_path if error.ctx is not None else "functory"
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(message.rstrip("\n") + "\n")
        return 0
    write(message[:1].lower() + message[1:].rstrip("."), "", f"{where} --help")
    return USAGE


def interrupted() -> None:
    """Ctrl-C."""
    write("interrupted", "", "")


def write(what: str, why: str, try_: str) -> None:
    """The three parts of an error on stderr."""
    sys.stderr.write(_coloured("error:") + f" {clean(what)}\n")
    write_lines(*why.split("\n") if why else ())
    if try_:
        write_lines(*f"try: {try_}".split("\n"))


def write_lines(*lines: str) -> None:
    """Indented lines on stderr."""
    for line in lines:
        sys.stderr.write(f"  {clean(line)}".rstrip() + "\n")


def clean(text: str) -> str:
    """``text`` without characters that a terminal would obey: names and messages come from outside."""
    return "".join(
        c if c in "\n\t" or (ord(c) >= 32 and not 127 <= ord(c) < 160) else f"\\x{ord(c):02x}" for c in text
    )


def _coloured(word: str) -> str:
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        return f"\x1b[1;31m{word}\x1b[0m"
    return word

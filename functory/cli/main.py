"""The command line: nouns, then verbs. ``main`` is the console script ``functory``.

The rules that every command keeps (``docs/reference/cli.md`` has them for users):

- data goes to stdout; messages, warnings, progress and errors to stderr;
- tables for people, tab-separated lines in a pipe, JSON with ``--json``, ids alone with ``-q``;
- an error is ``error: what``, then why, then ``try:``; the exit status is the error's ``code``.

Importing this module costs nothing: help and version are answered from ``command_index`` without any
library, a command imports its own noun, and a noun imports the engine only when a command runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name). Returns the exit status."""
    # A umask that takes the owner's rights makes files and folders that this process itself could not use.
    os.umask(os.umask(0o077) & 0o077)
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from functory.terminal import standard_streams

        standard_streams.open_closed()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in ([], ["--help"], ["-h"], ["help"]):
        from functory.cli import command_index

        return _write(command_index.help_text())
    if given in (["--version"], ["version"]):
        from functory._version import __version__

        return _write(f"functory {__version__}\n")
    from functory.cli import application

    return application.run(given)


def _write(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        from functory.terminal import errors

        return errors.print_error(error)
    return 0

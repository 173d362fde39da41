"""Streams of a process that was started without stdin, stdout or stderr, as ``>&-`` of a shell does.

Python has None for such a stream, and the next file or socket that is opened gets its number: a library that prints
would write into a database. So each gets a file first. What reads from stdin finds its end, and what is printed on
stdout is an error of the system: a command whose result is not read has no success.
"""

from __future__ import annotations

import io
import os
import sys


def open_closed() -> None:
    """Open what is closed of the standard streams of this process."""
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(_null(0, os.O_RDONLY)), encoding="utf-8")
    if sys.stdout is None:
        # Written to, it fails with "Bad file descriptor", as a closed one does.
        sys.stdout = _writer(_null(1, os.O_RDONLY))
    if sys.stderr is None:
        # Without a place for messages, the exit status is left.
        sys.stderr = _writer(_null(2, os.O_WRONLY))


def _writer(number: int) -> io.TextIOWrapper:
    # Nothing is kept: the interpreter would try to write it once more when it ends.
    return io.TextIOWrapper(io.FileIO(number, "w"), encoding="utf-8", write_through=True)  # type: ignore[arg-type]


def _null(number: int, flags: int) -> int:
    """Open the null device under the number of the stream, or under another where the number is taken."""
    opened = os.open(os.devnull, flags)
    try:
        os.fstat(number)
    except OSError:
        os.dup2(opened, number)
        os.close(opened)
        return number
    return opened

"""Output in every encoding: a character that the terminal's or the pipe's encoding lacks is written as ``\\u20ac``.

That is also how JSON writes it, so ``--json`` stays JSON, whatever ``LANG`` and ``PYTHONIOENCODING`` are.
"""

from __future__ import annotations

import codecs
import io
import sys

_ESCAPE = "functory.escape"
# Python's own choices, which fail for some text. Another one was chosen by the user.
_FAILING = ("strict", "surrogateescape")


def escape(error: UnicodeError) -> tuple[str, int]:
    """Replace the characters that cannot be encoded (an error handler of :mod:`codecs`)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    units = lacking.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


def never_fail() -> None:
    """Let stdout and stderr of this process take every text."""
    codecs.register_error(_ESCAPE, escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in _FAILING:
            stream.reconfigure(errors=_ESCAPE)

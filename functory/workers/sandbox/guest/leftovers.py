"""Says what a run has left behind in its process, so that only a process as it was is used for the next run.

Values in modules are not looked at: they are what a warm process is kept for. Code could deceive this check, and
would deceive later executions of its own version only.
"""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingImports]
import os
import signal
import sys
from _thread import _count as count_threads

_SIGNALS = range(1, 65)


class Leftovers:
    """The state of this process before its first run. ``threads`` of Functory's own may be added later."""

    def __init__(self) -> None:
        self.own_threads = 0
        self._folder = os.environ.get("TMPDIR", "")
        # The mapping below ``os.environ``: to compare that one itself decodes every name and value.
        self._environment = dict(_environment())
        self._state = self._read_state()
        self._threads = count_threads()

    def found(self) -> str:
        """Return what was left or changed, in one word; empty if nothing was."""
        try:
            if count_threads() - self._threads - self.own_threads > 0:
                return "threads"
            if _environment() != self._environment:
                return "environment"
            if os.listdir(self._folder):  # noqa: PTH208 - half the time of a Path
                return "files"
            return "" if self._read_state() == self._state else "state"
        except (OSError, TypeError):
            # Its folder or descriptor 0 is gone.
            return "state"

    def _read_state(self) -> tuple[object, ...]:
        lowest = os.dup(0)
        os.close(lowest)
        mask = os.umask(0o077)
        os.umask(mask)
        return (
            # An open file takes the lowest free number.
            lowest,
            mask,
            os.getcwd(),  # noqa: PTH109
            # Of the C module: that of ``signal`` makes an enumeration member of each.
            list(map(_signal.getsignal, _SIGNALS)),
            signal.getitimer(signal.ITIMER_REAL),
            sys.getrecursionlimit(),
            list(sys.path),
            len(sys.meta_path),
            sys.gettrace(),
            sys.getprofile(),
        )


def _environment() -> dict[bytes, bytes]:
    return getattr(os.environ, "_data")  # noqa: B009

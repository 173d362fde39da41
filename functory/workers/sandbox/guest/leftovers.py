"""Says what a run has left behind in its process, so that only a process as it was is used for the next run.

Values in modules are not looked at: they are what a warm process is kept for. What code does while it is loaded belongs
to every process of its version, so the process is compared with how loading has left it. Code could deceive this check,
and would deceive later executions of its own version only; the worker counts the threads itself as well.
"""

from __future__ import annotations

import _locale
import _signal  # pyright: ignore[reportMissingImports]
import _socket
import contextlib
import gc
import os
import signal
import sys
import time
import warnings
from _thread import _count as count_threads
from collections.abc import Iterator

_SIGNALS = range(1, 65)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# A thread that was joined has ended for the interpreter a little before it has for the kernel.
_PAUSES = (0.0, 0.001, 0.01)


class Leftovers:
    """The state of this process before its first run. ``threads`` of Functory's own may be added later."""

    def __init__(self) -> None:
        self.own_threads = 0
        self._folder = os.environ.get("TMPDIR", "")
        # The mapping below ``os.environ``: to compare that one itself decodes every name and value.
        self._environment = dict(_environment())
        self._threads = count_threads()
        self._kernel_threads = _count_kernel_threads()
        self._state = _read_state()
        self._filters = list(warnings.filters)
        self._loading = False

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Code is loaded in this block: the settings that it changes are not left behind by a run.

        Not so where the run had changed some before.
        """
        outermost = not self._loading
        adopts_filters = outermost and warnings.filters == self._filters
        adopts_state = outermost and _read_state() == self._state
        self._loading = True
        try:
            yield
        finally:
            if outermost:
                self._loading = False
        if adopts_filters:
            self._filters = list(warnings.filters)
        if adopts_state:
            self._state = _read_state()

    def found(self) -> str:
        """Return what was left or changed, in one word; empty if nothing was.

        The filters of warnings are put back: a library that a function imports adds some of its own.
        """
        try:
            if count_threads() - self._threads - self.own_threads > 0 or self._has_kernel_threads():
                return "threads"
            if _environment() != self._environment:
                return "environment"
            if os.listdir(self._folder):  # noqa: PTH208 - half the time of a Path
                return "files"
            if warnings.filters != self._filters:
                warnings.resetwarnings()
                warnings.filters.extend(self._filters)  # pyright: ignore[reportAttributeAccessIssue]
            return "" if _read_state() == self._state else "state"
        except (OSError, TypeError, AttributeError):
            # Its folder or a descriptor is gone.
            return "state"

    def _has_kernel_threads(self) -> bool:
        """Return True if the kernel knows more threads than before: the interpreter knows its own only."""
        for pause in _PAUSES:
            if _count_kernel_threads() - self._kernel_threads - self.own_threads <= 0:
                return False
            time.sleep(pause)
        return True


def _count_kernel_threads() -> int:
    """Count the threads that the kernel knows; proc(5). Without /proc it is 0, and the worker's count is the only one.

    By the path and not by a descriptor, which the function would hold: it leads to all of /proc.
    """
    try:
        return os.stat("/proc/self/task").st_nlink  # noqa: PTH116 - a third of the time of a Path
    except OSError:
        return 0


def _read_state() -> tuple[object, ...]:
    lowest = os.dup(0)
    os.close(lowest)
    mask = os.umask(0o077)
    os.umask(mask)
    return (
        # An open file takes the lowest free number.
        lowest,
        mask,
        os.getcwd(),  # noqa: PTH109
        # Of the C modules: those around them make an enumeration member of each.
        list(map(_signal.getsignal, _SIGNALS)),
        _signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        list(map(_signal.getitimer, _TIMERS)),
        os.sched_getaffinity(0),
        os.getpriority(os.PRIO_PROCESS, 0),
        _locale.setlocale(_locale.LC_ALL),
        _socket.getdefaulttimeout(),
        gc.isenabled(),
        gc.get_threshold(),
        gc.get_debug(),
        sys.getrecursionlimit(),
        sys.getswitchinterval(),
        sys.get_int_max_str_digits(),
        list(sys.path),
        len(sys.meta_path),
        sys.gettrace(),
        sys.getprofile(),
        sys.stdin,
        sys.stdout,
        sys.stderr,
        sys.excepthook,
        warnings.showwarning,
    )


def _environment() -> dict[bytes, bytes]:
    return getattr(os.environ, "_data")  # noqa: B009

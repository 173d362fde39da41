"""A screen that is drawn anew, as that of ``top``, in the place of the lines that scroll.

    with Screen() as screen:
        while True:
            screen.draw(print_everything)
            if not screen.wait(2.0):
                break

Stdout is a terminal. What was on it before comes back at the end.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import sys
from collections.abc import Callable
from types import TracebackType

# Sequences of xterm (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html): the other screen buffer, no cursor.
_OPEN, _CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_EMPTY = "\x1b[H\x1b[2J"
# The terminal shows all between these at once; one that does not know them ignores them.
_TOGETHER, _NOW = "\x1b[?2026h", "\x1b[?2026l"


class Screen:
    """The whole terminal. Keys are read where stdin is a terminal, too: ``q`` ends :meth:`wait`."""

    def __init__(self) -> None:
        self._restore: Callable[[], None] = lambda: None

    def __enter__(self) -> Screen:
        if sys.stdin.isatty():
            self._restore = _read_single_keys()
        _write(_OPEN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        with contextlib.suppress(OSError):
            _write(_CLOSE)

    @property
    def height(self) -> int:
        """The number of lines."""
        return shutil.get_terminal_size().lines

    def draw(self, show: Callable[[], None]) -> None:
        """Replace what is on the screen by what ``show`` prints on stdout."""
        sys.stdout.write(_TOGETHER + _EMPTY)
        show()
        _write(_NOW)

    def wait(self, seconds: float) -> bool:
        """Wait, at most until a key is pressed. False when it is ``q``."""
        keys = [sys.stdin] if sys.stdin.isatty() else []
        ready, _, _ = select.select(keys, [], [], seconds)
        return not ready or sys.stdin.read(1) not in ("q", "Q", "")


def _read_single_keys() -> Callable[[], None]:
    """Let a key be read without Enter. Returns what undoes it."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    return lambda: termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

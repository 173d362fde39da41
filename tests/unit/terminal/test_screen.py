"""The screen that is drawn anew: keys end it, and the terminal is afterwards what it was before."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from tests.support.patience import patient

PROGRAM = """
from functory.terminal.screen import Screen
import contextlib
count = 0
with contextlib.suppress(KeyboardInterrupt), Screen() as screen:
    while True:
        count += 1
        screen.draw(lambda: print("frame", count, flush=True))
        if not screen.wait(0.05):
            break
print("it ended")
"""


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self) -> None:
        self._master, self.slave = pty.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=self.slave, stdout=self.slave, stderr=self.slave,
            start_new_session=True,
        )  # fmt: skip
        self.shown = b""

    def wait_for(self, text: bytes) -> None:
        deadline = time.monotonic() + patient(30)
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._master], [], [], 0.1)[0]:
                self.shown += os.read(self._master, 65536)

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self.slave)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


@pytest.mark.parametrize("way", ["q", "Ctrl-C"])
def test_a_screen_is_drawn_until_it_is_ended(terminal: Terminal, way: str) -> None:
    terminal.wait_for(b"frame 3")
    terminal.press(b"x")
    terminal.wait_for(b"frame 6")
    if way == "q":
        terminal.press(b"q")
    else:
        os.kill(terminal.process.pid, signal.SIGINT)
    terminal.wait_for(b"it ended")
    assert terminal.process.wait(patient(30)) == 0
    # The other screen buffer was left, the cursor is back, and lines are read as a whole again.
    assert terminal.shown.index(b"\x1b[?1049l") < terminal.shown.index(b"it ended")
    assert terminal.shown.count(b"\x1b[?25l") == terminal.shown.count(b"\x1b[?25h")
    assert termios.tcgetattr(terminal.slave) == terminal.before

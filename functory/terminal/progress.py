"""The progress of what takes long: one line on stderr that is drawn anew, on a terminal alone.

    with progress(1000, "events") as tell:
        for number, event in enumerate(events, 1):
            handle(event)
            tell(number)

What is done within a second draws nothing, and loads no library.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Shorter work needs no bar.
FIRST_SECONDS = 0.9


class Tell(Protocol):
    """Says that ``done`` of the work is done."""

    def __call__(self, done: int, total: int | None = None, *, what: str = "") -> None:
        """``total`` is how much there is, where that is known only now. ``what`` names a step; each step has a rest
        time of its own.
        """


@contextlib.contextmanager
def progress(total: int | None = None, unit: str = "") -> Iterator[Tell]:
    """Show how many of ``total`` are done, and the rest time. None stands for an unknown total.

    Without a ``unit`` a share is shown, as of bytes. Does nothing where stderr is no terminal.
    """
    if not sys.stderr.isatty():
        yield _silent
        return
    bar = _Bar(total, unit)
    try:
        yield bar.tell
    finally:
        bar.stop()


def _silent(done: int, total: int | None = None, *, what: str = "") -> None:
    pass


class _Bar:
    def __init__(self, total: int | None, unit: str) -> None:
        self._total = total
        self._unit = unit
        self._what = ""
        self._began = time.monotonic()
        self._drawn: Progress | None = None
        self._task: TaskID | None = None

    def tell(self, done: int, total: int | None = None, *, what: str = "") -> None:
        if self._drawn is None:
            if time.monotonic() - self._began < FIRST_SECONDS:
                return
            self._drawn = _draw()
        total = self._total if total is None else total
        words = " ".join(filter(None, (what, self._count(done, total))))
        if self._task is None or what != self._what:
            if self._task is not None:
                self._drawn.remove_task(self._task)
            self._task, self._what = self._drawn.add_task("", total=total, completed=done, words=words), what
        else:
            self._drawn.update(self._task, total=total, completed=done, words=words)

    def stop(self) -> None:
        """Remove the line."""
        if self._drawn is not None:
            self._drawn.stop()

    def _count(self, done: int, total: int | None) -> str:
        if self._unit:
            return f"{done:,}{'' if total is None else f'/{total:,}'} {self._unit}"
        if total is None:
            return f"{done:,}" if done else ""
        return f"{100 * done // max(1, total)} %"


def _draw() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        # What a step is called comes from this program; nothing in it is markup.
        TextColumn("{task.fields[words]}", markup=False),
        TimeRemainingColumn(compact=True),
    )
    # What is printed on stdout meanwhile must not go to the console of stderr.
    drawn = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    drawn.start()
    return drawn

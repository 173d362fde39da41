"""Waiting in tests: for a fact, or for the absence of one. No test sleeps and hopes."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

Found = TypeVar("Found")

# Far beyond what anything takes here, for a machine that does other things too.
SECONDS = 30.0
# Between two looks: short at first, then longer, for a look may be dear.
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1


def wait_for(fact: Callable[[], Found], what: str = "", *, seconds: float = SECONDS) -> Found:
    """The first true value of ``fact``, asked again and again; fails with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while not (found := fact()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what or _source(fact)}")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
    return found


def stays(fact: Callable[[], Any], seconds: float) -> None:
    """Fail as soon as ``fact`` is not true within ``seconds``: what must not happen has time to happen."""
    deadline = time.monotonic() + seconds
    while True:
        assert fact(), f"no longer true: {_source(fact)}"
        if time.monotonic() > deadline:
            return
        time.sleep(min(LONGEST_PAUSE, seconds / 10))


def _source(fact: Callable[[], Any]) -> str:
    """The text of a function, as well as it can be had."""
    try:
        return inspect.getsource(fact).strip()
    except (OSError, TypeError):
        return repr(fact)

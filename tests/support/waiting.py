"""Waits in tests: for a fact, or for the absence of one. Tests use it instead of sleeping for a fixed time."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tests.support.patience import patient

Found = TypeVar("Found")

# Far longer than any test waits on a quiet machine; `patient` makes it longer on a busy one.
SECONDS = 30.0
# The pause between two calls is short at first, then longer, because a call may be costly.
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1


def wait_for(fact: Callable[[], Found], what: str = "", *, seconds: float = SECONDS) -> Found:
    """Call ``fact`` until its value is true, and return that value. Fails with ``what`` after ``seconds``, or after
    longer on a busy machine."""
    limit = patient(seconds)
    deadline = time.monotonic() + limit
    pause = FIRST_PAUSE
    while not (found := fact()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit:g} s: {what or _source(fact)}")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
    return found


def stays(fact: Callable[[], Any], seconds: float) -> None:
    """Check that ``fact`` stays true for ``seconds``: time enough for an error to show. Fails as soon as it is
    not."""
    deadline = time.monotonic() + seconds
    while True:
        assert fact(), f"no longer true: {_source(fact)}"
        if time.monotonic() > deadline:
            return
        time.sleep(min(LONGEST_PAUSE, seconds / 10))


def _source(fact: Callable[[], Any]) -> str:
    """The source of a function, or its repr where the source is missing."""
    try:
        return inspect.getsource(fact).strip()
    except (OSError, TypeError):
        return repr(fact)

"""A started execution, as a program that waits for it holds it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from functory.engine import backoff
from functory.engine.errors import WaitTimeout
from functory.engine.executions.outcomes import TERMINAL, result_or_raise
from functory.remote import rows

if TYPE_CHECKING:
    from functory.remote.client import RemoteFunctory

# A short execution is seen at once, a long one costs the server a request a second.
FIRST_LOOK = 0.02
LONGEST_PAUSE = 1.0
GROWTH = 1.5


class Handle:
    """A started execution: its ``id``, and its ``result``."""

    def __init__(self, owner: RemoteFunctory, id_: str) -> None:
        self._owner = owner
        self.id = id_

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises :class:`ExecutionFailed` or :class:`WaitTimeout` (``timeout`` seconds)."""
        return result_of(self._owner, self.execution(timeout))

    def execution(self, timeout: float | None = None) -> rows.Execution:
        """Wait for the end, and return the execution in whatever state. Raises :class:`WaitTimeout`."""
        for pause in pauses(self.id, timeout):
            found = finished(self._owner, self.id)
            if found is not None:
                return found
            time.sleep(pause)
        raise AssertionError("the pauses end with WaitTimeout")

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"


def finished(owner: RemoteFunctory, id_: str) -> rows.Execution | None:
    """The execution; None while it has not ended."""
    found = owner.executions.get(id_)
    return found if found.state in TERMINAL else None


def result_of(owner: RemoteFunctory, row: rows.Execution) -> Any:
    """The result of a finished execution. Raises :class:`ExecutionFailed` unless it succeeded."""
    if row.state == "succeeded":
        return owner.executions.result(row.id)
    error = row.error
    recorded = None if error is None else {
        "type": error.type, "message": _text(error.message), "traceback": _text(error.traceback),
    }  # fmt: skip
    return result_or_raise(
        {
            "id": row.id,
            "function": row.function,
            "version": row.version,
            "state": row.state,
            "error": recorded,
        }
    )


def pauses(id_: str, timeout: float | None) -> Iterator[float]:
    """The pauses between two looks, longer and longer. Raises :class:`WaitTimeout` after ``timeout`` seconds."""
    began = time.monotonic()
    for pause in pauses_without_end():
        left = None if timeout is None else began + timeout - time.monotonic()
        yield pause if left is None else max(0.0, min(pause, left))
        if left is not None and left <= 0:
            raise WaitTimeout(
                f"execution {id_} has not finished",
                f"waited {timeout:g} s; it goes on",
                f"functory execution wait {id_}",
            )


def pauses_without_end() -> Iterator[float]:
    """The pauses (seconds) between two looks at something that a server works on, longer and longer."""
    return (backoff.pause(look, FIRST_LOOK, LONGEST_PAUSE, growth=GROWTH) for look in itertools.count(1))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "(hidden: it needs the right payload:read)" if value else ""

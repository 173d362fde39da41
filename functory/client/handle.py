"""A started execution as a Python program holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functory.engine.executions import outcomes

if TYPE_CHECKING:
    from functory.client.functory import Functory


class Handle:
    """A started execution: its ``id``, and its ``result``."""

    def __init__(self, owner: Functory, id_: str, before_start: int | None = None) -> None:
        self._owner = owner
        self.id = id_
        # See Executions.wait_for_started.
        self._before_start = before_start

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises :class:`ExecutionFailed` or :class:`WaitTimeout` (``timeout`` seconds)."""
        executions = self._owner.executions
        if self._before_start is None:
            row = executions.wait([self.id], timeout)[0]
        else:
            row = executions.wait_for_started(self.id, self._before_start, timeout)
            # A finished execution stays as it is: the next look finds it at once.
            self._before_start = None
        return outcomes.result_or_raise(row)

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"

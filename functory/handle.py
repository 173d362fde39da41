"""A started execution as a Python program holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functory.engine.executions import store as execution_store

if TYPE_CHECKING:
    from functory.client import Functory


class Handle:
    """A started execution: its ``id``, and its ``result``."""

    def __init__(self, owner: Functory, id_: str) -> None:
        self._owner = owner
        self.id = id_

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises :class:`ExecutionFailed` or :class:`WaitTimeout` (``timeout`` seconds)."""
        return execution_store.result_or_raise(self._owner.executions.wait([self.id], timeout)[0])

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"

"""Log lines of an execution on the terminal, as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functory.client.functory import Functory

# The pause between two looks. A worker stores lines four times a second: together a line comes within half a second.
POLL_SECONDS = 0.1


class LiveLog:
    """Shows each line of an execution once, in their order, by ``show``."""

    def __init__(self, engine: Functory, id_: str, show: Callable[[Mapping[str, Any]], None]) -> None:
        self._engine = engine
        self._id = id_
        self._show = show
        self._after: tuple[int, int] | None = None

    @property
    def is_empty(self) -> bool:
        """True while no line was shown."""
        return self._after is None

    def show_new(self) -> None:
        """Show the lines since the last call."""
        for line in self._engine.executions.logs(self._id, after=self._after):
            self._after = line["fence"], line["seq"]
            self._show(line)

"""The retry after a failed batch: each item by itself, so that one bad item does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from functory.engine.errors import Unavailable

Item = TypeVar("Item")


def in_isolation(
    items: Iterable[Item], work: Callable[[Item], None], on_failure: Callable[[Item, Exception], None]
) -> None:
    """Call ``work`` for each item, and ``on_failure`` with the error for an item that fails.

    Raises :class:`Unavailable` at once: an unreachable database is no fault of an item.
    """
    for item in items:
        try:
            work(item)
        except Unavailable:
            raise
        except Exception as error:
            on_failure(item, error)

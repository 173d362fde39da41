"""Lists of rows that are read page by page, as far as they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import msgspec

R = TypeVar("R")

PAGE_SIZE = 100


class Page(msgspec.Struct, Generic[R], frozen=True):
    """One page: its rows, and the cursor of the next one; without one it is the last."""

    items: list[R]
    next: str | None = None


class Rows(Generic[R]):
    """Rows of a list, newest first where the list has an order in time. Every iteration reads anew."""

    def __init__(self, read: Callable[[str | None, int | None], Page[R]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[R]:
        return self._rows(PAGE_SIZE)

    def __repr__(self) -> str:
        return "Rows(…)"

    def first(self) -> R | None:
        """The first row; None for an empty list."""
        return next(self._rows(1), None)

    def all(self, *, limit: int | None = None) -> list[R]:
        """The rows as a list; the first ``limit`` of them."""
        if limit is None:
            return list(self)
        found: list[R] = []
        for row in self._rows(max(1, min(limit, PAGE_SIZE))):
            if len(found) >= limit:
                break
            found.append(row)
        return found

    def pages(self, size: int = PAGE_SIZE) -> Iterator[list[R]]:
        """The rows page by page: what is known of each answer, also when it has no row."""
        before: str | None = None
        while True:
            page = self._read(before, size)
            yield page.items
            if page.next is None:
                return
            before = page.next

    def _rows(self, size: int) -> Iterator[R]:
        for page in self.pages(size):
            yield from page

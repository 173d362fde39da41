"""Rows of the search."""

from __future__ import annotations

from functory.rows.base import Instant, Row


class SearchResult(Row):
    """What was found. ``kind`` is function, trigger, execution, event, version, call, model, or the kind of a
    source.
    """

    kind: str
    id: str | None
    name: str
    time: Instant | None

"""What the reader has sent in the last seconds: ids, so that reading the same time again finds only what is new."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from functory.engine.database.clock import lowest_id

# Seconds. A transaction that commits later than this after its ids were made may not be found any more.
LATEST_COMMIT = 40.0
# How often a look goes back that far, and how far it goes: a row may have been committed right after the look before.
LONG_LOOK_EVERY = 10.0
LONG_SECONDS = LATEST_COMMIT + LONG_LOOK_EVERY
# Ids are remembered a little longer than they are looked for.
_KEPT = timedelta(seconds=LONG_SECONDS + 5)


class Window:
    """The ids of the last seconds."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._pruned_at: datetime | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def new(self, ids: Iterable[str]) -> list[str]:
        """Return those ids that were not added before, in their order."""
        return [id_ for id_ in ids if id_ not in self._ids]

    def add(self, ids: Iterable[str]) -> None:
        """Remember ids."""
        self._ids.update(ids)

    def prune(self, now: datetime) -> None:
        """Forget ids that no look reads any more; at most every few seconds."""
        if self._pruned_at is not None and now - self._pruned_at < timedelta(seconds=5):
            return
        self._pruned_at = now
        least = lowest_id(now - _KEPT)
        self._ids = {id_ for id_ in self._ids if id_ >= least}

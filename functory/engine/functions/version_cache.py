"""Function versions that a router keeps from one transaction to the next.

The counter of function changes says whether they still hold. The caller reads it in the transaction that uses them: a
change that is committed before is never missed.
"""

from __future__ import annotations

from collections.abc import Iterable

from functory.engine.database.transaction import Tx
from functory.engine.functions import open_canaries, versions
from functory.engine.functions.dependencies import Reference
from functory.engine.functions.open_canaries import OpenCanary
from functory.engine.functions.version_row import StartVersion


class VersionCache:
    """The versions of one database that start executions, by reference. One thread uses it.

    ``canaries`` are the open ones of the functions that were loaded, by name: of references without a version.
    """

    def __init__(self) -> None:
        self.canaries: dict[str, OpenCanary] = {}
        self._changes = -1
        self._known: dict[Reference, StartVersion | None] = {}

    def load(self, tx: Tx, references: Iterable[Reference], changes: int) -> dict[Reference, StartVersion]:
        """Return those versions that exist (:func:`versions.load_starts`). ``changes`` is the counter's value as of
        this transaction.
        """
        if changes != self._changes:
            self._known, self.canaries, self._changes = {}, {}, changes
        wanted = set(references)
        missing = wanted - self._known.keys()
        if missing:
            found = versions.load_starts(tx, missing)
            self._known.update({reference: found.get(reference) for reference in missing})
            ids = {row.canary_id for (_, pin), row in found.items() if pin is None and row.canary_id}
            if ids:
                self.canaries |= open_canaries.load(tx, ids)
        return {reference: row for reference in wanted if (row := self._known[reference]) is not None}

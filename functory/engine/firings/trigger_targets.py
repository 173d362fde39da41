"""Trigger targets: which triggers run which function, kept in memory and read again when a trigger has changed."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping

from functory.engine.database.connection import Database
from functory.engine.firings import trigger_store
from functory.engine.functions import dependencies

Names = Mapping[str, tuple[str, ...]]


class TriggerTargets:
    """The names of the triggers by the function that they run. Safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._version = -1
        # The name and the function of each trigger, by its id.
        self._known: dict[str, tuple[str, str]] = {}
        self._names: Names = {}

    def by_function(self) -> Names:
        """Return the triggers of each function as they are now, by name."""
        with self._lock, self._database.read() as tx:
            version = trigger_store.set_version(tx)
            if version != self._version:
                for row in trigger_store.changed_since(tx, self._version):
                    if row.state == "deleted":
                        self._known.pop(row.id, None)
                    else:
                        function = dependencies.parse_reference(row.definition["function"])[0]
                        self._known[row.id] = (row.name, function)
                self._version = version
                self._names = _grouped(self._known)
            return self._names


def _grouped(known: Mapping[str, tuple[str, str]]) -> Names:
    found: dict[str, list[str]] = defaultdict(list)
    for name, function in sorted(known.values()):
        found[function].append(name)
    return {function: tuple(names) for function, names in found.items()}

"""The canaries of an engine, for programs and commands (:mod:`functory.engine.releases.canaries`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.access.scopes import Scope
from functory.engine.database.connection import Database
from functory.engine.database.schema.canaries import CANARY_OPEN
from functory.engine.database.transaction import Tx
from functory.engine.functions import canary_events
from functory.engine.functions.canary_assignment import Unit
from functory.engine.functions.registry import Functions
from functory.engine.releases import canaries, canary_evidence
from functory.engine.releases.canaries import USUAL_HOURS, USUAL_SHARE


class Canaries:
    """Starts canaries, reads them, and decides about them. Each call is one transaction, and raises as the function of
    :mod:`functory.engine.releases.canaries` with its name.

    They return rows of table ``canary`` without the key of the assignment. Each has ``counts`` of units (of the
    ``base`` and of the ``canary``), the ``evidence`` that its version is worse, and what is ``unmet`` for a promotion.
    """

    def __init__(self, database: Database, functions: Functions) -> None:
        self._database = database
        self._functions = functions

    def start(
        self,
        function: str,
        version: int,
        *,
        share: float = USUAL_SHARE,
        unit: Unit = "root",
        hours: float = USUAL_HOURS,
        author: str = "",
    ) -> dict[str, Any]:
        """Let a version have a ``share`` of the new executions, for at most ``hours``. Returns its canary."""
        self._functions.build_environment(function, version, author=author, again=False)
        with self._database.write() as tx:
            row = canaries.start(tx, function, version, share=share, unit=unit, hours=hours, author=author)
            return _shown(tx, row)

    def advance(
        self, function: str, *, share: float | None = None, hours: float | None = None, author: str = ""
    ) -> dict[str, Any]:
        """Raise the share, or let it go on for ``hours`` from now; one that was held goes on."""
        with self._database.write() as tx:
            return _shown(tx, canaries.advance(tx, function, share=share, hours=hours, author=author))

    def hold(self, function: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
        """Keep it until a person decides: it is not promoted. It is still rolled back by evidence."""
        with self._database.write() as tx:
            return _shown(tx, canaries.hold(tx, function, reason=reason, author=author))

    def promote(self, function: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
        """Make its version the active one."""
        with self._database.write() as tx:
            return _shown(tx, canaries.promote(tx, function, reason=reason, author=author))

    def roll_back(self, function: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
        """Take the executions back, and mark its version bad."""
        with self._database.write() as tx:
            return _shown(tx, canaries.roll_back(tx, function, reason=reason, author=author))

    def stop(self, function: str, *, reason: str = "", author: str = "") -> dict[str, Any]:
        """End it without a verdict."""
        with self._database.write() as tx:
            return _shown(tx, canaries.stop(tx, function, reason=reason, author=author))

    def get(self, function: str, scope: Scope = None) -> dict[str, Any]:
        """Return the newest canary of a function in ``scope``."""
        with self._database.read() as tx:
            return _shown(tx, canaries.get(tx, function, scope))

    def list(
        self,
        *,
        function: str | None = None,
        is_open: bool = False,
        before: str | None = None,
        limit: int = 50,
        scope: Scope = None,
    ) -> list[dict[str, Any]]:
        """Return canaries of functions in ``scope``, the newest first; ``before`` is the id of the last one of the page
        before.
        """
        with self._database.read() as tx:
            rows = canaries.list_(
                tx, function=function, is_open=is_open, before=before, limit=limit, scope=scope
            )
            return [_shown(tx, row) for row in rows]


def _shown(tx: Tx, row: Mapping[str, Any]) -> dict[str, Any]:
    worse = canary_evidence.evidence(row["stages"], row["tilts"])
    is_open = row["state"] in CANARY_OPEN
    return {
        **{name: value for name, value in row.items() if name != "salt"},
        "counts": canary_events.counts(row["stages"]),
        "evidence": worse,
        "unmet": canary_evidence.unmet(row["stages"], worse, tx.now) if is_open else [],
    }

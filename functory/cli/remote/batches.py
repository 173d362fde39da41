"""Batches of a server, as commands make and follow them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from functory.cli.remote.part import Part, plain
from functory.engine.database.clock import SystemClock
from functory.engine.executions.batches import BatchRequest, Found
from functory.engine.executions.listing import ExecutionFilter

# The names of the engine's filter that the API spells otherwise.
_NAMES = {
    "functions": "function",
    "states": "state",
    "triggers": "trigger",
    "causes": "cause",
    "text": "q",
}


class Batches(Part):
    """The batches of :class:`functory.engine.executions.batches.Batches`. The server's scheduler works on them."""

    def count(self, request: BatchRequest) -> Found:
        """What a batch would handle."""
        found = plain(self._server.batches.count(**_body(request)))
        return Found(found["count"], found["complete"], found["examples"])

    def create(self, request: BatchRequest, *, author: str) -> dict[str, Any]:
        """Make a batch. The server knows the author by the token."""
        return _row(self._server.batches.create(**_body(request)))

    def get(self, id_: str) -> dict[str, Any]:
        """A batch and how far it is."""
        return _row(self._server.batches.get(id_))

    def work_once(self) -> bool:
        """Nothing is done here."""
        return False

    def time_ago(self, seconds: float) -> datetime:
        """The time that was this number of seconds ago, by the clock of this machine."""
        return SystemClock().now() - timedelta(seconds=seconds)


def _body(request: BatchRequest) -> dict[str, Any]:
    chosen = (
        {"ids": list(request.ids or ())} if request.filter is None else {"filter": _filter(request.filter)}
    )
    return chosen | {
        "action": request.action,
        "latest": request.latest,
        "limit": request.limit,
        "reason": request.reason,
    }


def _filter(wanted: ExecutionFilter) -> dict[str, Any]:
    given = {name: value for name, value in asdict(wanted).items() if value not in (None, (), [], False)}
    return {
        _NAMES.get(name, name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in given.items()
    }


def _row(batch: Any) -> dict[str, Any]:
    row = plain(batch)
    return row | {"at_most": row["limit"]}

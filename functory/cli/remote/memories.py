"""Memories of a server, as commands read and change them."""

from __future__ import annotations

from typing import Any

from functory.cli.output.hidden import readable
from functory.cli.remote.part import Part, plain


class Memory(Part):
    """The memories of :class:`functory.engine.agents.memory.Memory`."""

    def add(
        self,
        text: str,
        *,
        kind: str,
        scope: str,
        owner: str,
        importance: float,
        days: float | None = None,
        author: str = "",
    ) -> dict[str, Any]:
        """Store a memory. Returns its row; ``added`` is False for a text that is there already."""
        agent, run = (owner if scope == one else None for one in ("agent", "run"))
        added = self._server.memories.add(
            text=text, kind=kind, agent=agent, run=run, importance=importance, days=days
        )
        return _readable(added)

    def list(
        self,
        *,
        scope: str | None = None,
        owner: str | None = None,
        kind: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Memories, newest first."""
        found = self._server.memories.list(kind=kind, **_place(scope, owner))
        return [_readable(row) for row in found.all(limit=limit)]

    def search(
        self, query: str, k: int, *, scope: str | None = None, owner: str | None = None
    ) -> list[dict[str, Any]]:
        """The memories that fit a query, the best first."""
        return [
            _readable(row) for row in self._server.memories.search(q=query, count=k, **_place(scope, owner))
        ]

    def get(self, id_: str) -> dict[str, Any]:
        """One memory."""
        return _readable(self._server.memories.get(id_))

    def forget(self, id_: str, *, author: str = "") -> None:
        """Delete a memory."""
        self._server.memories.forget(id_)

    def forget_source(
        self, *, execution: str | None = None, run_id: str | None = None, author: str = ""
    ) -> int:
        """Delete all memories from one source. Returns their number."""
        return self._server.memories.forget_source(execution=execution, run=run_id).count


def _place(scope: str | None, owner: str | None) -> dict[str, Any]:
    return {
        "agent": owner if scope == "agent" else None,
        "run": owner if scope == "run" else None,
        "shared": True if scope == "shared" else None,
    }


def _readable(row: Any) -> dict[str, Any]:
    return readable(plain(row), "text")

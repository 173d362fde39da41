"""Memory and tools as running code sees them: ``from functory import memory, tools``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from functory.workers.sandbox.protocol.frames import Memory as MemoryRequest
from functory.workers.sandbox.protocol.frames import Request
from functory.workers.sandbox.protocol.frames import Tools as ToolsRequest


class Engine(Protocol):
    """What sends requests to the worker."""

    def request(self, build: Callable[..., Request], **fields: Any) -> Any: ...


class Memory:
    """What the run, its agent, and all code remember."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def _do(self, op: str, **arguments: Any) -> Any:
        given = {name: value for name, value in arguments.items() if value is not None}
        return self._engine.request(MemoryRequest, op=op, arguments=given)

    def add(
        self,
        text: str,
        /,
        *,
        kind: str = "fact",
        scope: str = "agent",
        importance: float | None = None,
        days: float | None = None,
    ) -> dict[str, Any]:
        """Store a text: a ``fact``, an ``episode`` or a ``lesson`` of the ``agent``, of this ``run``, or ``shared`` by
        all. It is kept for ``days``, or for ever. Returns ``id``, ``importance`` (0 to 1), and ``added``: False for a
        text that is there already, and is more important now.
        """
        return self._do("add", text=text, kind=kind, scope=scope, importance=importance, days=days)

    def search(self, query: str, /, k: int = 5, *, scope: str | None = None) -> list[dict[str, Any]]:
        """Return the ``k`` memories that fit best, of one scope or of all: ``id``, ``text``, ``kind``, ``scope``,
        ``importance``, ``score``, ``created_at``, ``source``, and ``untrusted``: True for what came from outside.
        """
        return self._do("search", query=query, k=k, scope=scope)

    def forget(self, id: str, /) -> None:  # noqa: A002
        """Delete a memory that code has written."""
        self._do("forget", id=id)


class Tools:
    """The functions that the run may use as tools; for code without a run all functions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def search(self, query: str, /, k: int = 12) -> list[dict[str, Any]]:
        """Return the ``k`` tools that fit a goal best, as ``llm`` and ``step.model`` take them."""
        return self._engine.request(ToolsRequest, op="search", arguments={"query": query, "k": k})

    def schema(self, name: str, /) -> dict[str, Any]:
        """Return a tool: ``name``, ``description``, ``parameters``, ``effect`` and ``record``."""
        return self._engine.request(ToolsRequest, op="schema", arguments={"name": name})

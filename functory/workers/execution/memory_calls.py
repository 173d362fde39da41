"""Memory and tools of a running function: what its run remembers, and what its run may use.

Code of a run reaches the memories of that run, of its agent, and the shared ones; other code the shared ones alone. A
memory is untrusted when its text may come from outside: from hosts that the code, or a tool of its agent, may reach, or
from a memory that is untrusted itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from functory.engine.agents.embedding_calls import EmbeddingCalls
from functory.engine.agents.memory import Memory
from functory.engine.agents.memory_fields import SHARED, Origin, Place
from functory.engine.errors import Invalid, Refused
from functory.engine.executions.claims import Claim
from functory.engine.executions.runs.tool_search import Tools
from functory.engine.executions.store import Executions
from functory.workers.execution.model_calls import ModelCalls

T = TypeVar("T")

# What an operation on memories needs.
PERMISSION_OF = {"add": "memory:write", "forget": "memory:write", "search": "memory:read"}
_ARGUMENTS = {
    "add": frozenset({"text", "kind", "scope", "importance", "days"}),
    "search": frozenset({"query", "k", "scope"}),
    "forget": frozenset({"id"}),
}


class MemoryCalls:
    """The requests of one claim about memories and tools. ``retry`` repeats what an unavailable database refused."""

    def __init__(
        self,
        claim: Claim,
        executions: Executions,
        memory: Memory,
        tools: Tools,
        embeddings: EmbeddingCalls,
        model_calls: ModelCalls,
        retry: Callable[[Callable[[], Any]], Any],
    ) -> None:
        self._claim = claim
        self._executions = executions
        self._memory = memory
        self._tools = tools
        self._embeddings = embeddings
        self._model_calls = model_calls
        self._retry = retry
        self._has_read_untrusted = False

    def memory(self, op: str, arguments: Mapping[str, Any]) -> Any:
        """Add, search or forget memories."""
        if unknown := next((name for name in arguments if name not in _ARGUMENTS[op]), None):
            raise Invalid(f"memory.{op} has no argument {str(unknown)[:80]!r}")
        if op == "add":
            return self._add(**arguments)
        if op == "search":
            return self._search(**arguments)
        return self._forget(**arguments)

    def search_tools(self, query: Any, k: Any) -> list[dict[str, Any]]:
        """The tools that fit a goal best."""
        vector = self._vector("function", query)
        return self._retry(lambda: self._tools.search(query, k, names=self._tool_names, vector=vector))

    def schema(self, name: Any) -> dict[str, Any]:
        """One tool."""
        if not isinstance(name, str):
            raise Invalid("the operation needs a function's name", f"got {str(name)[:80]!r}")
        return self._retry(lambda: self._tools.schema(name, names=self._tool_names))

    @property
    def works_for_a_run(self) -> bool:
        """Whether the code is a step or a tool of a run, or what those have started."""
        return self._run is not None

    @property
    def tool_names(self) -> frozenset[str]:
        """The functions that the run may use as tools."""
        return frozenset(self._tool_names or ())

    def _add(self, text: Any = None, scope: Any = "agent", **fields: Any) -> dict[str, Any]:
        place = self._place(scope)
        origin = Origin(
            author=f"function {self._claim.row.function} v{self._claim.row.version}",
            execution_id=self._claim.id,
            run_id=None if self._run is None else self._run["id"],
            untrusted=bool(self._claim.grants.hosts) or self._has_read_untrusted or self._tools_read_outside,
        )
        row = self._retry(
            lambda: self._memory.add(
                text, scope=place.scope, owner=place.owner, origin=origin, cause=self._claim.cause, **fields
            )
        )
        return {name: row[name] for name in ("id", "importance", "added")}

    def _search(self, query: Any = None, k: Any = 5, scope: Any = None) -> list[dict[str, Any]]:
        places = self._places if scope is None else [self._place(scope)]
        vector = self._vector("memory", query)
        rows = self._retry(lambda: self._memory.search(query, k, places=places, vector=vector))
        if any(row["untrusted"] for row in rows):
            self._has_read_untrusted = True
        return [_public(row) for row in rows]

    def _forget(self, id: Any = None) -> None:  # noqa: A002
        if not isinstance(id, str):
            raise Invalid("the operation needs a memory's id", f"got {str(id)[:80]!r}")
        self._retry(
            lambda: self._memory.forget(
                id,
                author=f"function {self._claim.row.function} v{self._claim.row.version}",
                places=self._places,
                cause=self._claim.cause,
            )
        )

    def _vector(self, kind: str, query: Any) -> tuple[str, bytes] | None:
        """The vector of a query, where there are vectors to compare it with."""
        if not isinstance(query, str) or not query.strip():
            return None
        model = self._retry(lambda: self._embeddings.model_of(kind))
        vector = None if model is None else self._model_calls.query_vector(model, query, self._embeddings)
        return None if model is None or vector is None else (model, vector)

    @cached_property
    def _run(self) -> Mapping[str, Any] | None:
        return self._retry(lambda: self._executions.run_of(self._claim.id))

    @cached_property
    def _tools_read_outside(self) -> bool:
        own = self._run
        return own is not None and self._retry(lambda: self._executions.run_reads_outside(own["id"]))

    @cached_property
    def _tool_names(self) -> list[str] | None:
        return (
            None if self._run is None else self._retry(lambda: self._executions.tools_of_run(self._claim.id))
        )

    @cached_property
    def _places(self) -> list[Place]:
        own = self._run
        if own is None:
            return [SHARED]
        agent = [] if own["agent"] is None else [Place("agent", own["agent"])]
        return [Place("run", own["id"]), *agent, SHARED]

    def _place(self, scope: Any) -> Place:
        if scope not in ("run", "agent", "shared"):
            raise Invalid(f"wrong scope {str(scope)[:80]!r}", "it is one of run, agent, shared")
        found = next((place for place in self._places if place.scope == scope), None)
        if found is None:
            raise Refused(
                f"there is no {scope} whose memory this could be",
                "this execution works for no run of an agent"
                if self._run is None
                else "this run belongs to no agent",
                'memory.add(text, scope="shared") stores what all code may read',
            )
        return found


def _public(row: Mapping[str, Any]) -> dict[str, Any]:
    """A memory as code sees it."""
    names = ("id", "text", "kind", "scope", "importance", "score", "untrusted")
    source = {"execution_id": row["source_execution_id"], "run_id": row["run_id"], "author": row["author"]}
    return {
        **{name: row[name] for name in names},
        "created_at": row["created_at"].isoformat(),
        "source": source,
    }

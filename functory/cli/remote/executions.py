"""Executions of a server as commands read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from functory.cli.output.hidden import HIDDEN, readable
from functory.cli.remote.part import Part, WholeRow, here_only, ordered, plain
from functory.engine.errors import NotFound, Refused
from functory.remote import handle as handles
from functory.remote import rows

# The fields that the engine's rows have, in their order.
_ERROR = ("type", "message", "traceback", "frames")
_ATTEMPT = (
    "fence", "number", "worker_id", "isolation", "sandbox", "started_at", "ended_at", "outcome", "error",
    "duration_seconds", "waited_seconds", "queued_seconds",
)  # fmt: skip
_SPAN = (
    "fence", "seq", "parent_seq", "function", "version", "input", "output", "error", "offset_seconds",
    "duration_seconds",
)  # fmt: skip
_LOG_LINE = ("fence", "seq", "stream", "level", "text", "offset_seconds")
_SLOT = ("group", "capacity", "taken_at", "ahead", "running")
_TIMES = ("time", "created_at", "run_at", "started_at", "finished_at", "expires_at")


class Executions(Part):
    """The executions of :class:`functory.engine.executions.store.Executions`."""

    def list(
        self,
        *,
        function: str | None = None,
        state: str | None = None,
        root_id: str | None = None,
        parent_id: str | None = None,
        unresolved: bool = False,
        before: str | None = None,
        limit: int = 50,
        payloads: bool = False,
    ) -> list[dict[str, Any]]:
        """Executions, newest first. ``before`` is the id of one."""
        found = self._server.executions.list(
            function=function or (),
            state=state or (),
            root=root_id,
            parent=parent_id,
            unresolved=unresolved or None,
            until=made_before(before),
        )
        wanted: list[dict[str, Any]] = []
        most = min(limit, 100) if payloads else limit
        for row in found if before is None else older(found, before):
            wanted.append(self._whole(row) if not payloads else self.get(row.id))
            if len(wanted) == most:
                break
        return wanted

    def get(self, id_: str) -> dict[str, Any]:
        """One execution with its input and result."""
        row = self._detail(id_)
        return row | {
            "input": self._payload(id_, self._server.executions.input),
            "result": self._payload(id_, self._server.executions.result)
            if row["result_bytes"] is not None
            else None,
        }

    def start(
        self,
        function: str,
        make_input: Mapping[str, Any] | Callable[[Any, Any], Mapping[str, Any]],
        *,
        version: int | None = None,
        cause: str = "manual",
        author: str = "",
    ) -> dict[str, Any]:
        """Start a function. Its cause is the API, and its author the user of the token."""
        if callable(make_input):
            found = (
                self._server.functions.get(function)
                if version is None
                else self._server.functions.version(function, version)
            )
            shown = plain(found)
            make_input = make_input(shown["parameters"], shown["input_schema"])
        row = self._server.executions.start(function=function, input=make_input, version=version)
        return self._whole(row)

    def wait(self, ids: Sequence[str], timeout: float | None = None) -> list[dict[str, Any]]:
        """Wait for the end of executions. Raises :class:`WaitTimeout`."""
        for id_ in ids:
            handles.Handle(self._server, id_).execution(timeout)
        return [self.get(id_) for id_ in ids]

    def cancel(self, id_: str, *, tree: bool = False, author: str = "") -> dict[str, Any]:
        """Cancel an execution, or all of its tree."""
        return self._whole(self._server.executions.cancel(id_, tree=tree))

    def retry(self, id_: str, *, latest: bool = False, author: str = "") -> dict[str, Any]:
        """Run an execution again that did not succeed."""
        return self._whole(self._server.executions.retry(id_, latest=latest))

    def replay(self, id_: str, *, latest: bool = False, author: str = "") -> dict[str, Any]:
        """Run a finished execution again."""
        return self._whole(self._server.executions.replay(id_, latest=latest))

    def attempts(self, id_: str) -> list[dict[str, Any]]:
        """The attempts, the first one first."""
        return [ordered(with_error(row), _ATTEMPT) for row in plain(self._server.executions.attempts(id_))]

    def spans(self, id_: str) -> list[dict[str, Any]]:
        """The functions that the execution called."""
        return [ordered(with_error(row), _SPAN) for row in plain(self._server.executions.spans(id_))]

    def logs(self, id_: str, *, after: tuple[int, int] | None = None) -> list[dict[str, Any]]:
        """What the execution has printed and logged; ``after`` a line, by its fence and number."""
        found: list[dict[str, Any]] = []
        # An answer has a bounded number of lines.
        while lines := self._server.executions.logs(
            id_, after=None if after is None else f"{after[0]}.{after[1]}"
        ):
            found += [ordered(row, _LOG_LINE) for row in plain(lines)]
            after = lines[-1].fence, lines[-1].seq
        return found

    def slot_requests(self, id_: str) -> list[dict[str, Any]]:
        """The slots that it has or waits for."""
        return [ordered(row, _SLOT) for row in plain(self._server.executions.get(id_).slots)]

    def _whole(self, row: rows.ExecutionRow) -> dict[str, Any]:
        return WholeRow(plain(row), lambda: self._detail(row.id))

    def _detail(self, id_: str) -> dict[str, Any]:
        return with_error(plain(self._server.executions.get(id_)))

    def _payload(self, id_: str, read: Callable[[str], Any]) -> Any:
        try:
            return read(id_)
        except Refused:
            return HIDDEN
        except NotFound:
            return None


@dataclass
class Node:
    """As :class:`functory.engine.executions.lineage.Node`."""

    kind: str
    id: str
    row: Mapping[str, Any]
    children: list[Node]
    shown: Mapping[str, Any]

    def as_json(self) -> Mapping[str, Any]:
        """The node and everything below it, as the server sent it."""
        return self.shown

    def walk(self) -> Iterator[Node]:
        """This node and all nodes below it, depth first."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


@dataclass(frozen=True)
class Tree:
    """As :class:`functory.engine.executions.lineage.Tree`."""

    root_id: str
    nodes: list[Node]
    truncated: bool
    budget: tuple[int, int] | None


class Lineage(Part):
    """Causes and trees."""

    def cause(self, id_: str) -> dict[str, Any]:
        """What :meth:`functory.engine.executions.lineage.Lineage.cause` returns."""
        executions = Executions(self._server)
        row = executions.get(id_)
        if row["error"] is not None:
            row["error"] = readable(row["error"], "message", "traceback")
        event = self._event(row["event_id"])
        return {
            "execution": row,
            "event": event,
            "events": [found for one in row["events"] if (found := self._event(one)) is not None]
            # One event is named as the cause; several together are listed.
            if len(row["events"]) > 1
            else [],
            "firing": {
                "trigger": row["trigger"],
                "trigger_id": row["trigger_id"],
                "trigger_version": row["trigger_version"],
            }
            if row["event_id"] and row["trigger_id"]
            else None,
            "parent": executions.get(row["parent_id"]) if row["parent_id"] else None,
            "waits_for": None,
            "undoes": row["undoes"],
            "plan": row["compensations"],
            "pruned": self._gone(row["replay_of"]),
            "stopped": [
                one
                | {
                    "trigger_version": one["version"],
                    "type": one["event_type"],
                    "limit_value": one["limit"],
                    "actual_value": one["value"],
                }
                for one in plain(self._server.executions.why(id_).suppressed)
            ],
        }

    def tree(self, id_: str, *, whole: bool = True) -> Tree:
        """The tree of an execution or event."""
        found = self._server.trees.nodes(id_, below=not whole)
        budget = None if found.budget is None else (found.budget.used, found.budget.maximum)
        return Tree(found.root_id, [_node(node) for node in found.nodes], found.cut, budget)

    def change_budget(self, id_: str, maximum: int, *, author: str = "") -> str:
        """Change how many executions a tree may cause. Returns the id of its root."""
        root = self._server.trees.get(id_).root_id
        self._server.trees.budget(root, maximum=maximum)
        return root

    def open_work(self, root_id: str | None = None) -> dict[str, int]:
        """The unfinished work of all roots."""
        if root_id is not None:
            raise here_only("the open work of one root")
        return self._server.health.get().open

    def firings(self, event_id: str) -> list[dict[str, Any]]:
        """The recorded decisions about an event."""
        return [
            row
            | {
                "trigger_version": row["version"],
                "limit_value": row["limit"],
                "actual_value": row["value"],
            }
            for row in plain(self._server.events.get(event_id).firings)
        ]

    def _event(self, id_: str | None) -> dict[str, Any] | None:
        if id_ is None:
            return None
        try:
            return plain(self._server.events.get(id_))
        except NotFound:
            return None

    def _gone(self, id_: str | None) -> set[str]:
        if id_ is None:
            return set()
        try:
            self._server.executions.get(id_)
        except NotFound:
            return {id_}
        return set()


class Compensations(Part):
    """Compensations that stopped."""

    def retry(self, id_: str, *, author: str = "") -> dict[str, Any]:
        """Try the failed step again."""
        return plain(self._server.executions.compensate(id_))

    def skip(self, id_: str, *, author: str = "", reason: str = "") -> dict[str, Any]:
        """Leave the failed step as it is."""
        return plain(self._server.executions.compensate(id_, skip=True, reason=reason))


def with_error(row: dict[str, Any]) -> dict[str, Any]:
    """The row whose error has the fields that were recorded."""
    error = row.get("error")
    return row if error is None else row | {"error": _only_given(ordered(error, _ERROR))}


def _only_given(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def older(found: Any, before: str) -> Any:
    """The rows whose ids are smaller. Ids of one kind sort by time, as the rows do."""
    return (row for row in found if row.id < before)


def made_before(id_: str | None) -> str | None:
    """A time just after the one at which an id was made: a UUID of version 7 begins with it (RFC 9562)."""
    if id_ is None:
        return None
    milliseconds = UUID(id_).int >> 80
    return datetime.fromtimestamp((milliseconds + 1) / 1000, UTC).isoformat()


def _node(shown: Mapping[str, Any]) -> Node:
    row = _NodeRow({name: _time(name, value) for name, value in shown.items() if name != "children"})
    return Node(shown["kind"], shown["id"], row, [_node(child) for child in shown["children"]], shown)


def _time(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) and name in _TIMES else value


class _NodeRow(dict[str, Any]):
    """A row whose columns without a value were not sent."""

    def __missing__(self, name: str) -> None:
        return None

"""Agents of a server, their runs and the questions of these, as commands read and change them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from functory.cli.output.hidden import HIDDEN, readable
from functory.cli.remote.executions import with_error
from functory.cli.remote.models import in_nano
from functory.cli.remote.part import Part, plain
from functory.engine.errors import WaitTimeout
from functory.remote import handle as handles
from functory.remote import rows

# The rows of runs that begin or have ended have no numbers of their trees.
_OF_TREE = ("max_steps", "spent", "usd_spent", "usd_limit")


class Agents(Part):
    """The agents of :class:`functory.engine.agents.agents.Agents`."""

    def add(self, name: str, fields: Mapping[str, Any], *, author: str = "") -> dict[str, Any]:
        """Add an agent. Returns its row."""
        return plain(self._server.agents.add(name=name, **fields))

    def update(self, name: str, changes: Mapping[str, Any], *, author: str = "") -> dict[str, Any]:
        """Change fields of an agent. Returns its row."""
        return plain(self._server.agents.update(name, **changes))

    def set_state(self, name: str, state: str, *, author: str = "") -> None:
        """Enable, disable or remove an agent."""
        agents = self._server.agents
        {"enabled": agents.enable, "disabled": agents.disable, "removed": agents.remove}[state](name)

    def list(self) -> list[dict[str, Any]]:
        """All agents, by name."""
        return plain(self._server.agents.list())

    def get(self, name: str) -> dict[str, Any]:
        """One agent."""
        return plain(self._server.agents.get(name))


class Runs(Part):
    """The runs and questions of :class:`functory.engine.executions.runs.service.Runs`."""

    def start(
        self,
        agent: str,
        goal: str,
        *,
        author: str = "",
        memo: Mapping[str, Any] | None = None,
        user: str | None = None,
        limits: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Start a run. Returns its row."""
        found = self._server.runs.start(
            agent, goal=goal, memo=memo, user=user, limits=limits, idempotency_key=idempotency_key
        )
        return _without_tree(_run(found))

    def get(self, id_: str) -> dict[str, Any]:
        """A run with what it waits for."""
        return _run(self._server.runs.get(id_))

    def list(
        self, *, agent: str | None = None, state: str | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        """Runs, newest first."""
        found = self._server.runs.list(agent=agent, state=state)
        return [readable(plain(row), "goal") for row in found.all(limit=limit)]

    def steps(self, id_: str, *, after: int = 0) -> list[dict[str, Any]]:
        """The steps of a run behind number ``after``, the first one first."""
        return [_step(row) for row in self._server.runs.steps(id_, from_step=after + 1)]

    def pause(self, id_: str, *, author: str = "") -> dict[str, Any]:
        """Start no further step of a run."""
        return _run(self._server.runs.pause(id_))

    def resume(self, id_: str, *, author: str = "") -> dict[str, Any]:
        """Let a paused run go on."""
        return _run(self._server.runs.resume(id_))

    def cancel(self, id_: str, *, author: str = "") -> dict[str, Any]:
        """End a run."""
        return _run(self._server.runs.cancel(id_))

    def wait(self, id_: str, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the end of a run. Raises :class:`WaitTimeout`."""
        found = self._server.runs.get(id_)
        try:
            for pause in handles.pauses(id_, timeout):
                if found.ended_at is not None:
                    return _without_tree(_run(found))
                time.sleep(pause)
                found = self._server.runs.get(id_)
        except WaitTimeout:
            raise WaitTimeout(f"run {id_} is {found.state}", f"waited {timeout:g} s; it goes on") from None
        raise AssertionError("the pauses end with WaitTimeout")

    def questions(self, *, state: str = "pending", limit: int = 50) -> list[dict[str, Any]]:
        """Questions: those that wait oldest first, all others newest first."""
        return [_question(row) for row in self._server.approvals.list(state=state).all(limit=limit)]

    def question(self, id_: str) -> dict[str, Any]:
        """One question."""
        return _question(self._server.approvals.get(id_))

    def answer(self, id_: str, value: Any, *, feedback: str = "", author: str = "") -> None:
        """Answer a question."""
        self._server.approvals.answer(id_, answer=value, feedback=feedback)

    def approve(
        self,
        id_: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        always: Sequence[str] | None = None,
        author: str = "",
    ) -> None:
        """Let a run use a tool."""
        self._server.approvals.approve(id_, arguments=arguments, always=always)

    def reject(self, id_: str, *, feedback: str = "", author: str = "") -> None:
        """Refuse what a run has asked for."""
        self._server.approvals.reject(id_, feedback=feedback)


def _run(found: rows.Run) -> dict[str, Any]:
    row = readable(plain(found), "goal")
    spent = row["spent"] and in_nano(row["spent"], "usd_limit", "usd_spent", "usd_reserved")
    return row | {"spent": spent, "questions": [_question(one) for one in found.questions]}


def _without_tree(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _OF_TREE}


def _step(found: rows.Step) -> dict[str, Any]:
    row = with_error(in_nano(plain(found), "cost"))
    return row if row["error"] is None else row | {"error": readable(row["error"], "message")}


def _question(found: rows.Question) -> dict[str, Any]:
    row = readable(plain(found), "goal", "feedback")
    payload = readable(row["payload"], "question", "description")
    if payload.get("choices") == HIDDEN:
        payload["choices"] = None
    return row | {"payload": payload}

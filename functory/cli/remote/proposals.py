"""Proposals of a server and its gate, as commands read and change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.cli.output.hidden import HIDDEN, readable
from functory.cli.remote.part import Part, ordered, plain

# The fields that the engine's rows have, in their order.
_RIGHTS = ("effect", "adds", "removes", "packages", "dependents", "replaces", "widens")
_RULES = ("tests", "mutants", "approval", "canary", "days")
_APPLIES_TO = ("functions", "labels")


class Proposals(Part):
    """The proposals of :class:`functory.engine.releases.proposals.Proposals`."""

    def create(self, source: str, *, author: str = "", **fields: Any) -> dict[str, Any]:
        """Propose a version. Returns what :meth:`get` does."""
        return _proposal(self._server.proposals.create(source=source, **fields))

    def get(self, id_: str) -> dict[str, Any]:
        """A proposal with its checks and decisions."""
        return _proposal(self._server.proposals.get(id_))

    def list(
        self, *, state: str | None = None, function: str | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        """Proposals, newest first."""
        found = self._server.proposals.list(state=state, function=function)
        return [_listed(row) for row in found.all(limit=limit)]

    def approve(
        self, id_: str, *, question_id: str | None = None, feedback: str = "", author: str = ""
    ) -> dict[str, Any]:
        """Approve a proposal, or decide exactly one question about it."""
        if question_id is not None:
            self._server.approvals.approve(question_id)
            return self.get(id_)
        return _proposal(self._server.proposals.approve(id_, feedback=feedback))

    def reject(
        self, id_: str, *, question_id: str | None = None, feedback: str = "", author: str = ""
    ) -> dict[str, Any]:
        """Reject a proposal, as :meth:`approve`."""
        if question_id is not None:
            self._server.approvals.reject(question_id, feedback=feedback)
            return self.get(id_)
        return _proposal(self._server.proposals.reject(id_, feedback=feedback))

    def withdraw(self, id_: str, *, author: str = "") -> dict[str, Any]:
        """End a proposal that is not needed any more."""
        return _proposal(self._server.proposals.withdraw(id_))


class GatePolicies(Part):
    """The policies of :class:`functory.engine.releases.gate_policies.GatePolicies`."""

    def set(
        self,
        name: str,
        rules: Mapping[str, Any],
        *,
        functions: Sequence[str] = (),
        labels: Sequence[str] = (),
        author: str = "",
    ) -> dict[str, Any]:
        """Make or replace a policy. Returns its row."""
        made = self._server.gate_policies.set(
            name, rules=rules, functions=list(functions), labels=list(labels)
        )
        return _policy(made)

    def list(self) -> list[dict[str, Any]]:
        """The policies by name."""
        return [_policy(row) for row in self._server.gate_policies.list()]

    def get(self, name: str) -> dict[str, Any]:
        """One policy."""
        return _policy(self._server.gate_policies.get(name))

    def remove(self, name: str, *, author: str = "") -> None:
        """Remove a policy."""
        self._server.gate_policies.remove(name)

    def rules_for(self, name: str) -> dict[str, Any]:
        """The rules for proposals of a function, and the policies that they come from."""
        found = plain(self._server.functions.gate(name))
        return {"rules": ordered(found["rules"], _RULES), "policies": found["policies"]}


def _listed(found: Any) -> dict[str, Any]:
    row = readable(plain(found), "reason", "description")
    return row | {"rights": ordered(row["rights"], _RIGHTS)}


def _proposal(found: Any) -> dict[str, Any]:
    row = _listed(found)
    checks = [one | {"report": _without_hidden(one["report"])} for one in row["checks"]]
    return row | {
        "rules": ordered(row["rules"], _RULES),
        "checks": checks,
        "decisions": [readable(one, "feedback") for one in row["decisions"]],
    }


def _policy(found: Any) -> dict[str, Any]:
    row = plain(found)
    # The engine keeps only what was given.
    applies_to = {name: value for name, value in ordered(row["applies_to"], _APPLIES_TO).items() if value}
    return row | {"applies_to": applies_to, "rules": ordered(row["rules"], _RULES)}


def _without_hidden(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if value != HIDDEN}

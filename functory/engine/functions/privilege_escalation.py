"""No more rights from inside: what a running function may save, activate or roll back to.

Code that changes stored functions decides what will run. It may pass on what it has itself, and nothing else:
no version that it makes or activates may declare more or have been allowed more, and no version may be linked
into a process that has more, for functions that are linked together share their grants. So the dependencies
of the changed version count, and every version that has it as a dependency, with that one's dependencies.
What the changing execution has stands in its attempt's row, where the claim wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.access.grants import NOTHING, Grants
from functory.engine.database.schema import attempt, function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.errors import Refused
from functory.engine.events.causation import Cause
from functory.engine.functions import grant_approvals

# Well below the number of variables that one statement of SQLite takes.
_CHUNK = 500

Node = tuple[str, int]
"""A function's name and a version's number."""


def check(tx: Tx, cause: Cause | None, version: Mapping[str, Any], *, active: bool = True) -> None:
    """Refuse a change by a running execution that would give rights to ``version`` which the execution has not.

    ``version`` has ``name``, ``number``, ``sha256``, ``dependencies`` and what it declares; ``active`` says
    whether it will be the active one. Nothing is asked of a change that people make (no ``cause``).
    Raises :class:`Refused`, naming the difference and where it comes from.
    """
    if cause is None:
        return
    has = _grants_of_cause(tx, cause)
    for node, declared in _linked_versions(tx, version, active):
        missing = has.missing(declared)
        if missing:
            own = f"{version['name']} v{version['number']}"
            through = "" if node == (version["name"], version["number"]) else f", linked with {_named(node)},"
            raise Refused(
                f"{cause.function} may not give {own} more rights than it has itself",
                f"{own}{through} would have " + ", ".join(missing),
                "let somebody outside of an execution save it, or declare the same for the function that saves",
            )


def _grants_of_cause(tx: Tx, cause: Cause) -> Grants:
    row = tx.first(
        sa.select(attempt.c.sandbox).where(
            attempt.c.execution_id == cause.execution_id, attempt.c.fence == cause.fence
        )
    )
    return Grants.from_json((row["sandbox"] or {}).get("grants")) if row else NOTHING


def _linked_versions(tx: Tx, version: Mapping[str, Any], active: bool) -> Iterable[tuple[Node, Grants]]:
    """Every version that may share a process with ``version``, itself first, with all that it may ever have."""
    own: Node = (version["name"], version["number"])
    needs, current = _graph(tx)
    needs[own] = [(d["name"], d["pin"]) for d in version["dependencies"]]
    if active:
        current[own[0]] = own[1]

    def linked(node: Node) -> list[Node]:
        found = [(name, pin or current.get(name)) for name, pin in needs.get(node, ())]
        return [(name, number) for name, number in found if number is not None]

    users: dict[Node, list[Node]] = {}
    for node in needs:
        for below in linked(node):
            users.setdefault(below, []).append(node)
    together = _closure(_closure([own], lambda node: users.get(node, [])), linked)
    rows = _rights(tx, together - {own}) | {own: version}
    widened = grant_approvals.load(tx, ((row["name"], row["sha256"]) for row in rows.values()))
    order = sorted(rows, key=lambda node: (node != own, node))
    return [
        (node, Grants.declared(rows[node]) | widened[rows[node]["name"], rows[node]["sha256"]])
        for node in order
    ]


def _closure(start: Iterable[Node], following: Any) -> set[Node]:
    found = set(start)
    waiting = list(found)
    while waiting:
        new = [node for node in following(waiting.pop()) if node not in found]
        found.update(new)
        waiting.extend(new)
    return found


def _graph(tx: Tx) -> tuple[dict[Node, list[tuple[str, int | None]]], dict[str, int]]:
    """What each version with dependencies needs, and which version of each function is active."""
    rows = tx.rows(
        sa.select(function.c.name, function_version.c.number, function_version.c.dependencies)
        .join(function, function.c.id == function_version.c.function_id)
        .where(function_version.c.dependencies != [])
    )
    needs = {
        (row["name"], row["number"]): [(d["name"], d["pin"]) for d in row["dependencies"]] for row in rows
    }
    active = tx.pairs(sa.select(function.c.name, function.c.active).where(function.c.active.is_not(None)))
    return needs, active


def _rights(tx: Tx, nodes: Iterable[Node]) -> dict[Node, Mapping[str, Any]]:
    """The rows of these versions, as far as rights go. One that does not exist has none."""
    listed = sorted(nodes)
    found: dict[Node, Mapping[str, Any]] = {}
    columns = [function_version.c[name] for name in ("number", "sha256", "secrets", "permissions", "grants")]
    for start in range(0, len(listed), _CHUNK):
        rows = tx.rows(
            sa.select(function.c.name, *columns)
            .join(function, function.c.id == function_version.c.function_id)
            .where(sa.tuple_(function.c.name, function_version.c.number).in_(listed[start : start + _CHUNK]))
        )
        found |= {(row["name"], row["number"]): row for row in rows}
    return found


def _named(node: Node) -> str:
    return f"{node[0]} v{node[1]}"

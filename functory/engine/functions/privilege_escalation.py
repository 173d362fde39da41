"""Privilege-escalation check: which versions a running function may save, activate or roll back to.

A running function can pass on only the rights that it has itself. A version that it saves or activates may declare no
more, and an operator may have granted it no more. Linked functions share one process and its grants, so the check
covers the dependencies of the changed version, every version that depends on it, and the dependencies of those.
The claim wrote the rights of the changing execution into its attempt's row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.access.grants import NOTHING, RIGHTS, Grants
from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import attempt, function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow
from functory.engine.errors import Refused
from functory.engine.events.causation import Cause
from functory.engine.functions import grant_approvals
from functory.engine.functions.version_row import VersionRow, columns_of

# Well below the number of variables that one statement of SQLite takes.
_CHUNK = 500

Node = tuple[str, int]
"""A function's name and a version's number."""


class VersionRights(TypedRow, frozen=True):
    """What a version declares that it may do, and the hash of its content, to which operators grant more."""

    name: str
    number: int
    sha256: str
    secrets: Sequence[str]
    permissions: Sequence[str]
    grants: Mapping[str, Any]

    @classmethod
    def of(cls, version: VersionRow) -> VersionRights:
        """Return the rights of a stored version."""
        return cls(*(getattr(version, name) for name in cls.__struct_fields__))

    @property
    def node(self) -> Node:
        return self.name, self.number

    @property
    def content(self) -> grant_approvals.VersionKey:
        return self.name, self.sha256


def check(
    tx: Tx,
    cause: Cause | None,
    version: VersionRights,
    dependencies: Iterable[Mapping[str, Any]],
    *,
    active: bool = True,
) -> None:
    """Refuse a change by a running execution that gives ``version`` rights that the execution lacks.

    ``active`` is True when it becomes the active version. A change without a ``cause``, by a person, is not checked.
    Raises :class:`Refused` with the missing rights and the version that brings them.
    """
    if cause is None:
        return
    has = _grants_of_cause(tx, cause)
    for node, declared in _linked_versions(tx, version, dependencies, active):
        missing = has.missing(declared.only(RIGHTS))
        if missing:
            own = _named(version.node)
            through = "" if node == version.node else f", linked with {_named(node)},"
            raise Refused(
                f"{cause.function} may not give {own} more rights than it has itself",
                f"{own}{through} would have " + ", ".join(missing),
                "save it outside of an execution, or declare the same rights for the function that saves",
            )


def _grants_of_cause(tx: Tx, cause: Cause) -> Grants:
    row = tx.first(
        sa.select(attempt.c.sandbox).where(
            attempt.c.execution_id == cause.execution_id, attempt.c.fence == cause.fence
        )
    )
    return Grants.from_json((row["sandbox"] or {}).get("grants")) if row else NOTHING


def _linked_versions(
    tx: Tx, version: VersionRights, dependencies: Iterable[Mapping[str, Any]], active: bool
) -> Iterable[tuple[Node, Grants]]:
    """Yield every version that may share a process with ``version``, itself first, with its declared and approved
    rights.
    """
    own = version.node
    needs, current = _graph(tx)
    needs[own] = [(d["name"], d["pin"]) for d in dependencies]
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
    widened = grant_approvals.load(tx, (row.content for row in rows.values()))
    order = sorted(rows, key=lambda node: (node != own, node))
    return [
        (row.node, Grants.declared(row.grants, row.secrets, row.permissions) | widened[row.content])
        for row in map(rows.__getitem__, order)
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
    """Return the dependencies of each version, and the active version of each function."""
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


def _rights(tx: Tx, nodes: Iterable[Node]) -> dict[Node, VersionRights]:
    """Return the rights of these versions; versions that do not exist are left out."""
    listed = sorted(nodes)
    found: dict[Node, VersionRights] = {}
    for start in range(0, len(listed), _CHUNK):
        rows = tx.all(
            VersionRights,
            sa.select(*columns_of(VersionRights))
            .join(function, function.c.id == function_version.c.function_id)
            .where(one_of_keys((function.c.name, function_version.c.number), listed[start : start + _CHUNK])),
        )
        found |= {row.node: row for row in rows}
    return found


def _named(node: Node) -> str:
    return f"{node[0]} v{node[1]}"

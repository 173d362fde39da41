"""Pages of functions and of their versions, without their sources and schemas.

A scope (:mod:`functory.engine.access.scopes`) limits which functions are seen: a function outside of it is not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.connection import Database
from functory.engine.database.schema import function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound, Refused
from functory.engine.functions import version_marks, versions

STATES = ("enabled", "disabled")

_SLIM: tuple[sa.Column[Any], ...] = (
    function_version.c.id,
    function_version.c.function_id,
    function_version.c.number,
    function_version.c.sha256,
    function_version.c.source_sha256,
    function_version.c.imports,
    function_version.c.declared,
    function_version.c.secrets,
    function_version.c.permissions,
    function_version.c.grants,
    function_version.c.metadata,
    function_version.c.warnings,
    function_version.c.findings,
    function_version.c.environment_error,
    function_version.c.cause_execution_id,
    function_version.c.author,
    function_version.c.created_at,
    function.c.name,
    function.c.state,
    function.c.active,
    function.c.latest,
    function.c.labels,
    function.c.log_policy,
    function.c.updated_at,
)


def list_functions(
    database: Database,
    *,
    scope: Scope = None,
    text: str | None = None,
    states: Sequence[str] = (),
    label: str | None = None,
    after: str | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Return functions by name, each with slim columns of its active (else latest) version: one more than ``limit``
    when there are more. ``text`` is a part of the name, in any case.
    """
    statement = (
        _selected()
        .where(
            function.c.state != "deleted",
            function.c.run_id.is_(None),
            function_version.c.number == sa.func.coalesce(function.c.active, function.c.latest),
            *scopes.functions(scope),
        )
        .order_by(function.c.name)
        .limit(limit + 1)
    )
    if text:
        statement = statement.where(function.c.name.icontains(text, autoescape=True))
    if states:
        statement = statement.where(function.c.state.in_(states))
    if label is not None:
        statement = statement.where(*scopes.functions([label]))
    if after is not None:
        statement = statement.where(function.c.name > after)
    with database.read() as tx:
        return tx.rows(statement)


def list_versions(
    database: Database, name: str, *, scope: Scope = None, before: int | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """Return versions of a function, newest first, each with its ``mark`` (a row, or None): one more than ``limit``
    when there are more. Raises :class:`NotFound`.
    """
    statement = (
        _selected()
        .where(function.c.name == name, function.c.state != "deleted", *scopes.functions(scope))
        .order_by(function_version.c.number.desc())
        .limit(limit + 1)
    )
    if before is not None:
        statement = statement.where(function_version.c.number < before)
    with database.read() as tx:
        check_visible(tx, name, scope)
        rows = tx.rows(statement)
        marks = version_marks.load(tx, rows[0]["function_id"]) if rows else {}
    return [row | {"mark": marks.get(row["number"])} for row in rows]


def marks(database: Database, function_id: str) -> dict[int, dict[str, Any]]:
    """Return the marks of a function's versions, by number."""
    with database.read() as tx:
        return version_marks.load(tx, function_id)


def labels_of(database: Database, name: str, scope: Scope = None) -> list[str]:
    """Return the labels of a function. Raises :class:`NotFound`."""
    with database.read() as tx:
        return list(check_visible(tx, name, scope)["labels"])


def check_visible(tx: Tx, name: str, scope: Scope) -> dict[str, Any]:
    """Return the row of a function that is not deleted. Raises :class:`NotFound` for one outside of the scope."""
    row = tx.first(
        sa.select(function).where(
            function.c.name == name, function.c.state != "deleted", *scopes.functions(scope)
        )
    )
    if row is None:
        if scope is None:
            raise versions.missing_error(tx, name, None)
        raise NotFound(f"function {name!r} not found", try_="functory function list")
    return row


def check_changeable(database: Database, name: str, scope: Scope) -> None:
    """Check that a caller with this scope may save ``name``: it is new, or in the scope. Raises :class:`Refused`."""
    if scope is None:
        return
    alive = sa.select(function.c.labels).where(function.c.name == name, function.c.state != "deleted")
    with database.read() as tx:
        exists = tx.first(alive) is not None
        if exists and tx.first(alive.where(*scopes.functions(scope))) is None:
            raise Refused(
                f"the function {name} is not yours to change",
                f"it has none of your labels: {', '.join(scope) or 'you have none'}",
                "choose another name, or ask an admin for a label of it",
            )


def names(database: Database, scope: Scope) -> list[str]:
    """Return the names of all functions in the scope."""
    with database.read() as tx:
        return list(tx.execute(sa.select(function.c.name).where(*scopes.functions(scope))).scalars())


def visible_names(database: Database, names: Iterable[str], scope: Scope) -> set[str]:
    """Return those of the ``names`` that are functions in the scope."""
    wanted = sorted(set(names))
    if scope is None or not wanted:
        return set(wanted)
    found: set[str] = set()
    with database.read() as tx:
        for start in range(0, len(wanted), 500):
            part = wanted[start : start + 500]
            rows = tx.rows(
                sa.select(function.c.name).where(function.c.name.in_(part), *scopes.functions(scope))
            )
            found.update(row["name"] for row in rows)
    return found


def _selected() -> sa.Select[Any]:
    return sa.select(*_SLIM).join(function, function.c.id == function_version.c.function_id)

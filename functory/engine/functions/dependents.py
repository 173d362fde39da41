"""Dependents: checks the dependencies of a version against the stored functions, and finds the users of a function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import function, function_version, trigger, trigger_version
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid
from functory.engine.functions import arguments, dependencies, versions


def resolve_dependencies(tx: Tx, name: str, declared: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mark each dependency as existing or not. Raises :class:`Conflict` for a cycle, with its path."""
    graph: dict[str, list[str]] = {name: []}
    pending = list(dependencies.parse(declared))
    known: dict[str, bool] = {}
    graph[name] = [str(d) for d in pending]
    while pending:
        wanted = [d for d in pending if str(d) not in known and not (d.name == name and d.pin is None)]
        rows = versions.load_many(tx, [(d.name, d.pin) for d in wanted])
        pending = []
        for dependency in wanted:
            row = rows.get((dependency.name, dependency.pin))
            known[str(dependency)] = row is not None
            below = dependencies.parse(row.dependencies) if row else ()
            graph[str(dependency)] = [str(d) for d in below]
            pending.extend(below)
    dependencies.check_acyclic(name, graph)
    return [d.as_json() | {"resolved": known.get(str(d), False)} for d in dependencies.parse(declared)]


def compensation_problems(tx: Tx, name: str, reference: str | None) -> list[str]:
    """Return warnings about the compensation of ``name``. Raises :class:`Invalid` when a function compensates
    itself.
    """
    if reference is None:
        return []
    other, pin = dependencies.parse_reference(reference, "compensation")
    if other == name:
        raise Invalid(
            f"{name} cannot undo itself", f"its compensation is {reference}", "name another function"
        )
    found = versions.load_start(tx, other, pin)
    return arguments.compensation_warnings(None if found is None else found.parameters, reference)


def dependents(tx: Tx, name: str) -> list[str]:
    """Return the functions and triggers that use a function, as text."""
    return _dependent_functions(tx, name) + _triggers(tx, name)


def linking_functions(tx: Tx, name: str) -> list[str]:
    """Return the functions whose active version has ``name`` as a dependency without a version."""
    rows = _active_versions(tx, name)
    return [
        row["name"]
        for row in rows
        if any(d.name == name and d.pin is None for d in dependencies.parse(row["dependencies"]))
    ]


def _dependent_functions(tx: Tx, name: str) -> list[str]:
    return [
        f"function {row['name']}" for row in _active_versions(tx, name) if name in _referenced_functions(row)
    ]


def _active_versions(tx: Tx, name: str) -> list[dict[str, Any]]:
    """Return what the active versions of all other functions refer to, by name."""
    return tx.rows(
        sa.select(
            function.c.name,
            function_version.c.number,
            function_version.c.dependencies,
            function_version.c.compensate,
        )
        .join(
            function_version,
            sa.and_(
                function_version.c.function_id == function.c.id,
                function_version.c.number == function.c.active,
            ),
        )
        .where(function.c.state != "deleted", function.c.name != name)
        .order_by(function.c.name)
    )


def _referenced_functions(row: dict[str, Any]) -> set[str]:
    """Return the functions that a version names: its dependencies and its compensation."""
    compensation = {dependencies.parse_reference(row["compensate"])[0]} if row["compensate"] else set()
    return {d["name"] for d in row["dependencies"]} | compensation


def _triggers(tx: Tx, name: str) -> list[str]:
    return [
        f"trigger {own}"
        for own, definition in trigger_definitions(tx)
        if dependencies.parse_reference(definition["function"])[0] == name
    ]


def trigger_definitions(tx: Tx) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the current definitions of all triggers that are not deleted, by name, in order."""
    rows = tx.rows(
        sa.select(trigger.c.name, trigger_version.c.definition)
        .join(
            trigger_version,
            sa.and_(
                trigger_version.c.trigger_id == trigger.c.id, trigger_version.c.number == trigger.c.version
            ),
        )
        .where(trigger.c.state != "deleted")
        .order_by(trigger.c.name)
    )
    return [(row["name"], row["definition"]) for row in rows]

"""The rights of a proposed version: what it may do at most, and what it may do more than the version before.

A version shares its process with its dependencies, so their rights count as its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.access.grants import NOTHING
from functory.engine.agents import tools
from functory.engine.database.schema import activation, function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.executions.runs import consent
from functory.engine.functions import dependencies, versions
from functory.engine.functions.version_row import VersionRow

# Functions that are linked with the changed one, as far as they are named.
MAX_NAMED = 50


def of_version(tx: Tx, version: VersionRow, base: VersionRow | None) -> dict[str, Any]:
    """Return what a proposed version may do, compared with ``base``, the active version (None: it is a new function).

    ``effect`` (functory.engine.agents.tools), ``adds`` and ``removes`` (rights as [kind, value]), ``packages`` (new
    requirements), ``dependents`` (functions that would run it in their own process), ``replaces``, ``widens``.
    """
    own = consent.grants_of(tx, version)
    before = consent.grants_of(tx, base) if base is not None else NOTHING
    has, had = set(own.items()), set(before.items())
    return {
        "effect": tools.effect_of(own),
        "adds": sorted([kind, value] for kind, value in has - had),
        "removes": sorted([kind, value] for kind, value in had - has),
        "packages": sorted(_packages(version) - (_packages(base) if base is not None else set())),
        "dependents": _dependents(tx, version.name),
        "replaces": base is not None,
        "widens": base is not None and bool(has - had),
    }


def untried_dependency(tx: Tx, version: VersionRow) -> str | None:
    """Return a dependency ``name@3`` that is pinned to a version that has never been active, so that no gate and no
    person has let it through; None without one.
    """
    for dependency in dependencies.parse(version.dependencies):
        if dependency.pin is None:
            continue
        row = versions.load(tx, dependency.name, dependency.pin)
        known = row is not None and tx.scalar(
            sa.select(activation.c.id)
            .where(activation.c.function_id == row.function_id, activation.c.version == dependency.pin)
            .limit(1)
        )
        if not known:
            return f"{dependency.name}@{dependency.pin}"
    return None


def _packages(version: VersionRow) -> set[str]:
    declared = version.imports if version.declared.get("imports") else []
    names = [one["name"] if isinstance(one, Mapping) else str(one) for one in declared]
    return {*version.requirements, *names}


def _dependents(tx: Tx, name: str) -> list[str]:
    rows = tx.rows(
        sa.select(function.c.name, function_version.c.dependencies)
        .join(
            function_version,
            sa.and_(
                function_version.c.function_id == function.c.id,
                function_version.c.number == function.c.active,
            ),
        )
        .where(function.c.state != "deleted", function_version.c.dependencies != [])
        .order_by(function.c.name)
    )
    found = [row["name"] for row in rows if any(one["name"] == name for one in row["dependencies"])]
    return found[:MAX_NAMED]

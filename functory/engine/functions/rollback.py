"""Rollback: which version a function goes back to, by the history of its activations.

The target is the newest version that was active before, that was not left by a rollback and is not marked bad, and
that can run today: its packages are installed, its import works and its dependencies exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, FunctoryError
from functory.engine.functions import activation, dependents, environments, versions
from functory.engine.functions.version_row import VersionRow


def earlier_versions(history: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the versions that a rollback may consider, the best first.

    ``history`` has the activations of a function, the newest first; the first one is current. A version whose last
    activation was ended by a rollback is no place to go back to.
    """
    left_by_rollback = {row["version"]: False for row in history[:1]}
    for later, row in pairwise(history):
        left_by_rollback.setdefault(row["version"], later["reason"] == "rollback")
    return [version for version, left in left_by_rollback.items() if not left][1:]


def find_target(tx: Tx, row: Mapping[str, Any]) -> int:
    """Return the version that function ``row`` goes back to.

    Raises :class:`Conflict` without one; it names each version that was considered, with the reason against it.
    """
    name = row["name"]
    if row["active"] is None:
        raise Conflict(
            f"{name} has no active version",
            "there is nothing to roll back",
            f"functory function history {name}",
        )
    against: list[str] = []
    for number in earlier_versions(activation.history(tx, row["id"])):
        problem = _problem(tx, versions.load(tx, name, number))
        if problem is None:
            return number
        against.append(f"v{number}: {problem}")
    raise Conflict(
        f"{name} has no earlier version to go back to",
        "; ".join(against) or f"no other version was active before v{row['active']} and was not rolled back",
        f"see functory function history {name}, and name one: functory function rollback {name} --to N",
    )


def _problem(tx: Tx, version: VersionRow | None) -> str | None:
    """Return why a version cannot be the target; None when it can."""
    if version is None:
        return "it does not exist any more"
    refused = activation.version_problem(tx, version)
    if refused is not None:
        return refused.reason
    try:
        environments.check_ready(version)
        needed = dependents.resolve_dependencies(tx, version.name, version.dependencies)
    except FunctoryError as error:
        return error.reason
    missing = [d["name"] for d in needed if not d["resolved"]]
    return f"the dependency {missing[0]} does not exist" if missing else None

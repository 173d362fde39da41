"""Roles and rights of users and tokens.

A role is a set of rights; the roles are ordered, each has all rights of the one before. Two rights are outside of this
order and are given to a user or token one by one: ``payload:read`` (inputs, results, data, logs, errors) and
``approve`` (decide about grants, and raise budgets). ``author`` and ``admin`` have the first, ``admin`` the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from functory.engine.errors import Invalid

Right = Literal["view", "operate", "author", "admin", "payload:read", "approve"]
Role = Literal["viewer", "operator", "author", "admin"]

RIGHTS: tuple[Right, ...] = get_args(Right)
ROLES: tuple[Role, ...] = get_args(Role)

# Rights that a role has by itself.
OF_ROLE: Mapping[Role, frozenset[Right]] = {
    "viewer": frozenset({"view"}),
    "operator": frozenset({"view", "operate"}),
    "author": frozenset({"view", "operate", "author", "payload:read"}),
    "admin": frozenset(RIGHTS),
}
# Rights that can be added to any role.
EXTRA: tuple[Right, ...] = ("payload:read", "approve")


def check_role(role: str) -> Role:
    """Return the role. Raises :class:`Invalid` for another word."""
    if role not in ROLES:
        raise Invalid(f"unknown role {role!r}", f"the roles are {', '.join(ROLES)}")
    return role  # type: ignore[return-value]


def check_extra(rights: Iterable[str]) -> list[str]:
    """Return extra rights, each once and sorted. Raises :class:`Invalid` for a right that cannot be added."""
    found = sorted(set(rights))
    for right in found:
        if right not in EXTRA:
            raise Invalid(
                f"the right {right!r} cannot be added", f"one of {', '.join(EXTRA)}; a role has the others"
            )
    return found


def rights_of(row: Mapping[str, Any]) -> frozenset[Right]:
    """Return the rights of a user or token by its ``role`` and its extra ``rights``."""
    return OF_ROLE[row["role"]] | frozenset(row["rights"])


def common_labels(first: Iterable[str] | None, second: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the labels that both scopes have; None, which is everything, when neither has labels."""
    if first is None or second is None:
        labels = second if first is None else first
        return None if labels is None else tuple(labels)
    return tuple(sorted(set(first) & set(second)))

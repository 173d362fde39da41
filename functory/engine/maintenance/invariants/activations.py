"""The invariant of activations: I16."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from functory.engine.database.schema import activation, function, version_mark
from functory.engine.maintenance.invariants.query import QueryScope, Violations, violations


def wrong_activations(scope: QueryScope) -> Sequence[Violations]:
    """I16: an active version without an open activation, an open activation of another version, and a version that is
    marked bad and active without force.

    That a function has one open activation is a unique index.
    """
    open_ = sa.and_(activation.c.function_id == function.c.id, activation.c.ended_at.is_(None))
    changed = scope.times_since(function.c.updated_at)
    return [
        violations(
            "version {number} of function {name} is active without an open activation",
            None,
            function.c.name,
            function.c.active,
        )
        .select_from(function)
        .outerjoin(activation, sa.and_(open_, activation.c.version == function.c.active))
        .where(function.c.active.is_not(None), activation.c.id.is_(None), *changed),
        violations(
            "the open activation of function {name} is of version {number}, which is not active",
            None,
            function.c.name,
            activation.c.version,
        )
        .select_from(function)
        .join(activation, open_)
        .where(activation.c.version.is_distinct_from(function.c.active), *changed),
        violations(
            "version {number} of function {name} is marked bad and active without force",
            None,
            function.c.name,
            function.c.active,
        )
        .select_from(function)
        .join(activation, open_)
        .join(
            version_mark,
            sa.and_(version_mark.c.function_id == function.c.id, version_mark.c.version == function.c.active),
        )
        .where(version_mark.c.mark == "bad", activation.c.reason != "force", *changed),
    ]

"""Label scopes: what a caller with labels sees and changes.

Functions and triggers have labels. A scope is a list of labels: it has the functions and triggers with one of them,
the executions of such functions, the events that such executions caused or that started them, and the agents whose
steps are such executions, with their runs and questions. None is everything.

The conditions belong into the statement of a list, so that neither its counts nor its cursors say anything about
other rows: ``statement.where(*scopes.executions(scope))``. They need no labels in the rows of executions and events:
a label that is given or taken later holds for the past, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import (
    approval,
    event,
    execution,
    firing,
    function,
    proposal,
    run,
    trigger,
)
from functory.engine.errors import Invalid

Scope = Sequence[str] | None
Conditions = tuple[sa.ColumnElement[bool], ...]

MAX_LABELS = 50
# Lower case only: SQLite compares with LIKE, which takes no notice of the case.
_LABEL = re.compile(r"[a-z0-9][a-z0-9_.:/-]{0,63}")


def functions(scope: Scope) -> Conditions:
    """Return the conditions on table ``function``."""
    return _with_label(function.c.labels, scope)


def triggers(scope: Scope) -> Conditions:
    """Return the conditions on table ``trigger``."""
    return _with_label(trigger.c.labels, scope)


def function_names(column: sa.ColumnElement[Any], scope: Scope) -> Conditions:
    """Return the conditions on a column with the name of a function."""
    return () if scope is None else (column.in_(sa.select(function.c.name).where(*functions(scope))),)


def trigger_ids(column: sa.ColumnElement[Any], scope: Scope) -> Conditions:
    """Return the conditions on a column with the id of a trigger."""
    return () if scope is None else (column.in_(sa.select(trigger.c.id).where(*triggers(scope))),)


def executions(scope: Scope) -> Conditions:
    """Return the conditions on table ``execution``."""
    return function_names(execution.c.function, scope)


def events(scope: Scope) -> Conditions:
    """Return the conditions on table ``event``."""
    if scope is None:
        return ()
    # An alias, so that the statement may have executions and firings of its own.
    seen, decided = execution.alias(), firing.alias()
    within = function_names(seen.c.function, scope)
    caused = sa.exists().where(seen.c.id == event.c.cause_execution_id, *within)
    started = sa.exists().where(
        decided.c.event_id == event.c.id, seen.c.id == decided.c.execution_id, *within
    )
    return (sa.or_(caused, started),)


def runs(scope: Scope) -> Conditions:
    """Return the conditions on table ``run``."""
    return function_names(run.c.function, scope)


def approvals(scope: Scope) -> Conditions:
    """Return the conditions on table ``approval``: what runs and proposals of visible functions ask."""
    if scope is None:
        return ()
    proposals = sa.select(proposal.c.id).where(*function_names(proposal.c.function, scope))
    return (
        sa.or_(
            approval.c.run_id.in_(sa.select(run.c.id).where(*runs(scope))),
            approval.c.proposal_id.in_(proposals),
        ),
    )


def check_label(label: str) -> str:
    """Return the label. Raises :class:`Invalid` for one that is not a label."""
    if not isinstance(label, str) or not _LABEL.fullmatch(label):
        raise Invalid(
            f"{str(label)[:80]!r} is not a label",
            "characters from a to z, digits and _ . : / - only, at most 64 characters",
            "for example team:billing",
        )
    return label


def check_labels(labels: Iterable[str]) -> list[str]:
    """Return the labels, each once and sorted. Raises :class:`Invalid`."""
    found = sorted({check_label(label) for label in labels})
    if len(found) > MAX_LABELS:
        raise Invalid("too many labels", f"at most {MAX_LABELS} are kept")
    return found


def _with_label(column: sa.ColumnElement[Any], scope: Scope) -> Conditions:
    if scope is None:
        return ()
    # The stored text is a JSON list, and a label has no character that JSON would escape.
    text = sa.type_coerce(column, sa.Text)
    return (sa.or_(sa.false(), *(text.contains(f'"{check_label(one)}"', autoescape=True) for one in scope)),)

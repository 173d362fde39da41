"""Finds executions, events, triggers and versions by the beginning of an id: a range of the primary key of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine import unresolved_ids
from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import prune_watermarks, short_ids
from functory.engine.database.clock import time_of_id
from functory.engine.database.connection import Database
from functory.engine.database.schema import (
    approval,
    event,
    execution,
    function,
    function_version,
    llm_call,
    memory,
    proposal,
    trigger,
)
from functory.engine.database.transaction import Tx
from functory.engine.events.store import as_id
from functory.engine.unresolved_ids import MAX_CANDIDATES, Candidate

Kind = unresolved_ids.Kind


def resolve(database: Database, text: str, kinds: Sequence[Kind], scope: Scope = None) -> str:
    """Return the whole id. Raises :class:`NotFound`, and :class:`AmbiguousId` when several begin so.

    A whole id is returned as it is, whether or not something has it.
    """
    if short_ids.is_full(text):
        return as_id(text, " or ".join(kinds))
    with database.read() as tx:
        found = candidates(tx, text, kinds, scope)
        # What is not there may have been deleted.
        parts = short_ids.ranges(text)
        pruned_before = prune_watermarks.pruned_before(tx, parts[0].high) if parts and not found else None
    if not found:
        why = prune_watermarks.why_pruned(pruned_before) if pruned_before else ""
        raise unresolved_ids.no_such(text, kinds, why, pruned_before)
    if len(found) > 1:
        raise unresolved_ids.several(text, found)
    return found[0].id


def candidates(
    tx: Tx, text: str, kinds: Sequence[Kind], scope: Scope = None, limit: int = MAX_CANDIDATES + 1
) -> list[Candidate]:
    """Return up to ``limit`` rows of each kind whose id begins with ``text``, the newest first."""
    found: list[Candidate] = []
    for part in [short_ids.IdRange(text, text)] if short_ids.is_full(text) else short_ids.ranges(text):
        for kind in kinds:
            id_, statement = _named(kind, scope)
            rows = statement.where(id_ >= part.low, id_ <= part.high).order_by(id_.desc()).limit(limit)
            found += [Candidate(kind, row.id, row.name, time_of_id(row.id)) for row in tx.execute(rows)]
    return sorted(found, key=lambda one: one.id, reverse=True)[:limit]


def _named(kind: Kind, scope: Scope) -> tuple[sa.Column[Any], sa.Select[Any, Any]]:
    """Return the id of a kind, and the select of its id and name."""
    if kind == "execution":
        id_, name, visible = execution.c.id, execution.c.function, scopes.executions(scope)
    elif kind == "event":
        id_, name, visible = event.c.id, event.c.type, scopes.events(scope)
    elif kind == "trigger":
        id_, name, visible = trigger.c.id, trigger.c.name, scopes.triggers(scope)
    elif kind == "call":
        id_, name = llm_call.c.id, llm_call.c.function
        names = sa.select(function.c.name).where(*scopes.functions(scope))
        visible = [] if scope is None else [llm_call.c.function.in_(names)]
    elif kind == "approval":
        id_, name, visible = approval.c.id, approval.c.kind, scopes.approvals(scope)
    elif kind == "proposal":
        id_, name = proposal.c.id, proposal.c.function
        names = sa.select(function.c.name).where(*scopes.functions(scope))
        visible = [] if scope is None else [proposal.c.function.in_(names)]
    elif kind == "memory":
        # Memories have no labels: only those who see all see them.
        id_, name, visible = memory.c.id, memory.c.kind, [] if scope is None else [sa.false()]
    else:
        id_, visible = function_version.c.id, scopes.functions(scope)
        name = function.c.name + "@" + sa.cast(function_version.c.number, sa.Text)
    statement = sa.select(id_.label("id"), name.label("name")).where(*visible)
    if kind == "version":
        statement = statement.join(function, function.c.id == function_version.c.function_id)
    return id_, statement

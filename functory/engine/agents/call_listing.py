"""Lists of calls, and what they cost in sum: what the command line, the API and the dashboard read.

Neither has requests or answers. Someone with a scope sees the calls of the functions with one of its labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database
from functory.engine.database.dialects import utc_day
from functory.engine.database.schema import llm_call
from functory.engine.events.store import as_id

OPEN = ("queued", "sent")
ENDED = ("succeeded", "failed", "unknown", "refused", "cancelled")
STATES = (*OPEN, *ENDED)

# The columns that a list shows: neither requests nor answers.
LISTED = tuple(
    column
    for column in llm_call.c
    if column.name not in ("request", "response", "repair", "lease_until", "quotas")
)
_COST_COLUMNS: Mapping[str, Any] = {
    "model": llm_call.c.asked,
    "agent": llm_call.c.agent,
    "user": llm_call.c.user_name,
    "function": llm_call.c.function,
    "day": utc_day(llm_call.c.created_at),
}
COST_BY = tuple(_COST_COLUMNS)


@dataclass(frozen=True)
class CallFilter:
    """Which calls a list has; None is any. ``model`` is the one that was asked for, or the one that was asked."""

    root_id: str | None = None
    execution_id: str | None = None
    model: str | None = None
    state: str | None = None
    function: str | None = None
    agent: str | None = None
    user: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions on table ``llm_call``. Raises :class:`Invalid` for an unknown state."""
        choices.check("state", [self.state], STATES)
        call, found = llm_call.c, []
        for column, id_ in ((call.root_id, self.root_id), (call.execution_id, self.execution_id)):
            if id_ is not None:
                found.append(column == as_id(id_, "execution"))
        if self.model is not None:
            found.append(sa.or_(call.model == self.model, call.asked == self.model))
        for column, value in (
            (call.state, self.state),
            (call.function, self.function),
            (call.agent, self.agent),
            (call.user_name, self.user),
        ):
            if value is not None:
                found.append(column == value)
        # Ids are times.
        if self.since is not None:
            found.append(call.id >= lowest_id(self.since))
        if self.until is not None:
            found.append(call.id < lowest_id(self.until))
        return found


def page(
    database: Database, wanted: CallFilter, *, before: str | None = None, limit: int = 50, scope: Scope = None
) -> list[dict[str, Any]]:
    """Return calls, newest first, of those before the id ``before``."""
    conditions = [*wanted.conditions(), *scopes.function_names(llm_call.c.function, scope)]
    if before is not None:
        conditions.append(llm_call.c.id < as_id(before, "call"))
    statement = sa.select(*LISTED).where(*conditions).order_by(llm_call.c.id.desc()).limit(limit)
    with database.read() as tx:
        return tx.rows(statement)


def cost(
    database: Database, by: str, *, since: datetime | None = None, scope: Scope = None
) -> list[dict[str, Any]]:
    """Return calls, tokens and cost in sum, by ``model``, ``agent``, ``user``, ``function`` or ``day``."""
    choices.check("grouping", [by], COST_BY)
    column = _COST_COLUMNS[by].label("of")
    sums = [
        sa.func.coalesce(sa.func.sum(llm_call.c[name]), 0).label(name)
        for name in ("cost", "tokens_in", "tokens_out")
    ]
    conditions = [
        *CallFilter(since=since).conditions(),
        *scopes.function_names(llm_call.c.function, scope),
    ]
    statement = sa.select(column, sa.func.count().label("calls"), *sums).where(*conditions).group_by(column)
    with database.read() as tx:
        rows = tx.rows(statement)
    found = [{name: value if name == "of" else int(value) for name, value in row.items()} for row in rows]
    if by == "day":
        return sorted(found, key=lambda row: str(row["of"]), reverse=True)
    return sorted(found, key=lambda row: (-row["cost"], -row["calls"], str(row["of"])))


def model_use(database: Database) -> dict[str, dict[str, int]]:
    """Return by model: ``open_calls``, which wait or are sent, and of the calls of today (UTC) ``calls_today`` and
    ``cost_today`` in nano-dollars.
    """
    asked = llm_call.c.asked
    open_ = sa.or_(llm_call.c.state == "queued", llm_call.c.state == "sent")
    with database.read() as tx:
        midnight = tx.now.replace(hour=0, minute=0, second=0, microsecond=0)
        waiting = tx.rows(sa.select(asked, sa.func.count().label("open_calls")).where(open_).group_by(asked))
        today = tx.rows(
            sa.select(
                asked,
                sa.func.count().label("calls_today"),
                sa.func.sum(llm_call.c.cost).label("cost_today"),
            )
            .where(llm_call.c.id >= lowest_id(midnight))
            .group_by(asked)
        )
    found: dict[str, dict[str, int]] = {}
    for row in (*waiting, *today):
        of = found.setdefault(row["asked"], {"open_calls": 0, "calls_today": 0, "cost_today": 0})
        of.update({name: int(value) for name, value in row.items() if name != "asked"})
    return found

"""Lists of executions for people: filters, pages, and slim rows.

Pages are in the order of the ids, which is the order of time, newest first; the executions of one trigger are in the
order of the events that it fired on. What a page costs does not depend on how many rows the filters leave out
(:mod:`functory.engine.database.id_pages`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import id_pages, prune_watermarks
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database
from functory.engine.database.dialects import json_member
from functory.engine.database.id_pages import Way
from functory.engine.database.schema import bad_end, event, execution, firing, function, trigger
from functory.engine.database.schema.executions import BAD_ENDS, STATES
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound
from functory.engine.events.store import as_id
from functory.engine.executions import about, bad_ends, open_executions, resolutions
from functory.engine.executions.cancellation import OPEN

CAUSES = ("manual", "api", "trigger", "parent", "replay", "compensation", "step", "tool")
# More values of one filter would be more ways to look.
MAX_VALUES = 20

_COLUMNS = (
    "id", "function", "version", "state", "cause", "trigger_id", "event_id", "parent_id", "replay_of", "root_id",
    "depth", "attempt", "max_attempts", "created_at", "run_at", "started_at", "finished_at",
    "cancelled_by",
)  # fmt: skip


@dataclass(frozen=True)
class ExecutionFilter:
    """Which executions a list has: those that fit all fields; of several values of a field, one has to fit."""

    functions: Sequence[str] = ()
    states: Sequence[str] = ()
    triggers: Sequence[str] = ()
    causes: Sequence[str] = ()
    event: str | None = None
    parent: str | None = None
    root: str | None = None
    replay_of: str | None = None
    version: int | None = None
    # Only the first executions of trees.
    roots: bool = False
    # Only those that failed, timed out or are dead, and of which no replay has succeeded.
    unresolved: bool = False
    since: datetime | None = None
    until: datetime | None = None
    # Text in the input or in the message of the error.
    text: str | None = None

    def __post_init__(self) -> None:
        choices.check("state", self.states, STATES)
        choices.check("cause", self.causes, CAUSES)
        several = {
            "functions": self.functions,
            "triggers": self.triggers,
            "states": self.states,
            "causes": self.causes,
        }
        for what, given in several.items():
            if len(given) > MAX_VALUES:
                raise Invalid(f"too many {what}", f"at most {MAX_VALUES} can be asked for at once")
        if self.text is not None and not 2 <= len(self.text) <= 200:
            raise Invalid("wrong text to search for", "it must have 2 to 200 characters")


@dataclass(frozen=True)
class ExecutionPage:
    """Rows of a page; ``next`` is the key of the next page, None on the last one."""

    rows: list[dict[str, Any]]
    next: str | None


def page(
    database: Database,
    wanted: ExecutionFilter,
    *,
    before: str | None = None,
    limit: int = 50,
    scope: Scope = None,
) -> ExecutionPage:
    """Return a page of executions, newest first. ``before`` is ``next`` of the page before. Raises :class:`Invalid`."""
    if wanted.unresolved and not _states(wanted):
        return ExecutionPage([], None)
    with database.read() as tx:
        plan = _plan(tx, wanted)
        tested = [*_tested(wanted, plan.answered), *scopes.executions(scope)]
        found = id_pages.find(tx, execution.c.id, plan.ways, tested, before=before, limit=limit)
        rows = rows_of(tx, found.ids, scope)
        if wanted.unresolved:
            # A replay that has succeeded is found for the rows of the page; the page gets shorter, not wrong.
            rows = [row for row in rows if row["resolved_by"] is None]
    return ExecutionPage(rows, found.next)


def rows_of(tx: Tx, ids: Sequence[str], scope: Scope = None) -> list[dict[str, Any]]:
    """Return the slim rows of these executions, in the same order; ids that do not exist are left out."""
    if not ids:
        return []
    parent, cause = execution.alias("parent"), event.alias("cause_event")
    statement = (
        sa.select(
            *(execution.c[name] for name in _COLUMNS),
            json_member(tx, execution.c.error, "type").label("error_type"),
            about.start_of(execution.c.input).label("input_start"),
            trigger.c.name.label("trigger"),
            parent.c.function.label("parent_function"),
            cause.c.subject.label("event_subject"),
        )
        .outerjoin(trigger, sa.and_(trigger.c.id == execution.c.trigger_id, *scopes.triggers(scope)))
        .outerjoin(
            parent,
            sa.and_(parent.c.id == execution.c.parent_id, *scopes.function_names(parent.c.function, scope)),
        )
        .outerjoin(cause, cause.c.id == execution.c.event_id)
        .where(execution.c.id.in_(ids))
    )
    rows = {row["id"]: _shown(row, scope) for row in resolutions.with_resolutions(tx, tx.rows(statement))}
    return [rows[id_] for id_ in ids if id_ in rows]


def row_of(database: Database, id_: str, scope: Scope = None) -> dict[str, Any]:
    """Return the slim row of one execution. Raises :class:`NotFound`."""
    check_visible(database, id_, scope)
    with database.read() as tx:
        rows = rows_of(tx, [as_id(id_, "execution")], scope)
        if not rows:
            raise _missing(tx, id_)
    return rows[0]


def visible_ids(database: Database, ids: Sequence[str], scope: Scope) -> set[str]:
    """Return those of the executions that are in ``scope``."""
    statement = sa.select(execution.c.id).where(execution.c.id.in_(ids), *scopes.executions(scope))
    with database.read() as tx:
        return set(tx.execute(statement).scalars()) if ids else set()


def check_visible(database: Database, id_: str, scope: Scope) -> None:
    """Raise :class:`NotFound` for an execution that does not exist or that is outside of ``scope``."""
    if scope is None:
        return
    with database.read() as tx:
        found = tx.scalar(
            sa.select(execution.c.id).where(
                execution.c.id == as_id(id_, "execution"), *scopes.executions(scope)
            )
        )
        if found is None:
            raise _missing(tx, id_)


def check_function_visible(database: Database, name: str, scope: Scope) -> None:
    """Raise :class:`NotFound` for a function outside of ``scope``."""
    if scope is None:
        return
    with database.read() as tx:
        if (
            tx.scalar(sa.select(function.c.id).where(function.c.name == name, *scopes.functions(scope)))
            is None
        ):
            raise NotFound(f"function {name!r} not found", try_="functory function list")


def _missing(tx: Tx, id_: str) -> NotFound:
    return prune_watermarks.missing(
        tx, as_id(id_, "execution"), f"execution {id_} not found", "functory execution list"
    )


def durations(row: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the seconds that an execution was due and not started, and those from its start to its end."""
    due, started, finished = row["run_at"], row["started_at"], row["finished_at"]
    # A retry has overwritten the time at which the first attempt was due.
    first_due = due if started is not None and due <= started else row["created_at"]
    return {
        "queued_seconds": _seconds(first_due, started),
        "run_seconds": _seconds(started, finished),
    }


def _shown(row: dict[str, Any], scope: Scope) -> dict[str, Any]:
    start, parent, subject = (row.pop(name) for name in ("input_start", "parent_function", "event_subject"))
    if scope is not None and not (row["cancelled_by"] or "").startswith("execution "):
        # It may name a trigger or a person that this caller does not see.
        row["cancelled_by"] = None
    return (
        row
        | durations(row)
        | {
            "about": about.about(subject, start),
            "cause_name": row["trigger"] if row["cause"] == "trigger" else parent,
        }
    )


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else round((end - start).total_seconds(), 6)


@dataclass(frozen=True)
class _Plan:
    """How the rows of a filter are found, and which of its fields need no further test then."""

    ways: Sequence[Way]
    answered: frozenset[str]


def _plan(tx: Tx, wanted: ExecutionFilter) -> _Plan:
    """Choose the index of the field that leaves the fewest rows."""
    by_id = _within(wanted)
    for name, column, given in (
        ("root", execution.c.root_id, wanted.root),
        ("parent", execution.c.parent_id, wanted.parent),
        ("replay_of", execution.c.replay_of, wanted.replay_of),
    ):
        if given is not None:
            way = Way(execution.c.id, [column == as_id(given, "execution"), *by_id])
            return _Plan([way], frozenset({name, "time"}))
    if wanted.event is not None:
        way = Way(execution.c.id, [_started_by(wanted.event), *by_id])
        return _Plan([way], frozenset({"event", "time"}))
    states = _states(wanted)
    if states and set(states) <= set(OPEN):
        ids = open_executions.open_ids(queued="queued" in states, running="running" in states)
        return _Plan([Way(execution.c.id, [execution.c.id.in_(ids), *by_id])], frozenset({"time"}))
    if bad_ends.are_bad(states):
        # One way for each state: the key of the table begins with it.
        id_ = bad_end.c.execution_id
        ways = [Way(id_, [bad_end.c.state == state, *_within(wanted, id_)], narrow=True) for state in states]
        return _Plan(ways, frozenset({"states", "time"}))
    if wanted.triggers:
        # The index of triggers has them in the order of their events.
        ids = tx.execute(sa.select(trigger.c.id).where(trigger.c.name.in_(wanted.triggers))).scalars()
        ways = [Way(execution.c.event_id, [execution.c.trigger_id == id_]) for id_ in ids.all()]
        return _Plan(ways, frozenset({"triggers"}))
    if wanted.functions:
        names = dict.fromkeys(wanted.functions)
        ways = [Way(execution.c.id, [execution.c.function == name, *by_id]) for name in names]
        return _Plan(ways, frozenset({"functions", "time"}))
    return _Plan([Way(execution.c.id, by_id)], frozenset({"time"}))


def _tested(wanted: ExecutionFilter, answered: frozenset[str]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of the fields that the plan has not answered."""
    e = execution.c
    names = sa.select(trigger.c.id).where(trigger.c.name.in_(wanted.triggers))
    states = _states(wanted)
    conditions = {
        "root": wanted.root is not None and [e.root_id == as_id(wanted.root, "execution")],
        "parent": wanted.parent is not None and [e.parent_id == as_id(wanted.parent, "execution")],
        "replay_of": wanted.replay_of is not None and [e.replay_of == as_id(wanted.replay_of, "execution")],
        "event": wanted.event is not None and [_started_by(wanted.event)],
        "states": states and [e.state.in_(states)],
        "triggers": wanted.triggers and [e.trigger_id.in_(names)],
        "functions": wanted.functions and [e.function.in_(wanted.functions)],
        "causes": wanted.causes and [e.cause.in_(wanted.causes)],
        "version": wanted.version is not None and [e.version == wanted.version],
        "roots": wanted.roots and [sa.or_(e.root_id == e.id, e.root_id == e.event_id)],
        "time": _within(wanted),
        "text": wanted.text is not None and [_holds(wanted.text)],
    }
    return [one for name, found in conditions.items() if found and name not in answered for one in found]


def _started_by(event_id: str) -> sa.ColumnElement[bool]:
    """The executions that an event started, alone or together with others."""
    started = sa.select(firing.c.execution_id).where(firing.c.event_id == as_id(event_id, "event"))
    return execution.c.id.in_(started)


def _states(wanted: ExecutionFilter) -> Sequence[str]:
    if not wanted.unresolved:
        return wanted.states
    return [state for state in BAD_ENDS if not wanted.states or state in wanted.states]


def _within(wanted: ExecutionFilter, id_: sa.Column[Any] = execution.c.id) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if wanted.since is not None:
        found.append(id_ >= lowest_id(wanted.since))
    if wanted.until is not None:
        found.append(id_ < lowest_id(wanted.until))
    return found


def _holds(text: str) -> sa.ColumnElement[bool]:
    return sa.or_(about.holds(execution.c.input, text), about.holds(execution.c.error, text))

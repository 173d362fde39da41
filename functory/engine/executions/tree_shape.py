"""Reads the shape of a causal tree: its nodes with what an outline needs to place them.

A tree up to :data:`MAX_ROWS` rows of a kind is read in one pass over its narrow columns. Of a larger one that pass
finds the oldest part; a node that is asked for is read with what is above it and below it, level by level, through the
indexes of causes and decisions. So what a node costs depends on what it caused, and not on the size of its tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import event, execution, firing, function, trigger
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.executions.outline import MAX_PATH, Outlines, TreeNode, without

# Rows of each kind that are read of one tree. Of a larger tree the oldest part is shown, or the part around a node.
MAX_ROWS = 20_000
# Levels below a node of a larger tree: more than an outline has nodes.
MAX_LEVELS = 1000


R = TypeVar("R", bound=TypedRow)


@dataclass(frozen=True)
class Shape:
    """The nodes of a tree, or of the part around one of them, and whether rows of it are left out.

    ``children`` are the counts of direct children of the nodes above that one, whose children are not all read.
    """

    outlines: Outlines
    truncated: bool
    children: Counter[str] = field(default_factory=Counter)

    def count_children(self, id_: str) -> int:
        return max(len(self.outlines.children.get(id_, ())), self.children[id_])


class _Execution(TypedRow, frozen=True):
    """What places an execution in its tree."""

    id: str
    function: str
    state: str
    parent_id: str | None
    event_id: str | None
    trigger_id: str | None
    started_at: datetime | None
    finished_at: datetime | None
    root_id: str


class _Event(TypedRow, frozen=True):
    """What places an event in its tree."""

    id: str
    type: str
    state: str
    cause_execution_id: str | None
    root_id: str


class _Match(TypedRow, frozen=True):
    """What places a match that is a node of its own, with the ``name`` of its trigger."""

    trigger_id: str
    event_id: str
    decision: str
    reason: str | None
    execution_id: str | None
    name: str | None


@dataclass
class _Rows:
    """Rows of a tree by their ids; those of ``matches`` by their trigger and event."""

    executions: dict[str, _Execution] = field(default_factory=dict)
    events: dict[str, _Event] = field(default_factory=dict)
    matches: dict[tuple[str, str], _Match] = field(default_factory=dict)

    def is_full(self) -> bool:
        return max(len(self.executions), len(self.events), len(self.matches)) >= MAX_ROWS


def read(tx: Tx, root_id: str, scope: Scope, around: str | None = None) -> Shape:
    """Return the shape of a tree. Of one that is too large, that of the part around the node ``around``."""
    children: Counter[str] = Counter()
    too_large = around is not None and _has_too_many_executions(tx, root_id)
    rows = _Rows() if too_large else _whole(tx, root_id)
    truncated = too_large or rows.is_full()
    if truncated and around is not None:
        rows, truncated = _below(tx, root_id, around)
        above = _above(tx, root_id, around)
        children = _counts(tx, above, scope)
        rows.executions |= above.executions
        rows.events |= above.events
    nodes = _nodes(rows)
    if scope is not None:
        nodes = without(nodes, _hidden(tx, nodes, scope))
    return Shape(Outlines(nodes), truncated, children)


def is_worth_showing(decided: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """An event that is not only a report about an execution or a match, or for which ``decided`` holds."""
    report = sa.or_(event.c.type.like("execution.%"), event.c.type == "trigger.suppressed")
    return sa.or_(sa.not_(report), decided)


def decided_in_tree(root_id: str) -> sa.ColumnElement[bool]:
    """A trigger decided about the event, which is of this tree."""
    return event.c.id.in_(sa.select(firing.c.event_id).where(firing.c.root_id == root_id))


_EXECUTIONS = sa.select(*columns(_Execution, execution))
_EVENTS = sa.select(*columns(_Event, event))
_MATCHES = sa.select(
    firing.c.trigger_id,
    firing.c.event_id,
    firing.c.decision,
    firing.c.reason,
    firing.c.execution_id,
    trigger.c.name,
).outerjoin(trigger, trigger.c.id == firing.c.trigger_id)
# A match that is a node of its own: stopped, or joined with others.
_NOTED = sa.or_(firing.c.decision == "suppressed", firing.c.joint)
# Through the index of the event: a tree of any size is not read for it.
_DECIDED = sa.exists().where(firing.c.event_id == event.c.id)
_WORTH = is_worth_showing(_DECIDED)

_NUMBER = sa.func.count().label("number")

_CALLED = _EXECUTIONS.where(one_of(execution.c.parent_id))
_THESE = _EXECUTIONS.where(one_of(execution.c.id))
_CAUSED = _EVENTS.where(one_of(event.c.cause_execution_id), _WORTH)
_EVENT = _EVENTS.where(one_of(event.c.id))
_NOTED_OF = _MATCHES.where(one_of(firing.c.event_id), _NOTED)
_STARTED = (
    sa.select(firing.c.execution_id)
    .where(one_of(firing.c.event_id), firing.c.decision == "fired", firing.c.execution_id.is_not(None))
    .limit(MAX_ROWS)
)


def _has_too_many_executions(tx: Tx, root_id: str) -> bool:
    of_tree = sa.select(execution.c.id).where(execution.c.root_id == root_id)
    return tx.scalar(of_tree.offset(MAX_ROWS - 1).limit(1)) is not None


def _whole(tx: Tx, root_id: str) -> _Rows:
    """Read the oldest rows of a tree."""
    e, f = event.c, firing.c
    executions = _EXECUTIONS.where(execution.c.root_id == root_id).order_by(execution.c.id)
    events = _EVENTS.where(e.root_id == root_id, is_worth_showing(decided_in_tree(root_id))).order_by(e.id)
    matches = _MATCHES.where(f.root_id == root_id, _NOTED).order_by(f.event_id, f.trigger_id)
    return _Rows(
        {row.id: row for row in tx.all(_Execution, executions.limit(MAX_ROWS))},
        {row.id: row for row in tx.all(_Event, events.limit(MAX_ROWS))},
        {(row.trigger_id, row.event_id): row for row in tx.all(_Match, matches.limit(MAX_ROWS))},
    )


def _above(tx: Tx, root_id: str, at: str) -> _Rows:
    """Read a node and what is above it, up to :data:`MAX_PATH` nodes."""
    found = _Rows()
    above: str | None = at
    for _ in range(MAX_PATH + 1):
        if above is None:
            break
        ids = {"ids": [above]}
        row: _Execution | _Event | None
        if row := tx.one(_Execution, _THESE, ids):
            found.executions[row.id] = row
            above = row.event_id or row.parent_id
        elif row := tx.one(_Event, _EVENT, ids):
            found.events[row.id] = row
            above = row.cause_execution_id
        if row is None or row.root_id != root_id:
            break
    return _of_tree(found, root_id)


def _below(tx: Tx, root_id: str, at: str) -> tuple[_Rows, bool]:
    """Read what is below a node, level by level. Returns whether there is more of it."""
    found = _Rows()
    executions: Sequence[str] = [at]
    events: Sequence[str] = [at]
    for _ in range(MAX_LEVELS):
        if not (executions or events):
            return found, False
        if found.is_full():
            break
        matches = _of(tx, _Match, _NOTED_OF, events)
        started = list(tx.execute(_STARTED, {"ids": list(events)}).scalars()) if events else []
        below = [*_of(tx, _Execution, _CALLED, executions), *_of(tx, _Execution, _THESE, started)]
        caused = {row.id: row for row in _of(tx, _Event, _CAUSED, executions) if row.root_id == root_id}
        # An execution that several events started is below the one that decided.
        new = {
            row.id: row
            for row in below
            if row.root_id == root_id and (row.event_id in (None, at) or row.event_id in found.events)
        }
        executions = [id_ for id_ in new if id_ not in found.executions]
        events = [id_ for id_ in caused if id_ not in found.events]
        found.executions |= new
        found.events |= caused
        found.matches |= {(row.trigger_id, row.event_id): row for row in matches}
    return found, True


def _of(tx: Tx, type_: type[R], statement: sa.Select[*tuple[Any, ...]], ids: Sequence[str]) -> Sequence[R]:
    return tx.all(type_, statement.limit(MAX_ROWS), {"ids": list(ids)}) if ids else ()


def _counts(tx: Tx, above: _Rows, scope: Scope) -> Counter[str]:
    """Count the direct children of nodes whose children are not read."""
    found: Counter[str] = Counter()
    executions, events = list(above.executions), list(above.events)
    called = sa.select(execution.c.parent_id.label("above"), _NUMBER).where(
        one_of(execution.c.parent_id), *scopes.executions(scope)
    )
    caused = sa.select(event.c.cause_execution_id.label("above"), _NUMBER).where(
        one_of(event.c.cause_execution_id), _WORTH, *scopes.events(scope)
    )
    decided = sa.select(firing.c.event_id.label("above"), _NUMBER).where(
        one_of(firing.c.event_id), *scopes.trigger_ids(firing.c.trigger_id, scope)
    )
    for statement, key, ids in (
        (called, execution.c.parent_id, executions),
        (caused, event.c.cause_execution_id, executions),
        (decided, firing.c.event_id, events),
    ):
        if ids:
            found.update(
                {row["above"]: row["number"] for row in tx.rows(statement.group_by(key), {"ids": ids})}
            )
    return found


def _nodes(rows: _Rows) -> list[TreeNode]:
    """Return the nodes of these rows; a parent that is not among them is left away."""
    nodes: list[TreeNode] = []
    for row in sorted(rows.events.values(), key=_id_of):
        cause = row.cause_execution_id
        nodes.append(
            TreeNode("event", row.id, row.type, row.state, cause if cause in rows.executions else None)
        )
    for row in sorted(rows.executions.values(), key=_id_of):
        above = row.event_id if row.event_id in rows.events else row.parent_id
        nodes.append(
            TreeNode(
                "execution",
                row.id,
                row.function,
                row.state,
                above if above in rows.events or above in rows.executions else None,
                _seconds(row.started_at, row.finished_at),
                trigger_id=row.trigger_id,
            )
        )
    for row in rows.matches.values():
        started = None if row.execution_id is None else rows.executions.get(row.execution_id)
        own = row.decision == "fired" and started is not None and started.event_id == row.event_id
        if row.event_id not in rows.events or own:
            continue
        kind = "suppressed" if row.decision == "suppressed" else "joined"
        nodes.append(
            TreeNode(
                kind,
                f"{row.trigger_id}:{row.event_id}",
                row.name or row.trigger_id,
                kind,
                row.event_id,
                reason=row.reason,
                execution_id=row.execution_id,
                trigger_id=row.trigger_id,
            )
        )
    return nodes


def _hidden(tx: Tx, nodes: Sequence[TreeNode], scope: Scope) -> set[str]:
    """Return the nodes outside of a scope. An event is inside when an execution inside is its cause or its effect."""
    functions = set(tx.execute(sa.select(function.c.name).where(*scopes.functions(scope))).scalars())
    triggers = set(tx.execute(sa.select(trigger.c.id).where(*scopes.triggers(scope))).scalars())
    inside = {one.id for one in nodes if one.kind == "execution" and one.name in functions}
    events = {one.parent for one in nodes if one.id in inside}
    hidden: set[str] = set()
    for one in nodes:
        if one.kind == "execution":
            seen = one.id in inside
        elif one.kind == "event":
            seen = one.id in events or one.parent in inside
        else:
            seen = one.trigger_id in triggers
        if not seen:
            hidden.add(one.id)
    return hidden


def _of_tree(rows: _Rows, root_id: str) -> _Rows:
    return _Rows(
        {id_: row for id_, row in rows.executions.items() if row.root_id == root_id},
        {id_: row for id_, row in rows.events.items() if row.root_id == root_id},
    )


def _id_of(row: _Execution | _Event) -> str:
    return row.id


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else round((end - start).total_seconds(), 6)

"""Reads causal trees for pages: outlines, children, and the counts of a tree.

The shape of a tree is read first (:mod:`functory.engine.executions.tree_shape`), the rest only of the nodes that are
shown. The engine's own events about executions are left out unless they started something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import prune_watermarks
from functory.engine.database.connection import Database
from functory.engine.database.schema import budget, event, execution, firing, trigger
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound
from functory.engine.events.store import as_id
from functory.engine.executions import event_listing, listing, tree_shape
from functory.engine.executions.outline import OutlineNode, group_key

MAX_BUDGET = 1000


def root_of(database: Database, id_: str, scope: Scope = None) -> str:
    """Return the root of the tree that an execution or event belongs to. Raises :class:`NotFound`."""
    id_ = as_id(id_, "event or execution")
    with database.read() as tx:
        for table, visible in ((execution, scopes.executions(scope)), (event, scopes.events(scope))):
            root = tx.scalar(sa.select(table.c.root_id).where(table.c.id == id_, *visible))
            if root is not None:
                return root
        raise prune_watermarks.missing(tx, id_, f"no event or execution {id_}", "functory execution list")


def summary(database: Database, root_id: str, scope: Scope = None) -> dict[str, Any]:
    """Return the counts of a tree: what it has started and touched, and its budget."""
    mine = (execution.c.root_id == root_id, *scopes.executions(scope))
    with database.read() as tx:
        versions = tx.rows(
            sa.select(
                execution.c.function,
                execution.c.version,
                execution.c.state,
                sa.func.count().label("count"),
                sa.func.max(execution.c.depth).label("depth"),
                sa.func.min(execution.c.created_at).label("first"),
                sa.func.max(execution.c.finished_at).label("last"),
            )
            .where(*mine)
            .group_by(execution.c.function, execution.c.version, execution.c.state)
        )
        worth_showing = tree_shape.is_worth_showing(tree_shape.decided_in_tree(root_id))
        events = tx.rows(
            sa.select(event.c.type, sa.func.count().label("count"), sa.func.min(event.c.time).label("first"))
            .where(event.c.root_id == root_id, worth_showing, *scopes.events(scope))
            .group_by(event.c.type)
        )
        decisions = tx.rows(
            sa.select(
                trigger.c.name,
                firing.c.decision,
                firing.c.reason,
                sa.func.count().label("count"),
            )
            .join(trigger, trigger.c.id == firing.c.trigger_id)
            .where(firing.c.root_id == root_id, *scopes.triggers(scope))
            .group_by(trigger.c.name, firing.c.decision, firing.c.reason)
        )
        spent = tx.first(sa.select(budget.c.used, budget.c.maximum).where(budget.c.root_id == root_id))
    return _summary(root_id, versions, events, decisions, spent)


def outline(
    database: Database, id_: str, *, at: str | None = None, limit: int = 200, scope: Scope = None
) -> dict[str, Any]:
    """Return about ``limit`` nodes of the tree of ``id_``: ``at`` (all for None) and what is below it, breadth first.

    ``path`` are the nodes above ``at``. Raises :class:`NotFound`.
    """
    root_id = root_of(database, id_, scope)
    with database.read() as tx:
        at = at and as_id(at, "node")
        shape = tree_shape.read(tx, root_id, scope, around=at)
        outlines = shape.outlines
        if at is not None and at not in outlines.nodes:
            raise _not_in_tree(at, root_id)
        units = outlines.outline(at, max(1, min(limit, MAX_BUDGET)))
        path = [OutlineNode(one, shape.count_children(one.id)) for one in outlines.path(at)] if at else []
        shown = _filled(tx, [*path, *units], scope)
    return {
        "root_id": root_id,
        "at": at,
        "path": shown[: len(path)],
        "nodes": shown[len(path) :],
        "total": len(outlines.nodes),
        "truncated": shape.truncated,
    }


def children(
    database: Database,
    id_: str,
    *,
    of: str,
    after: str | None = None,
    limit: int = 100,
    scope: Scope = None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the direct children of a node, or the members of a group, behind the child ``after``; and the id to go on
    after. Raises :class:`NotFound`.
    """
    root_id = root_of(database, id_, scope)
    with database.read() as tx:
        group = group_key(of)
        of = of if ":" in of else as_id(of, "node")
        node = of if group is None else group[0]
        # A match has two ids, and nothing below it.
        around = as_id(node, "node") if node is not None and ":" not in node else None
        shape = tree_shape.read(tx, root_id, scope, around=around)
        if group is None and around is not None and around not in shape.outlines.nodes:
            raise _not_in_tree(of, root_id)
        units = shape.outlines.below(of)
        if after is not None:
            places = {unit.node.id: place for place, unit in enumerate(units)}
            if after not in places:
                raise Invalid(
                    f"{after[:80]!r} is not below this node",
                    "the tree may have been pruned",
                    "leave out after",
                )
            units = units[places[after] + 1 :]
        return _filled(tx, units[:limit], scope), units[limit - 1].node.id if len(units) > limit else None


def _filled(tx: Tx, units: Sequence[OutlineNode], scope: Scope) -> list[dict[str, Any]]:
    """Return the nodes with what a page shows of them."""
    ids = {kind: [one.node.id for one in units if one.node.kind == kind] for kind in ("execution", "event")}
    executions = {row["id"]: row for row in listing.rows_of(tx, ids["execution"], scope)}
    events = {row["id"]: row for row in event_listing.rows_of(tx, ids["event"])}
    return [_shown(unit, executions, events) for unit in units]


def _shown(
    unit: OutlineNode, executions: Mapping[str, dict[str, Any]], events: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    node = unit.node
    row: Mapping[str, Any] = {}
    start: datetime | None = None
    about: str | None = None
    if node.kind == "execution":
        row = executions.get(node.id, {})
        start, about = row.get("started_at") or row.get("created_at"), row.get("about")
    elif node.kind == "event":
        row = events.get(node.id, {})
        start, about = row.get("time"), row.get("subject")
    return {
        "id": node.id,
        "kind": node.kind,
        "parent": node.parent,
        "name": node.name,
        "state": node.state,
        "version": row.get("version"),
        "about": about,
        "reason": node.reason,
        "start": start,
        "trigger": row.get("trigger"),
        "cause": row.get("cause"),
        "attempt": row.get("attempt"),
        "created_at": row.get("created_at"),
        "finished_at": row.get("finished_at"),
        "queued_seconds": row.get("queued_seconds"),
        "run_seconds": row.get("run_seconds"),
        "error_type": row.get("error_type"),
        "cancelled_by": row.get("cancelled_by"),
        "resolved_by": row.get("resolved_by"),
        "execution_id": node.execution_id,
        "children": unit.children,
        "left_out": unit.left_out,
        "worst": unit.worst,
        "count": unit.count,
        **unit.times(),
    }


def _summary(
    root_id: str,
    versions: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    decisions: Sequence[Mapping[str, Any]],
    spent: Mapping[str, Any] | None,
) -> dict[str, Any]:
    states: dict[str, int] = {}
    touched: dict[tuple[str, int], dict[str, Any]] = {}
    for row in versions:
        states[row["state"]] = states.get(row["state"], 0) + row["count"]
        key = row["function"], row["version"]
        one = touched.setdefault(key, {"function": key[0], "version": key[1], "executions": 0, "failures": 0})
        one["executions"] += row["count"]
        one["failures"] += row["count"] if row["state"] in ("failed", "timed_out", "dead") else 0
    firsts = [row["first"] for row in (*versions, *events) if row["first"] is not None]
    open_ = any(states.get(state) for state in ("queued", "running"))
    lasts = [row["last"] for row in versions if row["last"] is not None]
    return {
        "root_id": root_id,
        "executions": sum(states.values()),
        "states": states,
        "depth": max((row["depth"] for row in versions), default=0),
        "events": sum(row["count"] for row in events),
        "event_types": {row["type"]: row["count"] for row in events},
        "suppressed": [
            {"trigger": row["name"], "reason": row["reason"], "count": row["count"]}
            for row in decisions
            if row["decision"] == "suppressed"
        ],
        "triggers": sorted({row["name"] for row in decisions if row["decision"] == "fired"}),
        "functions": sorted(touched.values(), key=lambda one: (-one["executions"], one["function"])),
        "started_at": min(firsts, default=None),
        "finished_at": None if open_ else max(lasts, default=None),
        "budget": spent,
    }


def _not_in_tree(id_: str, root_id: str) -> NotFound:
    return NotFound(f"{id_} is not in the tree of {root_id}", "it is in another tree")

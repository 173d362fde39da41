"""Lineage: the causal tree of an event or execution, and the reason why an execution ran.

Every event and execution carries its root, so one root's rows are read with four statements and
put together by :func:`build_tree`, which is pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict

from functory.engine.database import prune_watermarks
from functory.engine.database.connection import Database, Tx
from functory.engine.database.dialects import json_member
from functory.engine.database.payloads import without_payloads
from functory.engine.database.schema import (
    budget,
    buffered_match,
    compensation,
    event,
    execution,
    firing,
    log,
    outbox,
    routing_queue,
    span,
    trigger,
)
from functory.engine.events import outbox as event_outbox
from functory.engine.events.firing_row import FIRING_ROW_COLUMNS, FiringRow
from functory.engine.events.store import as_id, stored_types
from functory.engine.executions import open_executions, resolutions, root_budget

# A tree larger than this is truncated, so that a fork bomb of events does not fill the reader's memory.
MAX_ROWS = 5000
# Executions of a function, and events of a type, that show which types the function emits.
LOOKED_AT = 200
# Levels of spans in spans. Code may nest more; those stand beside each other, so that no reader of a tree is too deep.
MAX_SPAN_LEVELS = 50


class NamedFiring(FiringRow, frozen=True):
    """A firing with the name of its trigger; None when the trigger is gone."""

    trigger: str | None


_NAMED = sa.select(*FIRING_ROW_COLUMNS, trigger.c.name.label("trigger")).outerjoin(
    trigger, trigger.c.id == firing.c.trigger_id
)


@dataclass
class Node:
    """A node of the tree: ``kind`` is event, execution, suppressed, joined or span; ``row`` holds its columns."""

    kind: str
    id: str
    row: Mapping[str, Any]
    children: list[Node] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the node and everything below it as JSON values."""
        row = {
            key: value.isoformat() if hasattr(value, "isoformat") else value
            for key, value in self.row.items()
            if key not in ("chain",) and value is not None
        }
        return {
            "kind": self.kind,
            "id": self.id,
            **row,
            "children": [child.as_json() for child in self.children],
        }

    def walk(self) -> Iterable[Node]:
        """Yield this node and all nodes below it, depth first."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


@dataclass(frozen=True)
class Tree:
    """A root's tree. ``truncated`` means that rows are left out; ``budget`` is (used, maximum) or None."""

    root_id: str
    nodes: list[Node]
    truncated: bool
    budget: tuple[int, int] | None


class Lineage:
    """Reads trees and causes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def tree(self, id_: str, *, whole: bool = True) -> Tree:
        """Return the tree that an event or execution belongs to; only the part below it unless ``whole``.

        Raises :class:`NotFound`.
        """
        id_ = as_id(id_, "event or execution")
        with self._database.read() as tx:
            root = _root_of(tx, id_)
            # Of the data of an event the tree shows only the name of a matched pattern.
            pattern = sa.case((event.c.type == "output.matched", json_member(tx, event.c.data, "pattern")))
            events = _of_root(tx, event, event.c.root_id, root, pattern.label("pattern"))
            executions = resolutions.with_resolutions(tx, _of_root(tx, execution, execution.c.root_id, root))
            firings = tx.rows(_NAMED.where(firing.c.root_id == root).order_by(firing.c.time).limit(MAX_ROWS))
            ids = [row["id"] for row in executions]
            spans = (
                tx.rows(
                    sa.select(span)
                    .where(span.c.execution_id.in_(ids))
                    .order_by(span.c.execution_id, span.c.fence, span.c.seq)
                    .limit(MAX_ROWS)
                )
                if ids
                else []
            )
            gone = _missing(tx, {row["execution_id"] for row in firings if row["joint"]} - set(ids))
            firings = [row | {"pruned": row["execution_id"] in gone} for row in firings]
            used = tx.first(sa.select(budget).where(budget.c.root_id == root))
            joint = _event_counts(tx, [row["id"] for row in executions if row["trigger_id"] is not None])
            undone = compensations(tx, [row["id"] for row in executions if row["cause"] == "compensation"])
        nodes = build_tree(events, executions, firings, spans, joint, undone)
        if not whole:
            found = next((n for top in nodes for n in top.walk() if n.id == id_), None)
            nodes = [found] if found is not None else nodes
        cut = any(len(rows) >= MAX_ROWS for rows in (events, executions, firings, spans))
        return Tree(root, nodes, cut, (used["used"], used["maximum"]) if used else None)

    def cause(self, execution_id: str) -> dict[str, Any]:
        """Return why an execution exists: its row with ``waiting_for_slot``, and the event, trigger, firing or parent
        that made it.

        ``events`` are all events of an execution that several started, the deciding one (``event``) among them;
        ``pruned`` are the ids of the executions that it names and that were deleted.
        """
        execution_id = as_id(execution_id, "execution")
        with self._database.read() as tx:
            row = tx.first(sa.select(execution).where(execution.c.id == execution_id))
            if row is None:
                raise prune_watermarks.missing(
                    tx, execution_id, f"execution {execution_id} not found", "functory execution list"
                )
            (row,) = resolutions.with_resolutions(tx, [row])
            row["waiting_for_slot"] = open_executions.is_waiting_for_slot(tx, execution_id)
            found: dict[str, Any] = {
                "execution": row,
                "event": None,
                "events": [],
                "firing": None,
                "parent": None,
                "waits_for": None,
            }
            if row["event_id"]:
                found["event"] = tx.first(sa.select(event).where(event.c.id == row["event_id"]))
                found["firing"] = tx.first(
                    _NAMED.where(
                        firing.c.trigger_id == row["trigger_id"], firing.c.event_id == row["event_id"]
                    )
                )
                found["events"] = tx.rows(
                    sa.select(event)
                    .join(firing, firing.c.event_id == event.c.id)
                    .where(firing.c.execution_id == execution_id, sa.text("firing.joint"))
                    .order_by(event.c.id)
                )
            found["undoes"] = compensations(tx, [execution_id]).get(execution_id)
            found["plan"] = tx.rows(
                sa.select(compensation)
                .where(compensation.c.saga_id == execution_id)
                .order_by(compensation.c.position)
            )
            if row["parent_id"]:
                found["parent"] = tx.first(sa.select(execution).where(execution.c.id == row["parent_id"]))
            found["pruned"] = _missing(tx, {row["replay_of"]} - {None})
            found["stopped"] = tx.rows(
                sa.select(firing, trigger.c.name.label("trigger"), event.c.type)
                .join(event, event.c.id == firing.c.event_id)
                .outerjoin(trigger, trigger.c.id == firing.c.trigger_id)
                .where(event.c.cause_execution_id == execution_id, firing.c.decision == "suppressed")
                .order_by(firing.c.time)
            )
        return found

    def decisions(self, event_id: str) -> list[NamedFiring]:
        """Return the recorded decisions about one event, by the names of the triggers."""
        of_event = _NAMED.where(firing.c.event_id == as_id(event_id, "event"))
        with self._database.read() as tx:
            return tx.all(NamedFiring, of_event.order_by(trigger.c.name))

    def firings(self, event_id: str) -> list[dict[str, Any]]:
        """Return :meth:`decisions` as dictionaries."""
        return [asdict(one) for one in self.decisions(event_id)]

    def emitted_types(self, functions: Iterable[str]) -> dict[str, list[str]]:
        """Return the types of the events that executions of these functions have emitted themselves.

        Bounded, so that it does not take longer with the history: of each function its newest executions are looked at,
        and of each type its newest events.
        """
        wanted = sorted(set(functions))
        found: dict[str, set[str]] = {name: set() for name in wanted}
        with self._database.read() as tx:
            for name in wanted:
                newest = (
                    sa.select(execution.c.id)
                    .where(execution.c.function == name)
                    .order_by(execution.c.id.desc())
                    .limit(LOOKED_AT)
                )
                caused = event.c.cause_execution_id.in_(newest)
                found[name].update(
                    row["type"] for row in tx.rows(sa.select(event.c.type).distinct().where(caused))
                )
            for type_ in stored_types(tx) if wanted else ():
                if _is_own(type_):
                    newest = (
                        sa.select(event.c.cause_execution_id)
                        .where(event.c.type == type_)
                        .order_by(event.c.id.desc())
                        .limit(LOOKED_AT)
                    )
                    causes = sa.select(execution.c.function).distinct().where(execution.c.id.in_(newest))
                    for row in tx.rows(causes):
                        if row["function"] in found:
                            found[row["function"]].add(type_)
        return {
            name: sorted(filter(_is_own, types)) for name, types in found.items() if any(map(_is_own, types))
        }

    def change_budget(self, id_: str, maximum: int, *, author: str = "") -> str:
        """Change how many executions the tree of an event or execution may cause. Returns the id of its root. Raises
        :class:`NotFound`.
        """
        id_ = as_id(id_, "event or execution")
        with self._database.read() as tx:
            root = _root_of(tx, id_)
        root_budget.change(self._database, root, maximum, author=author)
        return root

    def open_work(self, root_id: str | None = None) -> dict[str, int]:
        """Count the unfinished work of all roots or of one: pending events, unpublished events, queued
        and running executions, matches that wait for others, and steps to be undone (not those behind one that could
        not be). One statement, so that work cannot move on between
        two counts."""
        counts = {
            "pending events": _counted(
                event,
                event.c.id.in_(
                    sa.select(routing_queue.c.event_id).where(routing_queue.c.quarantined.is_(False))
                ),
                root_id,
            ),
            "unpublished events": _unpublished(root_id),
            "queued executions": _counted_open("queued", root_id),
            "running executions": _counted_open("running", root_id),
            "waiting matches": _counted(buffered_match, sa.true(), root_id),
            "open compensations": _open_compensations(root_id),
        }
        with self._database.read() as tx:
            return {
                name: int(count)
                for name, count in (
                    tx.first(sa.select(*(c.label(n) for n, c in counts.items()))) or {}
                ).items()
            }

    def totals(self) -> dict[str, int]:
        """Return counts for a summary: executions by state, events, firings by decision, log lines."""
        with self._database.read() as tx:
            states = tx.pairs(sa.select(execution.c.state, sa.func.count()).group_by(execution.c.state))
            decisions = tx.pairs(sa.select(firing.c.decision, sa.func.count()).group_by(firing.c.decision))
            found = {f"executions {state}": count for state, count in states.items()}
            found |= {f"firings {decision}": count for decision, count in decisions.items()}
            found["events"] = int(tx.scalar(sa.select(sa.func.count()).select_from(event)) or 0)
            found["spans"] = int(tx.scalar(sa.select(sa.func.count()).select_from(span)) or 0)
            found["log lines"] = int(tx.scalar(sa.select(sa.func.count()).select_from(log)) or 0)
        return found


def _is_own(type_: str) -> bool:
    """Return False for an event that the engine writes about an execution or a trigger."""
    return not type_.startswith(("execution.", "trigger.")) and type_ != "output.matched"


def build_tree(
    events: Iterable[Mapping[str, Any]],
    executions: Iterable[Mapping[str, Any]],
    firings: Iterable[Mapping[str, Any]],
    spans: Iterable[Mapping[str, Any]],
    event_counts: Mapping[str, int] | None = None,
    compensations: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Node]:
    """Build the tree of one root. An execution is below the event that fired it or below its
    parent; an event below the execution that caused it; what has neither is a top of the tree.

    ``joint`` says how many events started an execution together (``event_count`` of its row). It is placed below the
    event that decided; below the others a node ``joined`` leads to it, maybe into another root's tree. ``undone`` are
    the rows of the compensations by the executions that run them.
    """
    event_nodes = {row["id"]: Node("event", row["id"], row) for row in events}
    fired = {(row["trigger_id"], row["event_id"]): row for row in firings}
    execution_nodes: dict[str, Node] = {}
    for row in executions:
        by = fired.get((row["trigger_id"], row["event_id"]))
        extra = {"trigger": by["trigger"], "trigger_version": by["trigger_version"]} if by else {}
        if event_counts and row["id"] in event_counts:
            extra["event_count"] = event_counts[row["id"]]
        if compensations and row["id"] in compensations:
            step = compensations[row["id"]]
            extra |= {"undoes": step["function"], "undoes_id": step["step_id"]}
        execution_nodes[row["id"]] = Node("execution", row["id"], {**row, **extra})
    _attach_spans(execution_nodes, spans)
    tops: list[Node] = []
    children: dict[str, list[Node]] = defaultdict(list)
    for node in execution_nodes.values():
        above = node.row["event_id"] if node.row["event_id"] in event_nodes else node.row["parent_id"]
        children[above].append(node) if above in event_nodes or above in execution_nodes else tops.append(
            node
        )
    for node in event_nodes.values():
        above = node.row["cause_execution_id"]
        children[above].append(node) if above in execution_nodes else tops.append(node)
    for row in fired.values():
        if row["decision"] == "suppressed" and row["event_id"] in event_nodes:
            children[row["event_id"]].append(
                Node("suppressed", f"{row['trigger_id']}:{row['event_id']}", row)
            )
        elif row.get("joint") and row["event_id"] in event_nodes and not _decided(execution_nodes, row):
            children[row["event_id"]].append(Node("joined", f"{row['trigger_id']}:{row['event_id']}", row))
    for id_, nodes in children.items():
        holder = execution_nodes.get(id_) or event_nodes[id_]
        holder.children.extend(sorted(nodes, key=_sort_key))
    return sorted(tops, key=_sort_key)


def _attach_spans(nodes: Mapping[str, Node], spans: Iterable[Mapping[str, Any]]) -> None:
    known: dict[tuple[str, int, int], Node] = {}
    for row in spans:
        node = Node("span", f"{row['execution_id']}:{row['fence']}:{row['seq']}", row)
        known[row["execution_id"], row["fence"], row["seq"]] = node
    levels: dict[str, int] = {}
    for (execution_id, fence, _), node in sorted(known.items()):
        # A span begins after the one around it.
        above = (
            known.get((execution_id, fence, node.row["parent_seq"]))
            if node.row["parent_seq"] is not None
            else None
        )
        level = 1 + levels.get(above.id, 0) if above is not None else 1
        levels[node.id] = level
        holder = above if above is not None and level <= MAX_SPAN_LEVELS else nodes.get(execution_id)
        if holder is not None:
            holder.children.append(node)


def _decided(executions: Mapping[str, Node], row: Mapping[str, Any]) -> bool:
    """Return True when the event of a firing is the parent of its execution in the tree."""
    node = executions.get(row["execution_id"])
    return node is not None and node.row["event_id"] == row["event_id"]


def _sort_key(node: Node) -> str:
    # UUIDv7 sorts by time; suppressed and joined firings come after the executions.
    return node.id if node.kind not in ("suppressed", "joined") else "~" + str(node.row["trigger"])


def _event_counts(tx: Tx, ids: list[str]) -> dict[str, int]:
    """Return the number of events that started each of these executions, if more than one."""
    if not ids:
        return {}
    return tx.pairs(
        sa.select(firing.c.execution_id, sa.func.count())
        .where(firing.c.execution_id.in_(ids), sa.text("firing.joint"))
        .group_by(firing.c.execution_id)
    )


def compensations(tx: Tx, ids: list[str]) -> dict[str, dict[str, Any]]:
    """Return the compensations that these executions run."""
    if not ids:
        return {}
    rows = tx.rows(
        sa.select(compensation)
        .join(execution, execution.c.parent_id == compensation.c.saga_id)
        .where(execution.c.id.in_(ids), compensation.c.execution_id == execution.c.id)
    )
    return {row["execution_id"]: row for row in rows}


def _root_of(tx: Tx, id_: str) -> str:
    for table in (execution, event):
        root = tx.scalar(sa.select(table.c.root_id).where(table.c.id == id_))
        if root is not None:
            return root
    raise prune_watermarks.missing(
        tx, id_, f"no event or execution {id_}", "functory execution list, or functory event list"
    )


def _missing(tx: Tx, ids: set[str]) -> list[str]:
    """Return those of these executions that were deleted."""
    if not ids:
        return []
    there = set(tx.execute(sa.select(execution.c.id).where(execution.c.id.in_(sorted(ids)))).scalars())
    return sorted(ids - there)


def _of_root(
    tx: Tx, table: sa.Table, column: sa.Column[Any], root: str, *more: sa.ColumnElement[Any]
) -> list[dict[str, Any]]:
    statement = sa.select(*without_payloads(table), *more).where(column == root)
    return tx.rows(statement.order_by(table.c.id).limit(MAX_ROWS))


def _counted(table: sa.Table, condition: sa.ColumnElement[bool], root_id: str | None) -> sa.ScalarSelect[int]:
    statement = sa.select(sa.func.count()).select_from(table).where(condition)
    return (statement if root_id is None else statement.where(table.c.root_id == root_id)).scalar_subquery()


def _counted_open(state: str, root_id: str | None) -> sa.ScalarSelect[int]:
    ids = open_executions.open_ids(queued=state == "queued", running=state == "running")
    if root_id is None:
        return sa.select(sa.func.count()).select_from(ids.subquery()).scalar_subquery()
    return _counted(execution, execution.c.state == state, root_id)


def _unpublished(root_id: str | None) -> sa.ScalarSelect[int]:
    if root_id is None:
        return sa.select(sa.func.coalesce(sa.func.sum(outbox.c.count), 0)).scalar_subquery()
    ids = event_outbox.unpublished_ids().subquery("unpublished")
    found = sa.select(sa.func.count()).select_from(event).join(ids, ids.c.event_id == event.c.id)
    return found.where(event.c.root_id == root_id).scalar_subquery()


def _open_compensations(root_id: str | None) -> sa.ScalarSelect[int]:
    stuck = compensation.alias("stuck")
    open_ = sa.and_(
        compensation.c.state.in_(("waiting", "pending", "running")),
        ~sa.exists().where(stuck.c.saga_id == compensation.c.saga_id, stuck.c.state == "failed"),
    )
    statement = sa.select(sa.func.count()).select_from(compensation).where(open_)
    if root_id is not None:
        of_root = sa.select(execution.c.id).where(execution.c.root_id == root_id)
        statement = statement.where(compensation.c.saga_id.in_(of_root))
    return statement.scalar_subquery()

"""Concurrency limits: at most *N* executions with the same key run at once; the rest wait for a slot.

An execution has a row of table ``slot`` for each concurrency group that it belongs to, written in the transaction that
starts it. It waits (``waiting_for_slot``) until it has all its slots, which it takes together: an execution that waits
for one group does not block another (:mod:`functory.engine.flow_control.slot_assignment`).

The slots are released in the transaction that ends the execution. An execution that waits for a retry releases the
slots of concurrency limits (as in Inngest: a sleeping run does not count) and keeps the slot of its overlap rule. A
lost or released attempt keeps all slots, for it runs again at once. A slot therefore needs no lease of its own.

The queue of a group is ordered by ``queue_at`` (the event's time, moved by priority), then by event id. With a capacity
of 1 the executions of a key start in the order of their events, with any number of routers. Each slot keeps the
capacity of its trigger: triggers that share a group with different limits each stop at their own number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import clock, row_locks
from functory.engine.database.schema import Id, Instant, backlog, concurrency_group, execution, slot
from functory.engine.database.transaction import Tx
from functory.engine.flow_control.controls import Controls, Key
from functory.engine.flow_control.trigger_row import FiringTrigger
from functory.engine.serialization import json_codec

# ``rule`` of a slot: 0 and 1 are the trigger's concurrency limits, in their order.
OVERLAP_RULE = 2
# The capacity of a rule without a limit.
UNLIMITED = 2**31 - 1

_OPEN = execution.c.state.in_(("queued", "running"))
# In the words of the partial index.
WAITING_FOR_SLOT = sa.text("backlog.waiting_for_slot")


@dataclass(frozen=True)
class SlotRequest:
    """A slot that an execution needs: its group, the rule of the trigger that asks for it, and that rule's capacity."""

    group_key: str
    text: str
    rule: int
    capacity: int


def slot_requests(trigger: FiringTrigger, function: str, controls: Controls) -> list[SlotRequest]:
    """Return the slots that a trigger's concurrency limits ask for. Two limits with the same group are one slot."""
    found: dict[str, SlotRequest] = {}
    for rule, limit in enumerate(controls.concurrency_limits):
        owner, name = {
            "trigger": (f"{trigger.id}/{rule}", trigger.name),
            "function": (function, function),
            "global": ("", ""),
        }[limit.scope]
        text = " ".join(filter(None, (limit.scope, name, limit.key.text)))
        request = SlotRequest(_hash(limit.scope, owner, limit.key), text, rule, limit.capacity)
        other = found.get(request.group_key)
        if other is None or other.capacity > request.capacity:
            found[request.group_key] = request
    return list(found.values())


def overlap_slot_request(trigger: FiringTrigger, key: Key) -> SlotRequest:
    """Return the slot that marks an execution of this key as open."""
    text = " ".join(filter(None, ("overlap", trigger.name, key.text)))
    return SlotRequest(_hash("overlap", trigger.id, key), text, OVERLAP_RULE, capacity=1)


def queue_at(event_id: str, priority: float) -> datetime:
    """Return an event's position in a queue: the time in its id (a UUIDv7), ``priority`` seconds earlier."""
    return clock.time_of_id(event_id) - timedelta(seconds=priority)


def lock_groups(tx: Tx, requests: Iterable[SlotRequest], *, keep: bool = False) -> None:
    """Lock the rows of these groups until the commit, and insert missing ones. ``keep`` only prevents deletion."""
    rows = {
        one.group_key: {"key": one.group_key, "text": one.text, "capacity": one.capacity} for one in requests
    }
    found = row_locks.lock(tx, concurrency_group, list(rows.values()), key_share=keep)
    for key in sorted(rows):
        if found[key,]["capacity"] != rows[key]["capacity"]:
            tx.execute(
                sa.update(concurrency_group)
                .where(concurrency_group.c.key == key)
                .values(capacity=rows[key]["capacity"])
            )


def enqueue(tx: Tx, requests: Iterable[tuple[Mapping[str, Any], SlotRequest, datetime, bool]]) -> None:
    """Insert slots: (execution row, request, queue_at, taken at once). The rows of the groups must exist."""
    tx.insert(
        slot,
        [
            {
                "group_key": request.group_key,
                "execution_id": row["id"],
                "rule": request.rule,
                "capacity": request.capacity,
                "position": row["event_id"] or row["id"],
                "queue_at": at,
                "taken_at": tx.now if taken else None,
            }
            for row, request, at, taken in requests
        ],
    )
    tx.wake("flow")


def release(tx: Tx, execution_id: str) -> None:
    """Release all slots of an execution that has ended."""
    tx.execute(_RELEASE, {"id": execution_id})
    tx.wake("flow")


def release_for_retry(tx: Tx, execution_id: str) -> None:
    """Release the slots of concurrency limits while an execution waits for its retry. It queues for them again.

    The execution is in the backlog already.
    """
    freed = tx.execute(
        sa.update(slot)
        .where(slot.c.execution_id == execution_id, slot.c.rule != OVERLAP_RULE)
        .values(taken_at=None)
    ).rowcount
    if freed:
        tx.execute(
            sa.update(backlog).where(backlog.c.execution_id == execution_id).values(waiting_for_slot=True)
        )
    tx.wake("flow")


def next_due(tx: Tx) -> datetime | None:
    """Return the earliest ``run_at`` in the future among waiting executions; None when there is none."""
    return tx.scalar(_NEXT_DUE, {"now": tx.now})


def waiting_trigger_ids(tx: Tx) -> list[str]:
    """Return the ids of triggers with executions that wait for a slot."""
    return list(tx.execute(_TRIGGERS).scalars())


# Built once, because flow control runs them in every round.
_NOW = sa.bindparam("now", type_=Instant)
_LIMIT = sa.bindparam("limit", type_=sa.Integer)
_RELEASE = sa.delete(slot).where(slot.c.execution_id == sa.bindparam("id", type_=Id))
_UPDATE_CAPACITY = (
    sa.update(slot)
    .where(
        slot.c.execution_id.in_(
            sa.select(backlog.c.execution_id).where(
                backlog.c.trigger_id == sa.bindparam("trigger", type_=Id), WAITING_FOR_SLOT
            )
        ),
        slot.c.rule == sa.bindparam("of"),
        slot.c.taken_at.is_(None),
        slot.c.capacity != sa.bindparam("most"),
    )
    .values(capacity=sa.bindparam("most"))
)
_ENDED = sa.delete(slot).where(
    slot.c.execution_id.in_(
        sa.select(slot.c.execution_id)
        .join(execution, execution.c.id == slot.c.execution_id)
        .where(sa.not_(_OPEN))
        .limit(_LIMIT)
    )
)
_USED = sa.exists(sa.select(slot.c.group_key).where(slot.c.group_key == concurrency_group.c.key))
_EMPTY = (
    sa.select(concurrency_group.c.key)
    .where(sa.not_(_USED))
    .order_by(concurrency_group.c.key)
    .limit(_LIMIT)
    .with_for_update(skip_locked=True)
)
_NEXT_DUE = sa.select(sa.func.min(backlog.c.run_at)).where(WAITING_FOR_SLOT, backlog.c.run_at > _NOW)
_TRIGGERS = sa.select(backlog.c.trigger_id).distinct().where(WAITING_FOR_SLOT)


def update_capacities(tx: Tx, trigger_id: str, capacities: Mapping[int, int]) -> None:
    """Apply a trigger's changed limits, by rule, to executions that already wait. A removed rule has no limit."""
    for rule in (0, 1, OVERLAP_RULE):
        given = {"trigger": trigger_id, "of": rule, "most": capacities.get(rule, UNLIMITED)}
        if tx.execute(_UPDATE_CAPACITY, given).rowcount:
            tx.wake("flow")


def sweep(tx: Tx, limit: int) -> int:
    """Delete slots that ended executions left behind, and groups without slots. Returns the number of rows."""
    done = tx.execute(_ENDED, {"limit": limit}).rowcount
    if done:
        tx.wake("flow")
    keys = list(tx.execute(_EMPTY, {"limit": limit}).scalars())
    if keys:
        # Checked again under the locks: a slot may have been inserted before they were taken.
        done += tx.execute(
            sa.delete(concurrency_group).where(concurrency_group.c.key.in_(keys), sa.not_(_USED))
        ).rowcount
    return done


def count_waiting(tx: Tx) -> dict[str, int]:
    """Return the number of waiting slots, for ``concurrency`` and for ``overlap``."""
    control = sa.case((slot.c.rule == OVERLAP_RULE, "overlap"), else_="concurrency")
    return tx.pairs(
        sa.select(control, sa.func.count()).where(sa.text("slot.taken_at IS NULL")).group_by(control)
    )


def slots_of_execution(tx: Tx, execution_id: str) -> list[dict[str, Any]]:
    """Return the slots of an execution: readable ``group``, ``capacity``, ``taken_at``, ``ahead`` (the number of
    waiting slots before it) and ``running`` (the number of taken slots).
    """
    other = slot.alias()
    before = (
        sa.select(sa.func.count())
        .select_from(other)
        .where(
            other.c.group_key == slot.c.group_key,
            other.c.taken_at.is_(None),
            sa.tuple_(other.c.queue_at, other.c.position) < sa.tuple_(slot.c.queue_at, slot.c.position),
        )
        .scalar_subquery()
    )
    running = (
        sa.select(sa.func.count())
        .select_from(other)
        .where(other.c.group_key == slot.c.group_key, other.c.taken_at.is_not(None))
        .scalar_subquery()
    )
    return tx.rows(
        sa.select(
            concurrency_group.c.text.label("group"),
            slot.c.capacity,
            slot.c.taken_at,
            before.label("ahead"),
            running.label("running"),
        )
        .join(concurrency_group, concurrency_group.c.key == slot.c.group_key)
        .where(slot.c.execution_id == execution_id)
        .order_by(slot.c.rule)
    )


def _hash(scope: str, owner: str, key: Key) -> str:
    return json_codec.digest([scope, owner, key.hash])[:32]

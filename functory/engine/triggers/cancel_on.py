"""Cancel-on: events that cancel what a trigger has started, or still holds, for events before them.

A router notes that an event matched one of a trigger's rules, in the transaction that routes it. It is carried out once
every event before it is routed: only then is everything there that it may have to cancel. What is open and was started
by an event before it is cancelled (at once, or by its worker where it runs); so is a match that waits in a bucket. What
the trigger starts for later events is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, bucket, cancellation, event, execution, hold
from functory.engine.database.transaction import Tx
from functory.engine.events import routing_queue
from functory.engine.executions import store as execution_store
from functory.engine.triggers.admission import Suppress, SuppressedMatch


@dataclass(frozen=True)
class Cancel:
    """An event that the trigger's cancel-on rule number ``rule`` matched."""

    trigger: Mapping[str, Any]
    rule: int


@dataclass(frozen=True)
class CancelCheck:
    """Whether an event cancels: by rule ``rule`` of a trigger, what the event ``started`` started at ``since``. Events
    are rows."""

    trigger_id: str
    rule: int
    event: Mapping[str, Any]
    started: Mapping[str, Any]
    since: datetime


@dataclass
class CancelResult:
    """What a round did: cancellations that are over, executions that were cancelled, matches that no longer wait."""

    processed: int = 0
    cancelled: int = 0
    refused: Sequence[SuppressedMatch] = ()


def record(tx: Tx, found: Sequence[tuple[Mapping[str, Any], Cancel]]) -> None:
    """Remember these events; they are carried out once every event before them has been routed."""
    tx.insert(
        cancellation,
        [
            {"trigger_id": one.trigger["id"], "event_id": row["id"], "rule": one.rule, "time": tx.now}
            for row, one in found
        ],
    )
    if found:
        tx.wake("flow")


def are_due(tx: Tx) -> bool:
    """Whether there is any to carry out. A look that locks nothing."""
    if tx.scalar(_ANY) is None:
        return False
    first = routing_queue.first_unrouted(tx)
    return first is None or tx.scalar(_ANY_BEFORE, {"first": first}) is not None


def apply_due(
    tx: Tx,
    limit: int,
    triggers: Callable[[str], Mapping[str, Any] | None],
    cancels: Callable[[CancelCheck], bool],
) -> CancelResult:
    """Carry out up to ``limit`` of them, oldest first.

    ``triggers`` gives the row of a trigger as it is now (None: it is gone), ``cancels`` answers by its rule. The
    caller writes the firings of what is ``refused``, in the same transaction.
    """
    first = routing_queue.first_unrouted(tx)
    given = {"limit": limit}
    noted = tx.rows(_DUE, given) if first is None else tx.rows(_DUE_BEFORE, {**given, "first": first})
    by_id = _events(tx, [one["event_id"] for one in noted])
    deeds = [
        _Cancellation(tx, trigger, one["rule"], by_id[one["event_id"]], cancels)
        for one in noted
        if (trigger := triggers(one["trigger_id"])) is not None
    ]
    # Buckets before executions, and in their order: as everybody locks them.
    _lock_buffers(tx, deeds)
    done = CancelResult(processed=len(noted))
    done.refused = [refused for deed in deeds for refused in deed.drop_buffered()]
    done.cancelled = sum(deed.cancel_executions() for deed in deeds)
    if noted:
        keys = [(one["trigger_id"], one["event_id"], one["rule"]) for one in noted]
        tx.execute(sa.delete(cancellation).where(sa.tuple_(*cancellation.primary_key.columns).in_(keys)))
    return done


# Asked in every turn of flow control: built once.
_BEFORE = cancellation.c.event_id < sa.bindparam("first", type_=Id)
_ANY = sa.select(sa.literal(1)).select_from(cancellation).limit(1)
_ANY_BEFORE = _ANY.where(_BEFORE)
_DUE = (
    sa.select(cancellation)
    .order_by(cancellation.c.event_id, cancellation.c.trigger_id, cancellation.c.rule)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
_DUE_BEFORE = _DUE.where(_BEFORE)


def _events(tx: Tx, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    rows = tx.rows(sa.select(event).where(event.c.id.in_(sorted(set(ids))))) if ids else []
    return {row["id"]: row for row in rows}


def _lock_buffers(tx: Tx, deeds: Sequence[_Cancellation]) -> None:
    """Lock the buckets in which there is something that may have to be taken out."""
    if tx.dialect != "postgresql" or not deeds:
        return
    held = sa.or_(*(sa.and_(*deed.earlier_matches) for deed in deeds))
    keys = tx.connection.execute(sa.select(hold.c.trigger_id, hold.c.key).distinct().where(held)).all()
    if keys:
        mine = sa.tuple_(bucket.c.trigger_id, bucket.c.key).in_([tuple(key) for key in keys])
        order = (bucket.c.trigger_id, bucket.c.key)
        tx.rows(sa.select(*order).where(mine).order_by(*order).with_for_update())


@dataclass(frozen=True)
class _Cancellation:
    """One event that cancels by one rule."""

    tx: Tx
    trigger: Mapping[str, Any]
    rule: int
    event: Mapping[str, Any]
    cancels: Callable[[CancelCheck], bool]

    @property
    def earlier_matches(self) -> list[sa.ColumnElement[bool]]:
        """The matches that wait in a bucket and came before."""
        return [hold.c.trigger_id == self.trigger["id"], hold.c.event_id < self.event["id"]]

    def drop_buffered(self) -> list[SuppressedMatch]:
        """Take the matches that the rule answers yes for out of their buckets."""
        waiting = self.tx.rows(sa.select(hold).where(*self.earlier_matches).order_by(hold.c.event_id))
        started = _events(self.tx, [row["event_id"] for row in waiting])
        refused: list[SuppressedMatch] = []
        for row in waiting:
            one = started[row["event_id"]]
            if not self._applies_to(one, row["time"]):
                continue
            mine = hold.c.trigger_id == self.trigger["id"], hold.c.event_id == row["event_id"]
            self.tx.execute(sa.delete(hold).where(*mine))
            # It is looked at again: it may be empty by now.
            self.tx.execute(
                sa.update(bucket)
                .where(bucket.c.trigger_id == self.trigger["id"], bucket.c.key == row["key"])
                .values(count=bucket.c.count - 1, bytes=bucket.c.bytes - row["bytes"], due_at=self.tx.now)
            )
            refused.append((one, Suppress(self.trigger, "cancelled", detail=f"by event {self.event['id']}")))
        return refused

    def cancel_executions(self) -> int:
        """Cancel the open executions that the rule answers yes for. Returns how many."""
        open_ = self.tx.rows(
            sa.select(execution.c.id, execution.c.event_id, execution.c.created_at)
            .where(
                execution.c.trigger_id == self.trigger["id"],
                execution.c.state.in_(execution_store.OPEN),
                execution.c.event_id < self.event["id"],
            )
            .order_by(execution.c.id)
        )
        started = _events(self.tx, [row["event_id"] for row in open_])
        because = f"trigger {self.trigger['name']}, by event {self.event['id']}"
        asked = [row["id"] for row in open_ if self._applies_to(started[row["event_id"]], row["created_at"])]
        return sum(execution_store.cancel_open(self.tx, id_, because) is not None for id_ in asked)

    def _applies_to(self, started: Mapping[str, Any], since: datetime) -> bool:
        return self.cancels(CancelCheck(self.trigger["id"], self.rule, self.event, started, since))

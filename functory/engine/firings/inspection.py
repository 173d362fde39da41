"""Trigger inspection: the matches and executions that wait for a trigger, by key, read in one snapshot.

The rows show the state of each control (``functory.engine.flow_control.controls`` has their order);
``functory trigger debug`` shows the trigger's definition beside them. Every list has its first ``MAX_ROWS`` rows and
the count of all, so that ten thousand open keys are read as quickly as ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import (
    breaker,
    buffered_match,
    cancellation,
    concurrency_group,
    event,
    execution,
    idempotency_key,
    match_buffer,
    rate_limit,
    routing_queue,
    slot,
    suppression,
    trigger,
    trigger_version,
)
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound
from functory.engine.events import kill_switch
from functory.engine.executions import open_executions

# Keys, concurrency groups and executions that are listed.
MAX_ROWS = 20


@dataclass(frozen=True)
class Page:
    """The first rows of a query, and the number of all."""

    rows: Sequence[Mapping[str, Any]] = ()
    count: int = 0

    @property
    def remaining(self) -> int:
        """The number of further rows."""
        return max(0, self.count - len(self.rows))


@dataclass(frozen=True)
class TriggerInspection:
    """A trigger's row with its definition, and all that waits for it as of ``now``.

    - ``buffers``: key, opened_at, due_at, memory, matches, bytes, first_time, last_time (by the events' own time), and
      ``parts``: part number → count. Those that are due first come first. ``matches`` counts those of all buffers.
    - ``concurrency_groups``: key, capacity, taken, waiting, and two lists of executions, ``holders`` of slots and the
      ``queue``: id, function, trigger, state, worker, position, and times.
    - ``throttle``, ``rate_limit``: key, next_at (GCRA), dropped.
    - ``idempotency_keys``: key, event_id, expires_at, newest first.
    - ``cancellations``: event_id, rule, type, subject, time.
    - ``executions``: the open ones of this trigger, in the order in which they start; ``states`` counts them. Like
      ``suppressed`` they are of all keys, with or without a ``key``.
    - ``suppressed``: reason → count.
    """

    now: datetime
    trigger: Mapping[str, Any]
    halted: bool
    pending: int
    breaker: Mapping[str, Any] | None
    key: str | None = None
    buffers: Page = field(default_factory=Page)
    matches: int = 0
    concurrency_groups: Page = field(default_factory=Page)
    throttle: Page = field(default_factory=Page)
    rate_limit: Page = field(default_factory=Page)
    dropped: int = 0
    idempotency_keys: Page = field(default_factory=Page)
    cancellations: Page = field(default_factory=Page)
    executions: Page = field(default_factory=Page)
    states: Mapping[str, int] = field(default_factory=dict)
    suppressed: Mapping[str, int] = field(default_factory=dict)


def inspect(
    database: Database, name: str, *, key: str | None = None, max_rows: int = MAX_ROWS
) -> TriggerInspection:
    """Return what waits for the trigger ``name``; with a ``key`` only what waits for that key.

    Every list has at most ``max_rows`` rows. Raises :class:`NotFound`.
    """
    with database.read(snapshot=True) as tx:
        row = tx.first(
            sa.select(trigger, trigger_version.c.definition)
            .join(
                trigger_version,
                sa.and_(
                    trigger_version.c.trigger_id == trigger.c.id,
                    trigger_version.c.number == trigger.c.version,
                ),
            )
            .where(trigger.c.name == name, trigger.c.state != "deleted")
        )
        if row is None:
            raise NotFound(f"trigger {name!r} not found", try_="functory trigger list")
        queries = _Queries(tx, row["id"], key, max_rows)
        buffers, matches = queries.buffers()
        dropped = sa.select(sa.func.coalesce(sa.func.sum(rate_limit.c.dropped), 0)).where(
            *queries.only(rate_limit, rate_limit.c.owner_id), rate_limit.c.control == "rate_limit"
        )
        return TriggerInspection(
            now=tx.now,
            trigger=row,
            halted=kill_switch.is_halted(tx),
            pending=_count(tx, routing_queue, routing_queue.c.quarantined.is_(False)),
            key=key,
            breaker=tx.first(sa.select(breaker).where(breaker.c.trigger_id == row["id"])),
            buffers=buffers,
            matches=matches,
            concurrency_groups=queries.concurrency_groups(),
            throttle=queries.rate_limits("throttle", rate_limit.c.next_allowed_at > tx.now),
            rate_limit=queries.rate_limits(
                "rate_limit", sa.or_(rate_limit.c.next_allowed_at > tx.now, rate_limit.c.dropped > 0)
            ),
            dropped=int(tx.scalar(dropped) or 0),
            idempotency_keys=queries.idempotency_keys(),
            cancellations=queries.cancellations(),
            executions=queries.executions(),
            states=queries.states(),
            suppressed=tx.pairs(
                sa.select(suppression.c.reason, sa.func.sum(suppression.c.count))
                .where(suppression.c.trigger_id == row["id"])
                .group_by(suppression.c.reason)
                .order_by(suppression.c.reason)
            ),
        )


@dataclass(frozen=True)
class _Queries:
    """The queries of one trigger."""

    tx: Tx
    id: str
    key: str | None
    max_rows: int

    def only(
        self, table: sa.Table, owner: sa.ColumnElement[str] | None = None
    ) -> list[sa.ColumnElement[bool]]:
        """Return the filter for the trigger, and for the key if one is given."""
        mine = [(table.c.trigger_id if owner is None else owner) == self.id]
        return mine if self.key is None else [*mine, table.c.text == self.key[:200]]

    def buffers(self) -> tuple[Page, int]:
        """Return the buffers that are due first, and the number of matches in all of them."""
        found = self._part(
            match_buffer,
            self.only(match_buffer),
            [sa.nulls_last(match_buffer.c.due_at), match_buffer.c.opened_at, match_buffer.c.key],
        )
        counted: dict[str, dict[str, Any]] = {
            row["key"]: {"matches": 0, "bytes": 0, "first_time": None, "last_time": None, "parts": {}}
            for row in found.rows
        }
        for row in self.tx.rows(
            sa.select(
                buffered_match.c.key,
                buffered_match.c.parts,
                sa.func.count().label("matches"),
                sa.func.sum(buffered_match.c.bytes).label("bytes"),
                sa.func.min(buffered_match.c.event_time).label("first_time"),
                sa.func.max(buffered_match.c.event_time).label("last_time"),
            )
            .where(buffered_match.c.trigger_id == self.id, buffered_match.c.key.in_(sorted(counted)))
            .group_by(buffered_match.c.key, buffered_match.c.parts)
            .order_by(buffered_match.c.key, buffered_match.c.parts)
        ):
            one = counted[row["key"]]
            for number in range(row["parts"].bit_length()):
                if row["parts"] >> number & 1:
                    one["parts"][number] = one["parts"].get(number, 0) + row["matches"]
            one["matches"] += row["matches"]
            one["bytes"] += int(row["bytes"])
            one["first_time"] = min(filter(None, (one["first_time"], row["first_time"])))
            one["last_time"] = max(filter(None, (one["last_time"], row["last_time"])))
        rows = [
            {"key": row["text"]}
            | {name: row[name] for name in ("opened_at", "due_at", "memory")}
            | counted[row["key"]]
            for row in found.rows
        ]
        if self.key is not None:
            return Page(rows, found.count), sum(row["matches"] for row in rows)
        return Page(rows, found.count), _count(
            self.tx, buffered_match, buffered_match.c.trigger_id == self.id
        )

    def concurrency_groups(self) -> Page:
        """Return the concurrency groups of this trigger's executions, with all executions in them."""
        mine = (
            sa.select(slot.c.group_key)
            .distinct()
            .join(execution, execution.c.id == slot.c.execution_id)
            .where(execution.c.trigger_id == self.id)
        )
        which: list[sa.ColumnElement[bool]] = [concurrency_group.c.key.in_(mine)]
        if self.key is not None:
            which.append(
                sa.or_(
                    concurrency_group.c.text == self.key,
                    concurrency_group.c.text.endswith(f" {self.key}", autoescape=True),
                )
            )
        found = self._part(concurrency_group, which, [concurrency_group.c.text, concurrency_group.c.key])
        return Page([self._concurrency_group(row) for row in found.rows], found.count)

    def _concurrency_group(self, row: Mapping[str, Any]) -> dict[str, Any]:
        counts = self.tx.pairs(
            sa.select(slot.c.taken_at.is_not(None), sa.func.count())
            .where(slot.c.group_key == row["key"])
            .group_by(slot.c.taken_at.is_not(None))
        )
        taken = {bool(key): count for key, count in counts.items()}
        members = (
            sa.select(
                execution.c.id,
                execution.c.function,
                trigger.c.name.label("trigger"),
                execution.c.state,
                execution.c.worker_id.label("worker"),
                execution.c.started_at,
                execution.c.run_at,
                slot.c.position,
                slot.c.queue_at,
                slot.c.taken_at,
            )
            .join(execution, execution.c.id == slot.c.execution_id)
            .outerjoin(trigger, trigger.c.id == execution.c.trigger_id)
            .where(slot.c.group_key == row["key"])
            .limit(self.max_rows)
        )
        return {
            "key": row["text"],
            "capacity": row["capacity"],
            "taken": taken.get(True, 0),
            "waiting": taken.get(False, 0),
            "holders": self.tx.rows(
                members.where(slot.c.taken_at.is_not(None)).order_by(slot.c.taken_at, execution.c.id)
            ),
            "queue": self.tx.rows(
                members.where(slot.c.taken_at.is_(None)).order_by(slot.c.queue_at, slot.c.position)
            ),
        }

    def rate_limits(self, control: str, matters: sa.ColumnElement[bool]) -> Page:
        """Return the keys of a throttle or a rate limit whose state still matters."""
        found = self._part(
            rate_limit,
            [*self.only(rate_limit, rate_limit.c.owner_id), rate_limit.c.control == control, matters],
            [rate_limit.c.next_allowed_at.desc(), rate_limit.c.key],
        )
        rows = [{"next_at": row["next_allowed_at"]} | _named(row, "dropped") for row in found.rows]
        return Page(rows, found.count)

    def idempotency_keys(self) -> Page:
        """Return the idempotency keys within their windows, newest first."""
        found = self._part(
            idempotency_key,
            [*self.only(idempotency_key), idempotency_key.c.expires_at > self.tx.now],
            [idempotency_key.c.expires_at.desc(), idempotency_key.c.event_id.desc(), idempotency_key.c.key],
        )
        return Page([_named(row, "event_id", "expires_at") for row in found.rows], found.count)

    def cancellations(self) -> Page:
        """Return the recorded cancellations that are not finished."""
        mine = cancellation.c.trigger_id == self.id
        rows = self.tx.rows(
            sa.select(
                cancellation.c.event_id,
                cancellation.c.rule,
                event.c.type,
                event.c.subject,
                cancellation.c.time,
            )
            .join(event, event.c.id == cancellation.c.event_id)
            .where(mine)
            .order_by(cancellation.c.event_id, cancellation.c.rule)
            .limit(self.max_rows)
        )
        return Page(rows, _count(self.tx, cancellation, mine))

    def executions(self) -> Page:
        """Return the open executions: the running ones, then the queued ones in the order in which they start."""
        queue = open_executions.places(self.id)
        rows = self.tx.rows(
            sa.select(
                *(execution.c[name] for name in ("id", "function", "state")),
                queue.c.waiting_for_slot,
                *(execution.c[name] for name in ("has_concurrency", "event_id", "priority", "run_at")),
                queue.c.queue_at,
                *(execution.c[name] for name in ("expires_at", "started_at", "attempt")),
                execution.c.worker_id.label("worker"),
                execution.c.cancel_requested_at,
            )
            .join(queue, queue.c.execution_id == execution.c.id)
            .order_by(execution.c.state.desc(), queue.c.queue_at, execution.c.id)
            .limit(self.max_rows)
        )
        return Page(rows, _count(self.tx, queue))

    def states(self) -> dict[str, int]:
        """Return the numbers of this trigger's executions that run, are ready, wait for a slot, or wait for their
        time.
        """
        queue = open_executions.places(self.id)
        word = sa.case(
            (queue.c.claimed, "running"),
            (queue.c.run_at > self.tx.now, "delayed"),
            (queue.c.waiting_for_slot, "waiting_for_slot"),
            else_="ready",
        )
        return self.tx.pairs(sa.select(word, sa.func.count()).group_by(word).order_by(word))

    def _part(self, table: sa.Table, which: Sequence[sa.ColumnElement[bool]], order: Sequence[Any]) -> Page:
        rows = self.tx.rows(sa.select(table).where(*which).order_by(*order).limit(self.max_rows))
        return Page(rows, _count(self.tx, table, *which))


def _named(row: Mapping[str, Any], *columns: str) -> dict[str, Any]:
    return {"key": row["text"]} | {name: row[name] for name in columns}


def _count(tx: Tx, table: sa.FromClause, *which: sa.ColumnElement[bool]) -> int:
    return int(tx.scalar(sa.select(sa.func.count()).select_from(table).where(*which)) or 0)

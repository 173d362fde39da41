"""Launch: admitted matches become queued executions, by singleton, overlap, throttle, concurrency, priority and expiry.

Matches are decided one after the other, in the order of their events, under the locks of their keys: a match meets the
earlier ones of its batch as it meets those of another batch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import backlog, execution, slot
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.events import causation
from functory.engine.events.event_row import FiringEvent
from functory.engine.executions import cancellation, queue_rows, root_budget, throttled_claims
from functory.engine.executions.direct_dispatch import Room
from functory.engine.executions.start import new_row, write
from functory.engine.firings.admission import Admitted, Suppress, SuppressedMatch
from functory.engine.flow_control import concurrency, overlap
from functory.engine.flow_control.concurrency import OVERLAP_RULE, UNLIMITED, SlotRequest
from functory.engine.flow_control.controls import NO_CONTROLS
from functory.engine.flow_control.overlap import OpenExecution
from functory.engine.flow_control.throttle import Throttles


class _OpenSlot(TypedRow, frozen=True):
    """The slot of an overlap key that an open execution holds or waits for."""

    group_key: str
    execution_id: str
    position: str
    taken_at: datetime | None


@dataclass(frozen=True)
class Launch:
    """An admitted match and the row of its execution."""

    admitted: Admitted
    row: dict[str, Any]


def start(
    tx: Tx, admitted: Sequence[Admitted], room: Room | None = None
) -> tuple[list[Launch], list[SuppressedMatch]]:
    """Write the executions that flow control allows. Returns the written and the suppressed ones.

    Those without flow control are sent directly while there is ``room``; None: all of them go to the backlog.
    """
    sent = False
    if all(item.fire.controls is NO_CONTROLS for item in admitted):
        starts = [Launch(item, _row(tx, item)) for item in admitted]
        rows = [one.row for one in starts]
        sent = room is not None and room.take(rows)
        write(tx, rows, sent=sent)
        refused: list[SuppressedMatch] = []
    else:
        starts, refused = _Launcher(tx, admitted).run()
    if starts and not sent:
        tx.wake("executions")
    return starts, refused


class _Launcher:
    """Launches the matches of one transaction."""

    def __init__(self, tx: Tx, admitted: Sequence[Admitted]) -> None:
        self._tx = tx
        self._admitted = admitted
        self._overlaps = {
            id(item): concurrency.overlap_slot_request(item.fire.trigger, item.fire.controls.overlap.key)
            for item in admitted
            if item.fire.controls.overlap is not None
        }
        self._slot_requests = {
            id(item): concurrency.slot_requests(
                item.fire.trigger, item.target.version.name, item.fire.controls
            )
            for item in admitted
        }
        # A decision depends on the open executions of the key: no other transaction may decide at the same time.
        concurrency.lock_groups(tx, self._overlaps.values())
        concurrency.lock_groups(
            tx, [request for found in self._slot_requests.values() for request in found], keep=True
        )
        self._open = self._find_open()
        self._throttles = Throttles(
            tx,
            [
                (item.fire.trigger.id, item.fire.controls.throttle)
                for item in admitted
                if item.fire.controls.throttle is not None
            ],
        )
        # Executions, each with its row of the backlog.
        self._unwritten: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._slots: list[tuple[dict[str, Any], SlotRequest, datetime, bool]] = []

    def run(self) -> tuple[list[Launch], list[SuppressedMatch]]:
        """Decide about all matches and write their executions."""
        starts: list[Launch] = []
        refused: list[SuppressedMatch] = []
        for item in self._admitted:
            found = self._decide(item)
            if isinstance(found, Launch):
                starts.append(found)
            else:
                refused.append((item.event, found))
        self._write()
        self._throttles.write()
        # Admission took their budget, and they start no execution.
        root_budget.give_back(self._tx, Counter(row.root_id for row, _ in refused))
        return starts, refused

    def _decide(self, item: Admitted) -> Launch | Suppress:
        controls = item.fire.controls
        row = _row(self._tx, item)
        queue_at = concurrency.queue_at(item.event.id, controls.priority)
        mine = [(request, False) for request in self._slot_requests[id(item)]]
        request, rule = self._overlaps.get(id(item)), controls.overlap
        if request is not None and rule is not None:
            answer = overlap.decide(rule.policy, item.event.id, self._open[request.group_key])
            for other in answer.cancel_ids:
                self._cancel(other, item, request.group_key)
            if answer.action == "drop":
                key = f"key {rule.key.text!r}: " if rule.key.text else ""
                return Suppress(item.fire.trigger, rule.reason, detail=key + answer.detail)
            beside = rule.policy in ("allow_all", "terminate_other")
            self._open[request.group_key].append(
                OpenExecution(row["id"], item.event.id, answer.action == "now")
            )
            mine.append((request if not beside else _unlimited(request), answer.action == "now"))
        place = self._set_times(row, item)
        row["has_concurrency"] = bool(mine)
        waits = any(not taken for _, taken in mine)
        self._unwritten.append((row, queue_rows.backlog_row(row, waiting_for_slot=waits, **place)))
        self._slots += [(row, request, queue_at, taken) for request, taken in mine]
        return Launch(item, row)

    def _set_times(self, row: dict[str, Any], item: Admitted) -> dict[str, Any]:
        """Set when the execution may start, and when it expires. Returns its position in the backlog."""
        controls = item.fire.controls
        place: dict[str, Any] = {}
        if controls.throttle is not None:
            reservation = self._throttles.reserve(item.fire.trigger.id, controls.throttle)
            row |= {"run_at": reservation.due_at, "throttle": throttled_claims.stored(controls.throttle)}
            place = throttled_claims.columns(controls.throttle, reservation)
        if controls.expires_after is not None:
            latest = self._tx.now + timedelta(seconds=controls.expires_after)
            row["expires_at"] = min(filter(None, (row["expires_at"], latest)))
        return place | {"queue_at": row["run_at"] - timedelta(seconds=controls.priority)}

    def _find_open(self) -> dict[str, list[OpenExecution]]:
        """Return the open executions of the overlap keys, in the order of their events."""
        found: dict[str, list[OpenExecution]] = defaultdict(list)
        keys = sorted({request.group_key for request in self._overlaps.values()})
        if keys:
            rows = self._tx.all(
                _OpenSlot,
                sa.select(*columns(_OpenSlot, slot))
                .join(execution, execution.c.id == slot.c.execution_id)
                .where(slot.c.group_key.in_(keys), execution.c.state.in_(cancellation.OPEN))
                .order_by(slot.c.position),
            )
            for row in rows:
                one = OpenExecution(row.execution_id, row.position, row.taken_at is not None)
                found[row.group_key].append(one)
        return found

    def _cancel(self, id_: str, item: Admitted, group_key: str) -> None:
        """Cancel an open execution of the same key: at once, or by the worker that runs it."""
        if any(row["id"] == id_ for row, _ in self._unwritten):
            self._write()
        because = f"trigger {item.fire.trigger.name}, by event {item.event.id}"
        if cancellation.cancel_open(self._tx, id_, because) != "running":
            self._open[group_key] = [one for one in self._open[group_key] if one.id != id_]

    def _write(self) -> None:
        """Write the executions and slot requests decided so far."""
        self._tx.insert(execution, [row for row, _ in self._unwritten])
        self._tx.insert(backlog, [place for _, place in self._unwritten])
        queue_rows.count_created(self._tx, [row for row, _ in self._unwritten])
        if self._slots:
            concurrency.enqueue(self._tx, self._slots)
        self._unwritten, self._slots = [], []


def _unlimited(request: SlotRequest) -> SlotRequest:
    """Return the same slot request without a capacity limit."""
    return SlotRequest(request.group_key, request.text, OVERLAP_RULE, UNLIMITED)


def event_link(trigger_id: str, name: str, event: FiringEvent) -> dict[str, Any]:
    """Return the link of a chain (:class:`functory.engine.events.causation.Cause`) for a trigger that starts an
    execution for an event.
    """
    return {"trigger": trigger_id, "name": name, "subject": event.subject, "event": event.id}


def _row(tx: Tx, item: Admitted) -> dict[str, Any]:
    event, trigger = item.event, item.fire.trigger
    return new_row(
        tx,
        item.target.version,
        item.input,
        cause="trigger",
        root_id=event.root_id,
        depth=event.depth + 1,
        chain=causation.extend_chain(event.chain, event_link(trigger.id, trigger.name, event)),
        trigger_id=trigger.id,
        event_id=event.id,
    )

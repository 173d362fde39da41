"""The router's one transaction: decisions in, firings and executions and routed events out.

What to decide is the ``triggers`` package's; this module takes the batch of pending events and
writes all that follows from it, so that a match is one firing and one execution, or nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from functory.engine.database import counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import firing
from functory.engine.database.transaction import Tx
from functory.engine.errors import Unavailable
from functory.engine.events import routing_queue
from functory.engine.events import store as event_store
from functory.engine.flow_control import buffers
from functory.engine.flow_control.buffers import BufferedMatch
from functory.engine.triggers import cancel_on, idempotency, kill_switch, launch, suppressions
from functory.engine.triggers import store as trigger_store
from functory.engine.triggers.admission import Fire, Suppress, SuppressedMatch, admit
from functory.engine.triggers.cancel_on import Cancel

Decision = Fire | Suppress | BufferedMatch | Cancel
Decide = Callable[[Mapping[str, Any]], Sequence[Decision]]


@dataclass
class RoutingResult:
    """What one batch did: counts for metrics and logs. ``events`` were routed, ``failed`` were not."""

    events: int = 0
    matched: int = 0
    fired: list[str] = field(default_factory=list)
    suppressed: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    oldest_age: float = 0.0

    def add(self, other: RoutingResult) -> None:
        """Count in what another transaction did."""
        self.events += other.events
        self.matched += other.matched
        self.fired += other.fired
        self.suppressed += other.suppressed
        self.depths += other.depths
        self.oldest_age = max(self.oldest_age, other.oldest_age)


def trigger_set_version(tx: Tx) -> int:
    """The number of the trigger set: unchanged means that no trigger has changed."""
    return counters.read(tx, counters.TRIGGERS)


def changed_since(tx: Tx, version: int) -> list[dict[str, Any]]:
    """The triggers that changed after that number of the set, deleted ones too; below 0: all that there are."""
    return trigger_store.changed_since(tx, version)


def route(database: Database, limit: int, max_budget: int, prepare: Callable[[Tx], Decide]) -> RoutingResult:
    """Take up to ``limit`` pending events, decide, and write everything in one transaction.

    ``prepare`` is called inside it and gives the decision function over the trigger set as of now.
    When the batch fails it is tried event by event: what fails alone is put back with a backoff,
    and quarantined at its fifth failure. Raises :class:`Unavailable`.
    """
    try:
        with database.write() as tx:
            if kill_switch.is_thrown(tx, kill_switch.TRIGGERS):
                return RoutingResult()
            return _write(tx, routing_queue.take_pending(tx, limit), prepare, max_budget)
    except Unavailable:
        raise
    except Exception:
        return _one_by_one(database, limit, max_budget, prepare)


def _one_by_one(
    database: Database, limit: int, max_budget: int, prepare: Callable[[Tx], Decide]
) -> RoutingResult:
    total = RoutingResult()
    with database.read() as tx:
        ids = routing_queue.pending_ids(tx, limit)
    for id_ in ids:
        try:
            with database.write() as tx:
                total.add(_write(tx, routing_queue.take_one(tx, id_), prepare, max_budget))
        except Unavailable:
            raise
        except Exception as error:
            with database.write() as tx:
                state = routing_queue.mark_failed(tx, id_, f"{type(error).__name__}: {error}")
            total.failed.append((id_, state))
    return total


def _write(
    tx: Tx, batch: Sequence[Mapping[str, Any]], prepare: Callable[[Tx], Decide], max_budget: int
) -> RoutingResult:
    done = RoutingResult(events=len(batch))
    if not batch:
        return done
    done.oldest_age = max(0.0, (tx.now - min(row["time"] for row in batch)).total_seconds())
    done.depths = [row["depth"] for row in batch]
    decide = prepare(tx)
    decided = [(row, decision) for row in batch for decision in decide(row)]
    done.matched = len({row["id"] for row, _ in decided})
    refused = [(row, d) for row, d in decided if isinstance(d, Suppress)]
    entered, dropped = idempotency.check(
        tx, [(row, d) for row, d in decided if isinstance(d, Fire | BufferedMatch)]
    )
    buffers.put(tx, [(row, d) for row, d in entered if isinstance(d, BufferedMatch)])
    cancel_on.record(tx, [(row, d) for row, d in decided if isinstance(d, Cancel)])
    write_firings(
        tx, [(row, d) for row, d in entered if isinstance(d, Fire)], refused + dropped, max_budget, done
    )
    routing_queue.mark_routed(tx, [row["id"] for row in batch])
    return done


def write_firings(
    tx: Tx,
    fires: Sequence[tuple[Mapping[str, Any], Fire]],
    refused: Sequence[SuppressedMatch],
    max_budget: int,
    result: RoutingResult,
) -> None:
    """Write the executions and firings of what fires, and the firings of what is ``refused``; ``done`` counts them."""
    admitted, over = admit(tx, fires, max_budget)
    started, late = launch.start(tx, admitted)
    firings = [
        _firing(tx, event, one.admitted.fire.trigger)
        | {"execution_id": one.row["id"], "joint": len(one.admitted.fire.events) > 1}
        for one in started
        for event in one.admitted.fire.events or (one.admitted.event,)
    ]
    stopped = [*refused, *_each(fires, [*over, *late])]
    told, suppressed = suppressions.record(tx, stopped)
    tx.insert(firing, firings + [_firing(tx, row, s.trigger) | more for row, s, more in suppressed])
    event_store.append(tx, told)
    result.fired += [one.admitted.fire.trigger["name"] for one in started]
    result.suppressed += [(s.trigger["name"], s.reason) for _, s in stopped]


def _each(
    fires: Sequence[tuple[Mapping[str, Any], Fire]], refused: Sequence[SuppressedMatch]
) -> list[SuppressedMatch]:
    """What is refused of several events is refused of each of them."""
    if not refused:
        return []
    several = {(one.trigger["id"], row["id"]): one.events for row, one in fires if one.events}
    return [
        (event, stop)
        for row, stop in refused
        for event in several.get((stop.trigger["id"], row["id"]), (row,))
    ]


def _firing(tx: Tx, row: Mapping[str, Any], trigger: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trigger_id": trigger["id"],
        "event_id": row["id"],
        "trigger_version": trigger["version"],
        "decision": "fired",
        "reason": None,
        "limit_value": None,
        "actual_value": None,
        "detail": None,
        "chain": list(row["chain"]),
        "execution_id": None,
        "joint": False,
        "root_id": row["root_id"],
        "time": tx.now,
    }

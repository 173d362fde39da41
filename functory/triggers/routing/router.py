"""The router: takes pending events, decides which triggers fire, and writes what follows.

One batch is one transaction: either every match of its events left its firing, or nothing happened. The trigger set is
compiled once and refreshed inside that transaction when its version has changed, so each event meets exactly the
triggers that are enabled when it is routed. Any number of routers may run: they lock the events that they take.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from functory.engine.database.connection import Database, Tx
from functory.engine.errors import Unavailable
from functory.engine.events import routing_queue
from functory.engine.events import store as event_store
from functory.engine.flow_control.buffers import BufferedMatch
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.engine.triggers import cancel_on, firings, idempotency, kill_switch
from functory.engine.triggers.admission import Fire, Suppress
from functory.engine.triggers.cancel_on import Cancel
from functory.engine.triggers.firings import FiringCounts
from functory.triggers.routing import buffering
from functory.triggers.routing.decision import Decision, TriggerEvaluator, decide_match
from functory.triggers.routing.firing_metrics import count_firings
from functory.triggers.routing.isolation import in_isolation
from functory.triggers.routing.trigger_set import TriggerSet

log = structlog.get_logger("functory.router")


@dataclass
class RoutingResult(FiringCounts):
    """Counts of one batch. ``events`` were routed, ``matched`` of them by a trigger; ``failed`` are (id, new state).

    ``depths`` are the causal depths of the events, ``oldest_age`` is the age of the oldest one in seconds.
    """

    events: int = 0
    matched: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    oldest_age: float = 0.0

    def add_batch(self, other: RoutingResult) -> None:
        """Add the counts of another transaction."""
        self.add(other)
        self.events += other.events
        self.matched += other.matched
        self.depths += other.depths
        self.oldest_age = max(self.oldest_age, other.oldest_age)


class Router(Service):
    """Routes batches until nothing is pending."""

    name, topic = "router", "events"

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        self._database = database
        self._settings = settings
        self._evaluator = TriggerEvaluator(settings)
        self._triggers = TriggerSet()

    def run_once(self) -> bool:
        """Route one batch. True when it was full. Raises :class:`Unavailable`."""
        return self.route_batch().events >= self._settings.batch_size

    def route_batch(self) -> RoutingResult:
        """Route up to one batch of pending events. Raises :class:`Unavailable`.

        When the batch fails, its events are routed one by one. An event that fails alone is retried with a backoff, and
        quarantined at its fifth failure.
        """
        try:
            with self._database.write() as tx:
                if kill_switch.is_thrown(tx, kill_switch.TRIGGERS):
                    return RoutingResult()
                result = self.route(tx, routing_queue.take_pending(tx, self._settings.batch_size))
        except Unavailable:
            raise
        except Exception:
            result = self._route_one_by_one()
        _record_metrics(result)
        return result

    def route(self, tx: Tx, events: Sequence[Mapping[str, Any]]) -> RoutingResult:
        """Decide about locked event rows and write all that follows from it: the whole of routing, in its order."""
        if not events:
            return RoutingResult()
        self._triggers.refresh(tx)
        decided = [(event, decision) for event in events for decision in self.decide(event, tx.now)]
        suppressed = [(event, one) for event, one in decided if isinstance(one, Suppress)]
        passed, dropped = idempotency.check(
            tx, [(event, one) for event, one in decided if isinstance(one, Fire | BufferedMatch)]
        )
        buffering.put(
            tx, self._triggers, [(event, one) for event, one in passed if isinstance(one, BufferedMatch)]
        )
        cancel_on.record(tx, [(event, one) for event, one in decided if isinstance(one, Cancel)])
        fires = [(event, one) for event, one in passed if isinstance(one, Fire)]
        counts = firings.write(tx, fires, suppressed + dropped, self._settings.root_budget)
        routing_queue.mark_routed(tx, [event["id"] for event in events])
        return RoutingResult(
            counts.fired,
            counts.suppressed,
            events=len(events),
            matched=len({event["id"] for event, _ in decided}),
            depths=[event["depth"] for event in events],
            oldest_age=max(0.0, (tx.now - min(event["time"] for event in events)).total_seconds()),
        )

    def decide(self, row: Mapping[str, Any], now: datetime) -> list[Decision]:
        """The decision of every trigger that an event row matches. Reads and writes nothing."""
        start = time.perf_counter()
        event = event_store.envelope(row)
        decisions = [
            decision
            for match in self._triggers.matching(event)
            for decision in decide_match(self._evaluator, match, row, event, now)
        ]
        metrics.router_match.observe(time.perf_counter() - start)
        return decisions

    def _route_one_by_one(self) -> RoutingResult:
        total = RoutingResult()

        def route_alone(id_: str) -> None:
            with self._database.write() as tx:
                result = self.route(tx, routing_queue.take_one(tx, id_))
            total.add_batch(result)

        def put_back(id_: str, error: Exception) -> None:
            with self._database.write() as tx:
                state = routing_queue.mark_failed(tx, id_, f"{type(error).__name__}: {error}")
            total.failed.append((id_, state))

        with self._database.read() as tx:
            ids = routing_queue.pending_ids(tx, self._settings.batch_size)
        in_isolation(ids, route_alone, put_back)
        return total


def _record_metrics(result: RoutingResult) -> None:
    for id_, state in result.failed:
        metrics.router_events.labels("error").inc()
        log.error("event cannot be routed", event_id=id_, state=state)
    if not result.events:
        return
    metrics.router_lag.set(result.oldest_age)
    metrics.router_events.labels("matched").inc(result.matched)
    metrics.router_events.labels("unmatched").inc(result.events - result.matched)
    for depth in result.depths:
        metrics.causation_depth.observe(depth)
    count_firings(result)

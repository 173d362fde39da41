"""The router: takes pending events, decides which triggers fire, and writes what follows.

One batch is one transaction: either every match of its events left its firing, or nothing happened. The trigger set is
compiled once and refreshed inside that transaction when its version has changed, so each event meets exactly the
triggers that are enabled when it is routed. Any number of routers may run: they lock the events that they take.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from functory.engine.database.clock import lowest_id, time_of_id
from functory.engine.database.connection import Database, Tx
from functory.engine.errors import Unavailable
from functory.engine.events import routing_queue
from functory.engine.events import store as event_store
from functory.engine.events.event_publishing import PublishesEvents, without_thread
from functory.engine.events.event_row import EventRow
from functory.engine.executions.direct_dispatch import SendsCommitted
from functory.engine.firings import cancel_on, firings, idempotency, routing_facts, routing_spans
from functory.engine.firings.admission import Admission, Suppress
from functory.engine.firings.cancel_on import Cancel
from functory.engine.firings.firings import FiringCounts
from functory.engine.flow_control.buffers import BufferedMatch
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics, traces
from functory.triggers.routing import buffering
from functory.triggers.routing.decision import Decision, TriggerEvaluator, decide_match
from functory.triggers.routing.firing_metrics import count_firings
from functory.triggers.routing.inputs import TemplatedFire, render_inputs
from functory.triggers.routing.isolation import in_isolation
from functory.triggers.routing.trigger_set import TriggerSet

log = structlog.get_logger("functory.router")

# While triggers are halted: events that are published are not read again, except for those of the last seconds
# (their transactions may commit in another order), and every minute (a transaction may take long).
LATE = timedelta(seconds=30)
FROM_START_SECONDS = 60.0


@dataclass
class RoutingResult(FiringCounts):
    """Counts of one batch. ``events`` were routed, ``matched`` of them by a trigger; ``failed`` are (id, new state).

    ``depths`` counts the causal depths of the events, ``oldest_age`` is the age of the oldest one in seconds, and
    ``decision_seconds`` is the time of all decisions. ``published`` events were not routed, because triggers
    are halted. ``tested`` counts events by the number of patterns that were tested for them.
    """

    events: int = 0
    matched: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    depths: Counter[int] = field(default_factory=Counter[int])
    oldest_age: float = 0.0
    published: int = 0
    decision_seconds: float = 0.0
    tested: Counter[int] = field(default_factory=Counter[int])

    def add_batch(self, other: RoutingResult) -> None:
        """Add the counts of another transaction."""
        self.add(other)
        self.events += other.events
        self.matched += other.matched
        self.depths.update(other.depths)
        self.tested.update(other.tested)
        self.decision_seconds += other.decision_seconds
        self.oldest_age = max(self.oldest_age, other.oldest_age)


class Router(Service):
    """Routes batches until nothing is pending."""

    name, topic = "router", "events"

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        self._publisher = without_thread(settings)
        # Waiting events up to this one have been published while triggers are halted, and when that was read
        # from the beginning (monotonic seconds).
        self._published_to: str | None = None
        self._published_from_start = 0.0
        self._database = database
        self._settings = settings
        self._evaluator = TriggerEvaluator(settings)
        self._triggers = TriggerSet()
        self._admission = Admission(settings.root_budget)
        self._direct: SendsCommitted | None = None

    def publish_with(self, publisher: PublishesEvents) -> None:
        """Publish the routed events from memory. Without it they are left to the outbox."""
        self._publisher = publisher

    def send_with(self, direct: SendsCommitted) -> None:
        """Send new executions directly while there is room. Without it they are left to the dispatcher."""
        self._direct = direct

    def run_once(self) -> bool:
        """Route one batch. True when it was full. Raises :class:`Unavailable`."""
        result = self.route_batch()
        return max(result.events, result.published) >= self._settings.batch_size

    def route_batch(self) -> RoutingResult:
        """Route up to one batch of pending events. Raises :class:`Unavailable`.

        When the batch fails, its events are routed one by one. An event that fails alone is retried with a backoff, and
        quarantined at its fifth failure.
        """
        try:
            with metrics.transaction("route"), self._database.write() as tx:
                result = self.route(tx, self._take(tx))
        except Unavailable:
            raise
        except Exception:
            result = self._route_one_by_one()
        self._send()
        _record_metrics(result)
        return result

    def _take(self, tx: Tx) -> routing_queue.Taken:
        return routing_queue.take_pending(tx, self._settings.batch_size, routing_facts.COLUMNS)

    def route_one(self, id_: str) -> RoutingResult:
        """Route one pending event in a transaction of its own. Does nothing when it is not pending any more."""
        with self._database.write() as tx:
            result = self.route(tx, routing_queue.take_one(tx, id_, routing_facts.COLUMNS))
        self._send()
        return result

    def close(self) -> None:
        """Close the connection to the broker."""
        if self._direct is not None:
            self._direct.close()

    def route(self, tx: Tx, taken: routing_queue.Taken) -> RoutingResult:
        """Decide about locked events and write all that follows from it: the whole of routing, in its order."""
        events = taken.events
        if not events:
            return RoutingResult()
        facts = routing_facts.of(taken.beside)
        if facts.halted:
            return self._publish_waiting(tx)
        self._triggers.refresh(tx, facts.trigger_changes)
        start = time.perf_counter()
        decided = [(event, decision) for event in events for decision in self.decide(event, tx.now)]
        seconds = time.perf_counter() - start
        suppressed = [(event, one) for event, one in decided if isinstance(one, Suppress)]
        passed, dropped = idempotency.check(
            tx, [(event, one) for event, one in decided if isinstance(one, TemplatedFire | BufferedMatch)]
        )
        buffering.put(
            tx, self._triggers, [(event, one) for event, one in passed if isinstance(one, BufferedMatch)]
        )
        cancel_on.record(tx, [(event, one) for event, one in decided if isinstance(one, Cancel)])
        fires = [(event, one) for event, one in passed if isinstance(one, TemplatedFire)]
        ready, unfit = render_inputs(fires, self._admission.find_targets(tx, fires, facts))
        counts = firings.write(
            tx, ready, [*suppressed, *dropped, *unfit], self._admission, facts, self._direct
        )
        routing_queue.mark_routed(tx, [event.id for event in events])
        self._publisher.put(tx, taken.unpublished)
        if traces.recorder is not None:
            matches = Counter(event.id for event, _ in decided)
            traces.record_after_commit(tx.at_end, lambda: routing_spans.of_events(events, matches, tx.now))
        return RoutingResult(
            counts.fired,
            counts.suppressed,
            events=len(events),
            matched=len({event.id for event, _ in decided}),
            depths=Counter(event.depth for event in events),
            decision_seconds=seconds,
            tested=self._triggers.take_tested(),
            oldest_age=max(0.0, (tx.now - min(event.time for event in events)).total_seconds()),
        )

    def _send(self) -> None:
        """Send the executions that the last transactions have started."""
        if self._direct is not None:
            self._direct.send_committed()

    def _publish_waiting(self, tx: Tx) -> RoutingResult:
        """While no event is routed, subscribers get the events all the same."""
        if not self._settings.publishes:
            return RoutingResult()
        now = time.monotonic()
        if now - self._published_from_start >= FROM_START_SECONDS:
            self._published_to, self._published_from_start = None, now
        events = routing_queue.take_unpublished(tx, self._settings.batch_size, self._published_to)
        if events:
            self._published_to = lowest_id(time_of_id(events[-1].id) - LATE)
            self._publisher.put(tx, events)
        return RoutingResult(published=len(events))

    def decide(self, row: EventRow, now: datetime) -> list[Decision]:
        """The decision of every trigger that an event row matches. Reads and writes nothing."""
        event = event_store.envelope(row)
        return [
            decision
            for match in self._triggers.matching(event)
            for decision in decide_match(self._evaluator, match, row, event, now)
        ]

    def _route_one_by_one(self) -> RoutingResult:
        total = RoutingResult()

        def route_alone(id_: str) -> None:
            total.add_batch(self.route_one(id_))

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
    metrics.observe_many(metrics.router_match, result.decision_seconds / result.events, result.events)
    for depth, count in result.depths.items():
        metrics.observe_many(metrics.causation_depth, depth, count)
    for patterns, count in result.tested.items():
        metrics.observe_many(metrics.router_candidates, patterns, count)
    count_firings(result)

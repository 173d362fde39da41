"""The router: takes pending events, decides which triggers fire, and has the engine write it.

One batch is one transaction (``functory.engine.triggers.routing``). The set of triggers is compiled once and refreshed
inside that transaction when its counter has moved, so each event meets exactly the triggers that are
enabled as of its routing. Any number of routers may run: rows are claimed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import structlog

from functory.engine.database.connection import Database, Tx
from functory.engine.events import store as event_store
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.engine.triggers import routing
from functory.engine.triggers.cancel_on import Cancel
from functory.engine.triggers.routing import Decide, Decision, RoutingResult
from functory.triggers.definition import CompiledTrigger
from functory.triggers.routing.counters import count_firings
from functory.triggers.routing.decision import TriggerEvaluator
from functory.triggers.routing.trigger_set import TriggerSet

log = structlog.get_logger("functory.router")


class Router:
    """Routes batches until nothing is pending; see ``functory.roles.services`` for the loop around it."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._evaluator = TriggerEvaluator(settings)
        self._triggers = TriggerSet()

    def route_batch(self) -> RoutingResult:
        """Route up to one batch of pending events. Raises :class:`Unavailable`."""
        done = routing.route(
            self._database, self._settings.batch_size, self._settings.root_budget, self._prepare
        )
        self._record_metrics(done)
        return done

    def _prepare(self, tx: Tx) -> Decide:
        self._triggers.refresh(tx)
        return lambda row: self.decide(row, tx)

    def decide(self, row: Mapping[str, Any], tx: Tx) -> list[Decision]:
        """What every trigger that matches does about one event row: fires, is suppressed, or nothing."""
        start = time.perf_counter()
        event = event_store.envelope(row)
        decisions: list[Decision] = []
        parts: dict[str, tuple[CompiledTrigger, list[int]]] = {}
        for place in self._triggers.matching(event):
            compiled = place.compiled
            if place.role == "cancel":
                decisions.append(Cancel(compiled.row, place.number))
            elif place.role == "part":
                parts.setdefault(compiled.id, (compiled, []))[1].append(place.number)
            else:
                decision = self._evaluator.decide(compiled, row, event, tx.now)
                if decision is not None:
                    decisions.append(decision)
        for compiled, numbers in parts.values():
            decision = self._evaluator.decide(compiled, row, event, tx.now, sorted(numbers))
            if decision is not None:
                decisions.append(decision)
        metrics.router_match.observe(time.perf_counter() - start)
        return decisions

    @staticmethod
    def _record_metrics(done: RoutingResult) -> None:
        for id_, state in done.failed:
            metrics.router_events.labels("error").inc()
            log.error("event cannot be routed", event_id=id_, state=state)
        if not done.events:
            return
        metrics.router_lag.set(done.oldest_age)
        metrics.router_events.labels("matched").inc(done.matched)
        metrics.router_events.labels("unmatched").inc(done.events - done.matched)
        for depth in done.depths:
            metrics.causation_depth.observe(depth)
        count_firings(done)

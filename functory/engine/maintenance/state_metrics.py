"""State metrics: gauges that describe stored state, read from the database at each scrape."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from functory.engine.database.connection import Database
from functory.engine.database.schema import (
    event,
    function,
    match_buffer,
    outbox,
    source,
    verification,
    worker,
)
from functory.engine.database.schema import routing_queue as waiting_event
from functory.engine.errors import FunctoryError
from functory.engine.events import routing_queue
from functory.engine.executions import open_executions
from functory.engine.flow_control import concurrency
from functory.engine.telemetry.metrics import kind_label


class StateCollector(Collector):
    """Gauges that each run one SQL query at the scrape. Only the scheduler and the embedded process register it: if
    every worker did, their sum would be wrong.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterable[GaugeMetricFamily]:
        try:
            with self._database.read() as tx:
                states = open_executions.count(tx)
                oldest = open_executions.oldest_due_at(tx)
                pending = tx.scalar(sa.select(sa.func.sum(outbox.c.count)))
                waiting = tx.scalar(sa.select(sa.func.min(outbox.c.time)))
                unrouted = tx.scalar(
                    sa.select(sa.func.min(event.c.time))
                    .join(waiting_event, waiting_event.c.event_id == event.c.id)
                    .where(waiting_event.c.quarantined.is_(False))
                )
                functions = tx.scalar(
                    sa.select(sa.func.count()).select_from(function).where(function.c.state != "deleted")
                )
                workers = tx.scalar(sa.select(sa.func.count()).select_from(worker))
                held = tx.pairs(
                    sa.select(match_buffer.c.kind, sa.func.sum(match_buffer.c.count)).group_by(
                        match_buffer.c.kind
                    )
                )
                held |= concurrency.count_waiting(tx)
                troubled = tx.pairs(
                    sa.select(source.c.kind, sa.func.count(source.c.problem))
                    .where(source.c.state == "enabled")
                    .group_by(source.c.kind)
                )
                quarantined = routing_queue.count_quarantined(tx)
                checked = tx.rows(
                    sa.select(verification.c.code, verification.c.count, verification.c.time).order_by(
                        verification.c.code
                    )
                )
                now = tx.now
        except FunctoryError:
            return
        family = GaugeMetricFamily("functory_executions_in_state", "Open executions.", labels=["state"])
        for state in ("queued", "running"):
            family.add_metric([state], states.get(state, 0))
        yield family

        def age(moment: object) -> float:
            return max(0.0, (now - moment).total_seconds()) if moment is not None else 0.0  # type: ignore[operator]

        yield GaugeMetricFamily(
            "functory_execution_oldest_queued_seconds", "Age of the oldest due execution.", value=age(oldest)
        )
        yield GaugeMetricFamily(
            "functory_outbox_pending", "Events that are not on the broker yet.", value=pending or 0
        )
        yield GaugeMetricFamily(
            "functory_outbox_oldest_age_seconds",
            "Age of the oldest event that is not on the broker yet.",
            value=age(waiting),
        )
        yield GaugeMetricFamily(
            "functory_router_backlog_seconds",
            "Age of the oldest event that is not routed.",
            value=age(unrouted),
        )
        yield GaugeMetricFamily(
            "functory_events_quarantined",
            "Events that no router could decide about, until an operator releases them.",
            value=quarantined,
        )
        family = GaugeMetricFamily(
            "functory_invariant_violations",
            "Rows that break an invariant, as the checks since the last complete one found them.",
            labels=["invariant"],
        )
        for row in checked:
            family.add_metric([row["code"]], row["count"])
        yield family
        yield GaugeMetricFamily(
            "functory_invariants_checked_timestamp_seconds",
            "When the invariants were checked last; 0 for never.",
            value=max((row["time"].timestamp() for row in checked), default=0.0),
        )
        family = GaugeMetricFamily(
            "functory_flow_waiting",
            "Matches and executions that flow control lets wait.",
            labels=["control"],
        )
        for control in ("debounce", "batch", "composite", "concurrency", "overlap"):
            family.add_metric([control], held.get(control) or 0)
        yield family
        yield GaugeMetricFamily("functory_functions", "Stored functions.", value=functions or 0)
        yield GaugeMetricFamily("functory_worker_up", "Workers by heartbeat.", value=workers or 0)
        problems = GaugeMetricFamily(
            "functory_source_problems", "Enabled sources that a problem keeps from working.", labels=["kind"]
        )
        for kind, count in sorted(troubled.items()):
            problems.add_metric([kind_label(kind)], count)
        yield problems

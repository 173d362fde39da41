"""State gauges: what the rows of a deployment add up to, read in one transaction.

Most counts come from small tables of open work. Only the functions and their versions are counted one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from prometheus_client.core import GaugeMetricFamily

from functory.engine.database.connection import Database
from functory.engine.database.schema import (
    activation,
    function,
    function_version,
    match_buffer,
    outbox,
    source,
    verification,
    worker,
)
from functory.engine.database.transaction import Tx
from functory.engine.events import routing_queue as routing
from functory.engine.executions import open_executions
from functory.engine.flow_control import concurrency
from functory.engine.maintenance import model_gauges, run_gauges
from functory.engine.settings import Settings
from functory.engine.sources import source_breaker
from functory.engine.telemetry import metrics

# Values of gauges by the value of their one label; "" where there is none.
Values = Mapping[str, float]

ORIGINS = ("user", "function")
# The number of the newest activations that are shown.
ACTIVATIONS = 20
CONTROLS = ("debounce", "batch", "composite", "concurrency", "overlap")

# Name, help, and label.
FAMILIES: tuple[tuple[str, str, str], ...] = (
    (
        "executions_in_state",
        "Open executions: queued (due), delayed (due later), waiting (for a slot), retrying (again later), running.",
        "state",
    ),
    ("execution_oldest_queued_seconds", "Age of the oldest due execution.", ""),
    (
        "queue_depth",
        "What waits in a queue: executions that are due and that no worker has claimed, events to be routed.",
        "queue",
    ),
    ("outbox_pending", "Events that are not on the broker yet.", ""),
    ("outbox_oldest_age_seconds", "Age of the oldest event that is not on the broker yet.", ""),
    ("router_backlog_seconds", "Age of the oldest event that is not routed.", ""),
    ("events_quarantined", "Events that no router could decide about, until an operator releases them.", ""),
    (
        "invariant_violations",
        "Rows that break an invariant, as the checks since the last complete one found them.",
        "invariant",
    ),
    (
        "invariants_checked_timestamp_seconds",
        "When the invariants were checked last; 0 for never.",
        "",
    ),
    ("flow_waiting", "Matches and executions that flow control lets wait.", "control"),
    ("functions", "Stored functions, by who saved the latest version: a user, or a function.", "origin"),
    (
        "function_versions",
        "Stored versions of functions, by who saved them: a user, or a function.",
        "origin",
    ),
    (
        "function_activated_timestamp_seconds",
        "When a version of the function became its active one. The functions that changed last.",
        "function",
    ),
    ("worker_up", "Workers whose heartbeat is younger than a lease.", ""),
    ("worker_heartbeat_age_seconds", "Age of the oldest heartbeat of a registered worker.", ""),
    ("source_problems", "Sources that a problem or their breaker keeps from working.", "kind"),
    *model_gauges.FAMILIES,
    *run_gauges.FAMILIES,
)


def describe() -> list[GaugeMetricFamily]:
    """Return the families without values."""
    return [_family(name, text, label, {}) for name, text, label in FAMILIES]


def leader(role: str, is_leader: bool) -> GaugeMetricFamily:
    """Return the gauge that says whether this process holds the lease of ``role``."""
    text = "1 in the process that shows the gauges of stored rows, 0 in the others that could."
    return _family("leader", text, "role", {role: is_leader})


def read(database: Database, settings: Settings) -> list[GaugeMetricFamily]:
    """Read all gauges. A worker is lost when its heartbeat is older than a lease. Raises :class:`Unavailable`."""
    with metrics.transaction("state"), database.read() as tx:
        found = _executions(tx) | _events(tx) | _functions(tx) | _workers(tx, settings.lease_seconds)
        found |= _troubles(tx) | model_gauges.values(tx, settings) | run_gauges.values(tx)
    return [_family(name, text, label, found[name]) for name, text, label in FAMILIES]


def _family(name: str, text: str, label: str, values: Values) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"functory_{name}", text, labels=[label] if label else [])
    for value, number in values.items():
        family.add_metric([value] if label else [], number)
    return family


def _executions(tx: Tx) -> dict[str, Values]:
    places = open_executions.count_by_place(tx)
    waiting = tx.pairs(
        sa.select(match_buffer.c.kind, sa.func.sum(match_buffer.c.count)).group_by(match_buffer.c.kind)
    ) | concurrency.count_waiting(tx)
    return {
        "executions_in_state": places,
        "execution_oldest_queued_seconds": {"": _age(tx, open_executions.oldest_due_at(tx))},
        "queue_depth": {"executions": places["queued"], "events": routing.count_pending(tx)},
        "flow_waiting": {control: waiting.get(control) or 0 for control in CONTROLS},
    }


def _events(tx: Tx) -> dict[str, Values]:
    return {
        "outbox_pending": {"": tx.scalar(sa.select(sa.func.sum(outbox.c.count))) or 0},
        "outbox_oldest_age_seconds": {"": _age(tx, tx.scalar(sa.select(sa.func.min(outbox.c.time))))},
        "router_backlog_seconds": {"": _age(tx, routing.oldest_pending(tx))},
        "events_quarantined": {"": routing.count_quarantined(tx)},
    }


def _functions(tx: Tx) -> dict[str, Values]:
    origin = sa.case((function_version.c.cause_execution_id.is_(None), "user"), else_="function").label(
        "origin"
    )
    versions = sa.select(origin, sa.func.count()).group_by("origin")
    stored = versions.join_from(
        function,
        function_version,
        sa.and_(
            function_version.c.function_id == function.c.id, function_version.c.number == function.c.latest
        ),
    ).where(function.c.state != "deleted")
    return {
        "functions": _for_each(ORIGINS, tx.pairs(stored)),
        "function_versions": _for_each(ORIGINS, tx.pairs(versions)),
        "function_activated_timestamp_seconds": _activated(tx),
    }


def _activated(tx: Tx) -> Values:
    newest = (
        sa.select(activation.c.function, activation.c.at).order_by(activation.c.id.desc()).limit(ACTIVATIONS)
    )
    found: dict[str, float] = {}
    for row in tx.rows(newest):
        label = metrics.function_label(row["function"])
        found[label] = max(found.get(label, 0.0), row["at"].timestamp())
    return found


def _workers(tx: Tx, lease_seconds: float) -> dict[str, Values]:
    seen = [row["seen_at"] for row in tx.rows(sa.select(worker.c.seen_at))]
    ages = [_age(tx, at) for at in seen]
    return {
        "worker_up": {"": sum(age < lease_seconds for age in ages)},
        "worker_heartbeat_age_seconds": {"": max(ages, default=0.0)},
    }


def _troubles(tx: Tx) -> dict[str, Values]:
    checked = tx.rows(
        sa.select(verification.c.code, verification.c.count, verification.c.time).order_by(
            verification.c.code
        )
    )
    problems = tx.pairs(
        sa.select(
            source.c.kind,
            sa.func.count(sa.case((source.c.state == "enabled", source.c.problem), else_=source.c.note)),
        )
        .where(sa.or_(source.c.state == "enabled", source_breaker.is_open()))
        .group_by(source.c.kind)
    )
    last = max((row["time"].timestamp() for row in checked), default=0.0)
    return {
        "invariant_violations": {row["code"]: row["count"] for row in checked},
        "invariants_checked_timestamp_seconds": {"": last},
        "source_problems": {metrics.kind_label(kind): count for kind, count in sorted(problems.items())},
    }


def _for_each(labels: Sequence[str], counts: Mapping[str, Any]) -> Values:
    return {label: counts.get(label, 0) for label in labels}


def _age(tx: Tx, time: datetime | None) -> float:
    """Return the seconds since ``time``; 0 without one, or for one that is yet to come."""
    return 0.0 if time is None else max(0.0, (tx.now - time).total_seconds())

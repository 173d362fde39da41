"""Makes the overview, at most once a second for all readers that see the same."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from functory.api.stream.bar import Bar
from functory.client.functory import Functory
from functory.engine.access.scopes import Scope
from functory.engine.database import counters
from functory.engine.database.transaction import Tx
from functory.engine.executions import event_listing, worker_registry
from functory.engine.functions import listing
from functory.engine.maintenance import attention, verifier
from functory.engine.tallies import histogram
from functory.engine.tallies.count import EVENT, FAILURES, Count, Key
from functory.rows.overview import Overview

# For how long an overview is shown to all readers (seconds).
AGE_SECONDS = 1.0
# Scopes with an overview of their own at the same time.
MAX_SCOPES = 100
MINUTES = 60
LINES = 5

_LISTED = 500

# Kind, the words for one and for several, and the page.
_NEEDS = (
    ("questions", "question waits for a person", "questions wait for a person", "/approvals"),
    ("approvals", "function waits for a grant", "functions wait for a grant", "/approvals?tab=grants"),
    (
        "stuck_sagas",
        "compensation is stuck",
        "compensations are stuck",
        "/executions?unresolved=1",
    ),
    (
        "quarantined_events",
        "event is quarantined",
        "events are quarantined",
        "/events?state=quarantined",
    ),
    ("open_breakers", "circuit breaker is open", "circuit breakers are open", "/triggers"),
    (
        "failing_triggers",
        "trigger cannot start its function",
        "triggers cannot start their functions",
        "/triggers",
    ),
    ("dead", "execution is dead", "executions are dead", "/executions?state=dead&since=24h"),
    (
        "failed",
        "execution has failed in 24 hours",
        "executions have failed in 24 hours",
        "/executions?state=failed&state=timed_out&since=24h",
    ),
    ("failed_sources", "source has a problem", "sources have a problem", "/schedules"),
    ("violations", "row breaks an invariant", "rows break an invariant", "/health"),
    ("late_tallies", "scheduler is behind with counting", "schedulers are behind with counting", "/health"),
)


class Overviews:
    """The overview of one installation, for every scope. Shared between threads."""

    def __init__(self, engine: Functory) -> None:
        self._engine = engine
        self._bar = Bar(engine)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...] | None, _Kept] = OrderedDict()

    def of(self, scope: Scope) -> dict[str, Any]:
        """Return the overview of what a caller with this scope sees, as JSON values; at most a second old."""
        key = None if scope is None else tuple(sorted(scope))
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            if len(self._kept) > MAX_SCOPES:
                self._kept.popitem(last=False)
        # One reader makes it, and the others wait for it.
        with kept.lock:
            now = self._engine.database.clock.monotonic()
            if kept.value is None or now - kept.made_at >= AGE_SECONDS:
                kept.value = self._make(key, kept)
                kept.made_at = self._engine.database.clock.monotonic()
            return kept.value

    def _make(self, scope: Scope, kept: _Kept) -> dict[str, Any]:
        engine = self._engine
        names = None if scope is None else [row["name"] for row in _functions(engine, scope)]
        kept.count_approvals(engine, scope)
        with engine.database.read(snapshot=True) as tx:
            minutes = _minutes(engine, tx, names)
            failing = engine.tallies.failing(tx, LINES, names)
            counts: Counter[str] = Counter(attention.counts(tx, scope))
            counts["late_tallies"] = int(scope is None and engine.tallies.is_behind(tx))
            stopped = attention.stopped(tx, LINES, scope)
            checks = None if scope is not None else verifier.last_results(tx)
            outcomes = engine.tallies.outcomes(tx, names)
            is_new = not event_listing.has_history(tx)
        counts["approvals"] = kept.approvals
        counts["dead"] = outcomes["dead"]
        counts["failed"] = outcomes["failed"] + outcomes["timed_out"]
        bar = self._bar(scope)
        found = {
            "is_new": is_new,
            "needs_you": _needs(counts),
            "series": _series(minutes, scope),
            "failing": [
                {
                    "function": name,
                    "version": version,
                    "failures": one.failures,
                    "runs": one.runs,
                    "spark": one.failure_spark,
                }
                for name, version, one in failing
            ],
            "stopped": self._with_counts(stopped),
            "workers": self._workers(bar["running"]),
            "verification": None if checks is None else _verification(checks),
            "bar": bar,
        }
        return Overview.model_validate(found).model_dump(mode="json")

    def _with_counts(self, stopped: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        summaries = self._engine.tallies.of_triggers(sorted({row["trigger"] for row in stopped}))
        return [{**row, "count": max(1, summaries[row["trigger"]].reasons[row["reason"]])} for row in stopped]

    def _workers(self, busy: int) -> dict[str, Any]:
        engine = self._engine
        alive = worker_registry.alive(engine.database, engine.settings.lease_seconds)
        return {
            "alive": len(alive),
            "slots": sum(row["slots"] for row in alive),
            "busy": busy,
            "tiers": Counter(row["isolation"] for row in alive),
        }


class _Kept:
    """The overview of one scope, and the number of approvals as of the counters of functions and grants."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: dict[str, Any] | None = None
        self.made_at = float("-inf")
        self.approvals = 0
        self._as_of: tuple[int, int] | None = None

    def count_approvals(self, engine: Functory, scope: Scope) -> None:
        """Count the functions whose active version waits for grants, if a function or a grant has changed."""
        with engine.database.read() as tx:
            as_of = counters.read(tx, counters.FUNCTIONS), counters.read(tx, counters.GRANTS)
        if as_of != self._as_of:
            pending = engine.grant_approvals.pending(list(_functions(engine, scope)))
            self.approvals = sum(1 for wanted in pending.values() if list(wanted))
            self._as_of = as_of


def _functions(engine: Functory, scope: Scope) -> Iterable[Mapping[str, Any]]:
    after: str | None = None
    while True:
        rows = listing.list_functions(engine.database, scope=scope, after=after, limit=_LISTED)
        yield from rows[:_LISTED]
        if len(rows) <= _LISTED:
            return
        after = rows[_LISTED - 1]["name"]


def _minutes(engine: Functory, tx: Tx, names: Sequence[str] | None) -> list[list[tuple[Key, Count]]]:
    if names is not None and not names:
        return [[] for _ in range(MINUTES)]
    kind = "total" if names is None else "function"
    return list(engine.tallies.by_minute(tx, kind, MINUTES, names).values())


def _series(minutes: Sequence[Sequence[tuple[Key, Count]]], scope: Scope) -> dict[str, Any]:
    def numbers(outcomes: Sequence[str]) -> list[int]:
        return [sum(one.count for key, one in minute if key.outcome in outcomes) for minute in minutes]

    def percentiles(events: bool) -> list[float | None]:
        return [
            histogram.percentile(
                histogram.added(one.queued for key, one in minute if (key.outcome == EVENT) == events), 0.95
            )
            for minute in minutes
        ]

    return {
        "events": None if scope is not None else numbers([EVENT]),
        "succeeded": numbers(["succeeded"]),
        "failed": numbers(FAILURES),
        "queue_p95": percentiles(events=False),
        "router_lag": None if scope is not None else percentiles(events=True),
    }


def _needs(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "count": counts[kind],
            "what": one if counts[kind] == 1 else several,
            "link_path": path,
        }
        for kind, one, several, path in _NEEDS
        if counts[kind]
    ]


def _verification(checks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "checked_at": max((row["time"] for row in checks.values()), default=None),
        "ok": sum(1 for row in checks.values() if not row["count"]),
        "of": len(checks),
    }

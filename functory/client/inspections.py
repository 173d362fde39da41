"""Inspections: what operators ask about an engine, each put together of several of its parts. Nothing is changed.

:class:`functory.client.functory.Functory` composes it; commands and the API show what it returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import asdict

from functory.engine.access.scopes import Scope
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.errors import Unavailable
from functory.engine.events import envelope, exchange
from functory.engine.events.store import Events
from functory.engine.executions import activity, event_timeline, open_executions, recent_runs, worker_registry
from functory.engine.executions.event_timeline import Timeline
from functory.engine.executions.lineage import Lineage
from functory.engine.executions.recent_runs import RecentRuns
from functory.engine.firings import failures, inspection
from functory.engine.firings.inspection import TriggerInspection
from functory.engine.firings.suppressed_matches import MatchFilter, SuppressedMatches
from functory.engine.firings.suppressions import Suppressions
from functory.engine.firings.trigger_store import Triggers
from functory.engine.functions import limits, listing
from functory.engine.functions.registry import Functions
from functory.engine.settings import Settings
from functory.engine.sources.store import Sources
from functory.engine.tallies.reader import FunctionSummary, Runs, Tallies
from functory.explanations import functions as explanations
from functory.explanations import trigger_flow
from functory.triggers.analysis import dry_run

# What failed or was dropped longer ago is no news. `functory trigger show` has it.
RECENT = timedelta(days=1)


class Inspections:
    """Answers about one engine."""

    def __init__(
        self, database: Database, settings: Settings, functions: Functions, tallies: Tallies
    ) -> None:
        self._database = database
        self._settings = settings
        self._functions = functions
        self._tallies = tallies
        self._triggers = Triggers(database)

    def status(self, broker_problem: Callable[[], str | None] | None = None) -> dict[str, Any]:
        """What is there, what is open, and what went wrong within a day. ``broker_problem`` says what is wrong with the
        broker; without it the broker is asked.
        """
        database, lineage = self._database, Lineage(self._database)
        problem = (broker_problem or self._broker_problem)()
        return {
            "database": {
                "name": database.name,
                "reachable": True,
                "round_trip_seconds": round(database.ping(), 6),
                "schema": migrations.current(database),
            },
            "broker": {
                "kind": self._settings.broker.split(":", 1)[0],
                "reachable": problem is None,
                "problem": problem,
            },
            "workers": worker_registry.alive(database, self._settings.lease_seconds),
            "open": lineage.open_work(),
            "totals": lineage.totals(),
            "functions": self._functions.count(),
            "triggers": self._triggers.count(),
            "sources": source_summary(Sources(database).list()),
            "failed_matches": failures.recent(database, RECENT),
            "dropped_by_guards": Suppressions(database).dropped(RECENT.total_seconds()),
        }

    def activity(self, *, minutes: int = 5, count: int = 20, scope: Scope = None) -> dict[str, Any]:
        """What happens now, within ``scope``: up to ``count`` functions, those with most running executions and then
        with most that ended in the last ``minutes``, and up to ``count`` executions, those that have run longest.
        """
        names = None if scope is None else listing.names(self._database, scope)
        kind = "total" if names is None else "function"
        with self._database.read(snapshot=True) as tx:
            open_ = open_executions.count(tx, scope)
            busy = activity.running_by_function(tx, scope)
            runs = self._tallies.busiest(tx, minutes, count, names, busy)
            total = Runs()
            for counted in self._tallies.by_minute(tx, kind, minutes, names).values():
                for key, one in counted:
                    total.add(key.outcome, one)
            executions = activity.running(tx, count, scope)
            now = tx.now
        busiest = sorted(runs, key=lambda name: (-busy.get(name, 0), -runs[name].runs, name))[:count]
        alive = worker_registry.alive(self._database, self._settings.lease_seconds)
        return {
            "at": now,
            "minutes": minutes,
            **open_,
            "runs": total.runs,
            "failures": total.failures,
            "workers": len(alive),
            "slots": sum(row["slots"] for row in alive),
            "functions": [_active(name, busy.get(name, 0), runs[name]) for name in busiest],
            "executions": executions,
        }

    def trigger_flow(self, name: str, key: str | None = None) -> tuple[TriggerInspection, str]:
        """What waits in the flow control of a trigger (:func:`functory.engine.firings.inspection.inspect`), and advice
        about the first obstacle.
        """
        found = inspection.inspect(self._database, name, key=key)
        return found, self.flow_advice(found)

    def flow_advice(self, found: TriggerInspection) -> str:
        """What holds a trigger up, and what to do."""
        alive = worker_registry.alive(self._database, self._settings.lease_seconds)
        return trigger_flow.advice(found, workers=len(alive), embedded=self._settings.embedded)

    def test_trigger(self, name: str, event: str | Mapping[str, Any], *, source: str) -> dict[str, Any]:
        """What a trigger decides about an event by itself: :func:`functory.triggers.analysis.dry_run.dry_run`.

        ``event`` is the id of a stored one, or members of an envelope, which is completed as an event of ``source``.
        """
        row, now = self._triggers.get(name), self._database.clock.now()
        if isinstance(event, str):
            stored = Events(self._database, self._settings.max_event_bytes).get(event)
            given = envelope.of_mapping(stored)
        else:
            given = envelope.completed(event, self._database.new_id(), now, source)
        return dry_run.dry_run(row, given, now, self._functions.get)

    def event_times(self, event_id: str) -> Timeline:
        """Where the time of an event and of its executions went. Raises :class:`NotFound`."""
        rows = event_timeline.read(self._database, event_id)
        return event_timeline.timeline(rows, self._database.clock.now())

    def function_summaries(self) -> list[dict[str, Any]]:
        """The last 24 hours of every function, by name."""
        names = sorted(row["name"] for row in self._functions.list())
        found = self._tallies.of_functions(names)
        return [{"name": name} | summary_of_function(found[name]) for name in names]

    def function_stats(self, name: str, since: datetime) -> dict[str, Any]:
        """Executions, failures, times and calls of a function since some time, with advice about them.

        Raises :class:`NotFound`. What is read from rows (``recent``, ``calls``) is about the newest executions of the
        active version, or of the newest one while none is active.
        """
        version = self._functions.get(name)
        found = self._tallies.function_stats(name, since)
        with self._database.read() as tx:
            recent = recent_runs.read(tx, name, version["number"], since)
        versions = [
            {"version": number} | _total(runs)
            for number, runs in sorted(found.versions.items(), reverse=True)
        ]
        stats = {
            "name": name,
            "version": version["number"],
            "since": since,
            "interval_seconds": found.interval_seconds,
            "series": [{"time": at} | _runs(runs) for at, runs in found.series],
            "versions": versions,
            "total": _total(found.total),
            "change": explanations.change_of_versions(versions, version["number"]),
            "limits": limits.parse(version["limits"]).as_json(),
            "recent": _recent(recent),
            "calls": _calls(recent),
        }
        return stats | {"advice": [one.as_json() for one in explanations.advise(name, stats)]}

    def suppressed_matches(
        self, trigger: str | None = None, reasons: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """The suppressed matches that were not resumed, by trigger, then by event. Raises :class:`NotFound`."""
        for page in SuppressedMatches(self._database).pages(MatchFilter(trigger, None, tuple(reasons))):
            yield from map(asdict, page)

    def _broker_problem(self) -> str | None:
        if self._settings.embedded:
            return None
        try:
            exchange.ping(self._settings)
        except Unavailable as error:
            return f"{error.what}: {error.why}"
        return None


def source_summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of sources by state, and the enabled ones with a problem: kind, name, problem, problem_at."""
    states = Counter(row["state"] for row in rows)
    return {
        "enabled": states["enabled"],
        "paused": states["paused"],
        "problems": [
            {field: row[field] for field in ("kind", "name", "problem", "problem_at")}
            for row in rows
            if row["problem"] and row["state"] == "enabled"
        ],
    }


def summary_of_function(summary: FunctionSummary) -> dict[str, Any]:
    """The numbers of a function in lists: of the last 24 hours, with executions and failures by hour."""
    return {
        "runs_24h": summary.runs,
        "failures_24h": summary.failures,
        "p95_seconds": summary.p95_seconds,
        "spark": summary.spark,
        "failure_spark": summary.failure_spark,
    }


def _active(name: str, running: int, runs: Runs) -> dict[str, Any]:
    return {
        "name": name,
        "running": running,
        "runs": runs.runs,
        "failures": runs.failures,
        "run_p95_seconds": runs.run_seconds(0.95),
        "queued_p95_seconds": runs.queued_seconds(0.95),
    }


def _total(runs: Runs) -> dict[str, Any]:
    return _runs(runs) | {"outcomes": dict(runs.outcomes)}


def _runs(runs: Runs) -> dict[str, Any]:
    return {
        "runs": runs.runs,
        "failures": runs.failures,
        "p50_queued_seconds": runs.queued_seconds(0.5),
        "p95_queued_seconds": runs.queued_seconds(0.95),
        "p99_queued_seconds": runs.queued_seconds(0.99),
        "p50_run_seconds": runs.run_seconds(0.5),
        "p95_run_seconds": runs.run_seconds(0.95),
        "p99_run_seconds": runs.run_seconds(0.99),
    }


def _recent(recent: RecentRuns) -> dict[str, Any]:
    return {
        "executions": recent.executions,
        "retried": recent.retried,
        "helped": recent.helped,
        "seconds": round(recent.seconds, 6),
        "waited_seconds": round(recent.waited_seconds, 6),
        "p99_attempt_seconds": recent.longest_of(0.99),
        "errors": [{"type": type_, "count": count} for type_, count in recent.errors.most_common()],
    }


def _calls(recent: RecentRuns) -> list[dict[str, Any]]:
    """Calls that ran at the same time may take longer together than the executions did: the share ends at 1."""
    whole = recent.seconds
    return [
        {
            "function": one.function,
            "calls": one.calls,
            "failed": one.failed,
            "seconds": round(one.seconds, 6),
            "mean_seconds": round(one.seconds / one.calls, 6),
            "share": round(min(1.0, one.seconds / whole), 4) if whole else 0.0,
        }
        for one in recent.calls
    ]

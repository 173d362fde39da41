"""What operators ask about a server, as commands read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from functory.cli.remote.part import Part, ordered, plain

if TYPE_CHECKING:
    from functory.engine.executions.event_timeline import Step, Timeline
    from functory.engine.firings.inspection import TriggerInspection
    from functory.remote import rows
    from functory.triggers.analysis.cycles import Edge

# The fields that the engine's rows have, in their order.
_DECISION = (
    "trigger", "version", "fires", "clauses", "condition", "function", "input", "problem", "undecided",
)  # fmt: skip
_CLAUSE = ("path", "expected", "found", "matched")
_SUMMARY = ("name", "runs_24h", "failures_24h", "p95_seconds", "spark", "failure_spark")
# Fields of an inspection that are times, at any depth.
_TIMES = frozenset({
    "now", "opened_at", "due_at", "first_time", "last_time", "next_at", "expires_at", "time", "run_at", "queue_at",
    "started_at", "taken_at", "cancel_requested_at", "open_until", "since",
})  # fmt: skip
_PAGES = (
    "buffers", "concurrency_groups", "throttle", "rate_limit", "idempotency_keys", "cancellations", "executions",
)  # fmt: skip
# What the inspection has of the trigger itself.
_TRIGGER = ("version", "state", "note")
_DEFINITION = ("function", "flow", "composite")


class Inspections(Part):
    """As :class:`functory.client.inspections.Inspections`."""

    def status(self) -> dict[str, Any]:
        """What is there, what is open, and what went wrong within a day."""
        return plain(self._server.health.status())

    def activity(self, *, minutes: int, count: int) -> dict[str, Any]:
        """What happens now."""
        return plain(self._server.activity.get(minutes=minutes, count=count))

    def trigger_flow(self, name: str, key: str | None = None) -> tuple[TriggerInspection, str]:
        """What waits in the flow control of a trigger, and advice about the first obstacle."""
        from functory.engine.firings.inspection import Page, TriggerInspection

        found = _timed(plain(self._server.triggers.flow(name, key=key)))
        advice = found.pop("advice")
        own = {"name": found.pop("trigger")} | {field: found.pop(field) for field in _TRIGGER}
        definition = {field: found.pop(field) for field in _DEFINITION}
        own["definition"] = {field: value for field, value in definition.items() if value is not None}
        pages = {field: Page(found[field]["rows"], found[field]["count"]) for field in _PAGES}
        return TriggerInspection(**{**found, **pages, "trigger": own}), advice

    def test_trigger(self, name: str, event: str | Mapping[str, Any], *, source: str) -> dict[str, Any]:
        """What a trigger decides about an event by itself."""
        given = event if isinstance(event, str) else {"source": source, **event}
        answer = ordered(plain(self._server.triggers.test(name, event=given)), _DECISION)
        answer["clauses"] = [ordered(clause, _CLAUSE) for clause in answer["clauses"]]
        return answer

    def event_times(self, event_id: str) -> Timeline:
        """Where the time of an event and of its executions went."""
        from functory.engine.executions.event_timeline import ExecutionSteps, Timeline

        found = self._server.events.times(event_id)
        executions = [
            ExecutionSteps(
                one.id, one.function, one.version, one.trigger, one.state, [_step(step) for step in one.steps]
            )
            for one in found.executions
        ]
        return Timeline(found.event_id, found.event_type, [_step(step) for step in found.steps], executions)

    def function_summaries(self) -> list[dict[str, Any]]:
        """The last 24 hours of every function, by name."""
        return [ordered(plain(row), _SUMMARY) for row in self._server.functions.list()]

    def function_stats(self, name: str, since: datetime) -> dict[str, Any]:
        """Executions, failures, times and calls of a function since some time, with advice about them."""
        return plain(self._server.functions.stats(name, since=since))

    def suppressed_matches(
        self, trigger: str | None = None, reasons: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """The suppressed matches that were not resumed."""
        return (plain(row) for row in self._server.suppressions.matches(trigger=trigger, reason=reasons))


@dataclass(frozen=True)
class TriggerGraph:
    """As :class:`functory.triggers.analysis.cycles.Graph`."""

    triggers: Mapping[str, rows.TriggerFunction]
    edges: Mapping[str, list[Edge]]
    rings: list[list[Edge]]

    @classmethod
    def of(cls, found: rows.TriggerGraph) -> TriggerGraph:
        """The graph that a server has sent."""
        edges: dict[str, list[Edge]] = {one.name: [] for one in found.triggers}
        for step in found.steps:
            edges[step.trigger].append(_edge(step))
        rings = [[_edge(step) for step in ring] for ring in found.cycles]
        return cls({one.name: one for one in found.triggers}, edges, rings)

    def cycles(self) -> list[list[Edge]]:
        """Every cycle, as its steps."""
        return self.rings


def _edge(step: rows.CycleStep) -> Edge:
    from functory.triggers.analysis.cycles import Edge
    from functory.triggers.analysis.emissions import Emission

    return Edge(step.trigger, step.function, Emission(step.event, step.subject), step.target)


def _step(step: rows.TimelineStep) -> Step:
    from functory.engine.executions.event_timeline import Step

    return Step(
        step.step,
        step.time,
        step.since_seconds,
        step.difference_seconds,
        step.waited_for,
        step.clock_difference_seconds,
    )


def _timed(value: Any, name: str = "") -> Any:
    """A value of the inspection with its times, which are texts in JSON."""
    if isinstance(value, Mapping):
        return {field: _timed(one, field) for field, one in value.items()}
    if isinstance(value, list):
        return [_timed(one) for one in value]
    return datetime.fromisoformat(value) if name in _TIMES and isinstance(value, str) else value

"""Timelines of events and executions as the API shows them."""

from __future__ import annotations

from typing import Any

from functory.engine.executions.event_timeline import ExecutionSteps, Step, Timeline


def shown(timeline: Timeline) -> dict[str, Any]:
    """The timeline as a row."""
    return {
        "event_id": timeline.event_id,
        "event_type": timeline.type,
        "steps": [_step(step) for step in timeline.steps],
        "executions": [_execution(one) for one in timeline.executions],
    }


def _execution(one: ExecutionSteps) -> dict[str, Any]:
    return {
        "id": one.id,
        "function": one.function,
        "version": one.version,
        "trigger": one.trigger,
        "state": one.state,
        "steps": [_step(step) for step in one.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "step": step.name,
        "time": step.at,
        "since_seconds": step.since_event,
        "difference_seconds": step.difference,
        "waited_for": step.waited_for,
        "clock_difference_seconds": step.clock_difference,
    }

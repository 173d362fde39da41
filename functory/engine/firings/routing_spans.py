"""Spans of events and firings, for traces: the event, its routing, and each firing of a trigger. Pure.

They have no value of an event, only its type, source and ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from functory.engine.database.id_times import time_of_id
from functory.engine.events import trace_origins
from functory.engine.events.event_row import EventRow
from functory.engine.firings.launch import Launch
from functory.engine.telemetry.trace_context import event_span, execution_span, firing_span, route_span
from functory.engine.telemetry.traces import Span, SpanLink

# Each execution writes several events of these. In a trace they are shown if a trigger wants them.
_ENGINE = ("/functory/executions/", "/functory/reaper")


def of_events(events: Sequence[EventRow], matches: Counter[str], routed_at: datetime) -> list[Span]:
    """Return the spans of events that were routed. ``matches`` counts the decisions of triggers, by event."""
    return [
        span
        for event in events
        if matches[event.id] or not event.source.startswith(_ENGINE)
        for span in _of_event(event, matches[event.id], routed_at)
    ]


def _of_event(event: EventRow, matches: int, routed_at: datetime) -> list[Span]:
    stored_at, cause = time_of_id(event.id), event.cause_execution_id
    attributes: dict[str, str | int | float | bool] = {
        "cloudevents.event_id": event.id,
        "cloudevents.event_source": event.source,
        "cloudevents.event_type": event.type,
    }
    return [
        Span(
            event.root_id,
            event_span(event.id),
            None if cause is None else execution_span(cause),
            f"event {event.type}",
            stored_at,
            stored_at,
            attributes,
            "producer",
            given=trace_origins.of_event(event.extensions),
        ),
        Span(
            event.root_id,
            route_span(event.id),
            event_span(event.id),
            "route",
            stored_at,
            routed_at,
            {"functory.matches": matches},
        ),
    ]


def of_firings(launched: Sequence[Launch], fired_at: datetime) -> list[Span]:
    """Return the spans of firings that started an execution, with a link to each of their events."""
    return [_of_firing(one, fired_at) for one in launched]


def _of_firing(one: Launch, fired_at: datetime) -> Span:
    event, fire = one.admitted.event, one.admitted.fire
    return Span(
        event.root_id,
        firing_span(fire.trigger.id, event.id),
        route_span(event.id),
        f"trigger {fire.trigger.name}",
        fired_at,
        fired_at,
        {"functory.trigger": fire.trigger.name, "functory.execution.id": one.row["id"]},
        links=[
            SpanLink(cause.root_id, event_span(cause.id), "triggered by") for cause in fire.events or (event,)
        ],
    )

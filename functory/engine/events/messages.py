"""Messages of events: what a subscriber gets, whatever the broker is."""

from __future__ import annotations

from dataclasses import dataclass

from functory.engine.events import store as event_store
from functory.engine.events.event_row import EventRow
from functory.engine.serialization import json_codec
from functory.engine.telemetry import trace_context, traces

CONTENT_TYPE = "application/cloudevents+json"


@dataclass(frozen=True, slots=True)
class EventMessage:
    """The CloudEvents envelope of an event as JSON, with its id and its routing key, the event's type."""

    id: str
    routing_key: str
    body: bytes


def message_of(row: EventRow) -> EventMessage:
    """Return the message of an event row. While traces are recorded it has a trace context: that which the event
    brought from outside, or its own span (CloudEvents, Distributed Tracing extension).
    """
    body = event_store.envelope(row)
    if traces.recorder is not None and trace_context.HEADER not in body:
        context = traces.context_of_event(row.root_id, row.id)
        if context is not None:
            body[trace_context.HEADER] = context.header()
    return EventMessage(row.id, row.type, json_codec.encode_stored(body))

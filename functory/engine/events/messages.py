"""Messages of events: what a subscriber gets, whatever the broker is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functory.engine.events import store as event_store
from functory.engine.serialization import json_codec

CONTENT_TYPE = "application/cloudevents+json"


@dataclass(frozen=True, slots=True)
class EventMessage:
    """The CloudEvents envelope of an event as JSON, with its id and its routing key, the event's type."""

    id: str
    routing_key: str
    body: bytes


def message_of(row: Mapping[str, Any]) -> EventMessage:
    """Return the message of an event row."""
    return EventMessage(row["id"], row["type"], json_codec.encode_stored(event_store.envelope(row)))

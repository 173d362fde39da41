"""What a message shows of its origin: a function's request, or an event of an installation of Functory. Pure.

A service that a function calls may pass the trace of the request on with a message. Then the message has the function's
lineage token, in its headers or in the attributes of a CloudEvent. An event of another installation has no token of
ours, but its depth, which the event of the message continues: so a loop over two installations has an end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.events.lineage_tokens import HEADER, TRACESTATE, LineageToken
from functory.engine.serialization import json_codec
from functory.triggers.sources.queues.message import Message

# Every envelope of Functory has it (functory.engine.events.envelope).
ROOT, DEPTH = "functoryroot", "functorydepth"
_DEPTH = re.compile(r"[0-9]{1,9}")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Attributes of a CloudEvent in the binary mode of the AMQP binding (section 3.1.3.1), with both separators.
_ATTRIBUTE = re.compile(r"cloudevents[:_]")
_MAX_TEXT = 4096


@dataclass(frozen=True)
class MessageOrigin:
    """``event_id`` is the id of the event that the message is, if an installation of Functory sent it; ``depth`` is the
    depth of the event that is made of the message. ``headers`` may hold a lineage token.
    """

    event_id: str | None = None
    depth: int = 0
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MessageLineage:
    """The checked lineage of a message. ``own``: it is an event of this installation."""

    own: bool = False
    depth: int = 0
    token: LineageToken | None = None


def read_origin(message: Message) -> MessageOrigin:
    """Return what a message says of its origin. Nothing of it is checked yet."""
    given = {str(name).lower(): value for name, value in message.headers.items()}
    attributes = {_ATTRIBUTE.sub("", name, count=1): value for name, value in given.items()} | _envelope(
        message
    )
    found = (
        (name, value)
        for values in (given, attributes)
        for name in (HEADER, TRACESTATE)
        if isinstance(value := values.get(name), str) and len(value) <= _MAX_TEXT
    )
    headers = tuple(dict.fromkeys(found))
    if not isinstance(attributes.get(ROOT), str):
        return MessageOrigin(headers=headers)
    id_, depth = attributes.get("id"), str(attributes.get(DEPTH))
    return MessageOrigin(
        id_ if isinstance(id_, str) and _ID.fullmatch(id_) else None,
        (int(depth) if _DEPTH.fullmatch(depth) else 0) + 1,
        headers,
    )


def _envelope(message: Message) -> dict[str, Any]:
    """The attributes of a CloudEvent in structured mode, whatever the message's content type is; else nothing."""
    if b'"specversion"' not in message.body:
        return {}
    try:
        found = json_codec.loads(message.body)
    except (Invalid, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

"""Writes the events of delivered messages, with their checked lineage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functory.engine.events import store as event_store
from functory.engine.sources import store as source_store
from functory.engine.sources.store import KEEP_CURSOR
from functory.triggers.sources.plugin import SourceContext
from functory.triggers.sources.queues.message import Message
from functory.triggers.sources.queues.message_lineage import MessageLineage, MessageOrigin, read_origin
from functory.triggers.sources.queues.message_mapping import MappedMessages, MessageMapping, map_messages


def write_events(
    context: SourceContext, mapping: MessageMapping, messages: Sequence[Message], *, cursor: Any = KEEP_CURSOR
) -> MappedMessages:
    """Write the events of ``messages`` in one transaction. Raises the errors of ``context.put``."""
    lineages = check_origins(context, messages)
    mapped = map_messages(mapping, messages, lineages, context.max_depth, context.max_bytes)
    refused = mapped.without_event
    context.put(
        mapped.events,
        cursor=cursor,
        also=(lambda tx, row: source_store.count_refused(tx, row["id"], refused)) if refused else None,
    )
    return mapped


def check_origins(context: SourceContext, messages: Sequence[Message]) -> list[MessageLineage]:
    """Return the lineage of each message: tokens are verified, and ids are looked up among our own events."""
    origins = [read_origin(message) for message in messages]
    named = {origin.event_id for origin in origins if origin.event_id is not None}
    known = context.read(lambda tx, _row: event_store.stored_ids(tx, named)) if named else set[str]()
    # The exchange has a name of its own only on our own broker.
    exchange = context.exchange if context.config.broker else None

    def check(message: Message, origin: MessageOrigin) -> MessageLineage:
        own = origin.event_id in known or (
            exchange is not None and message.properties.get("exchange") == exchange
        )
        token = context.lineage(origin.headers) if origin.headers else None
        return MessageLineage(own, origin.depth, token)

    return [check(*pair) for pair in zip(messages, origins, strict=True)]

"""Maps a queue message to its event. Pure, without a broker.

Bodies are JSON or text. They are decoded here and never by the client library's serializers: the content type of a
message cannot choose the decoder, and nothing is unpickled or decompressed.
"""

from __future__ import annotations

import base64
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.events import store as event_store
from functory.engine.events.event_types import SOURCE_REJECTED
from functory.engine.events.receipts import IncomingEvent
from functory.engine.serialization import json_codec
from functory.engine.sources.refusals import OTHER
from functory.triggers.expressions.values import ValueExpression, compile_value
from functory.triggers.sources.queues.config import RECEIVED, QueueConfig
from functory.triggers.sources.queues.message import Message
from functory.triggers.sources.queues.message_lineage import MessageLineage

# Bytes of a rejected message's body that its event contains.
REJECTED_BODY_BYTES = 4096
# Headers that are nested deeper become null.
MAX_HEADER_DEPTH = 20

VARIABLES = ("headers", "body", "properties")
EXAMPLE = "headers.kind"
TEXTS = frozenset({"STRING", "DYN", "NULL"})
CHARSETS = {None: "utf-8", "": "utf-8", "utf-8": "utf-8", "utf8": "utf-8", "binary": "utf-8", "us-ascii": "ascii",
            "ascii": "ascii", "iso-8859-1": "latin-1", "latin-1": "latin-1", "latin1": "latin-1"}  # fmt: skip
# Content types that clients send when they were given none.
UNKNOWN_CONTENT_TYPES = (None, "", "application/data", "application/octet-stream")


class RefusedMessage(Invalid):
    """A message makes no event. ``refusal`` is the reason, a word of
    :data:`functory.engine.sources.refusals.REASONS`.
    """

    def __init__(self, what: str, why: str = "", try_: str = "", *, refusal: str) -> None:
        super().__init__(what, why, try_)
        self.refusal = refusal


class MessageMapping:
    """The compiled expressions of one queue: type, subject, key, data."""

    def __init__(self, config: QueueConfig) -> None:
        """Raises :class:`Invalid` for an expression that is not CEL, or that cannot have the required type."""
        self.queue: str = config.queue
        self._type = _compiled(config.type, "type")
        self._subject = _compiled(config.subject, "subject")
        self._key = _compiled(config.key, "key", TEXTS | {"INT", "UINT"})
        self._data = None if config.data is None else compile_value(config.data, "data", VARIABLES, EXAMPLE)

    def to_event(self, message: Message, max_bytes: int) -> IncomingEvent:
        """The event of a message. Raises :class:`RefusedMessage` with the reason why there is none."""
        with _refusing("malformed"):
            variables = {
                "headers": to_json_value(message.headers),
                "body": decode_body(message),
                "properties": to_json_value(message.properties),
            }
        with _refusing("mapping"):
            return self._mapped(message, variables, max_bytes)

    def _mapped(self, message: Message, variables: Mapping[str, Any], max_bytes: int) -> IncomingEvent:
        type_ = self._type.evaluate(variables) if self._type else None
        type_ = RECEIVED if type_ is None else type_
        event_store.check_type(type_)
        subject = self._subject.evaluate(variables) if self._subject else None
        if subject is None:
            subject = variables["properties"].get("routing_key") or self.queue
        event_store.check_subject(subject)
        event_store.check_storable(subject, "event subject")
        data = self._data.evaluate(variables) if self._data else {"queue": self.queue, **variables}
        with _refusing("too_large"):
            event_store.check_data(data, max_bytes)
        return IncomingEvent(type_, data, subject, self._id(message, variables))

    def _id(self, message: Message, variables: Mapping[str, Any]) -> str | None:
        if self._key is not None:
            found = self._key.evaluate(variables)
            if isinstance(found, bool) or not (found is None or isinstance(found, str | int)) or found == "":
                raise Invalid("key is no text for this message", "a text, a whole number, or null for none")
            return None if found is None else f"key:{found}"
        if message.offset is not None:
            return f"offset:{message.offset}"
        found = variables["properties"].get("message_id")
        if not isinstance(found, str) or not found:
            raise RefusedMessage(
                "the message has no id",
                "the id shows when a message is delivered again",
                "have the sender set message_id, or give --key; --key null takes it each time it is delivered",
                refusal="no_id",
            )
        return f"id:{found}"


@dataclass
class MappedMessages:
    """The events, whether each message was accepted, and the problem of the last rejected one.

    ``without_event`` is the number of messages that no event records, by the reason.
    """

    events: list[IncomingEvent] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)
    problem: str | None = None
    without_event: Counter[str] = field(default_factory=Counter)


def map_messages(
    mapping: MessageMapping,
    messages: Sequence[Message],
    lineages: Sequence[MessageLineage],
    max_depth: int,
    max_bytes: int,
) -> MappedMessages:
    """Map each message to its event, or to one that records why it was rejected.

    An event of this installation makes no event, and neither does one that is deeper than ``max_depth``: the event of
    its rejection would be published too, and could arrive as the next message.
    """
    mapped = MappedMessages()
    for message, lineage in zip(messages, lineages, strict=True):
        refusal = _endless(lineage, max_depth)
        try:
            if refusal is not None:
                raise refusal
            event = mapping.to_event(message, max_bytes)
        except Invalid as error:
            problem = ": ".join(part for part in (error.reason, error.try_) if part)
            mapped.problem = f"the last message that was rejected: {problem}"
            mapped.accepted.append(False)
            reason = error.refusal if isinstance(error, RefusedMessage) else OTHER
            if refusal is not None:
                mapped.without_event[reason] += 1
                continue
            event = replace(rejection_event(mapping.queue, message, error.reason, max_bytes), refusal=reason)
        else:
            mapped.accepted.append(True)
        if lineage.token is not None or lineage.depth:
            event = replace(event, lineage=lineage.token, depth=lineage.depth)
        mapped.events.append(event)
    return mapped


def _endless(lineage: MessageLineage, max_depth: int) -> RefusedMessage | None:
    """Why a message makes no event, not even one of its rejection; None for all others."""
    if lineage.own:
        return RefusedMessage(
            "the message is one of Functory's own events",
            "each would make the next one",
            "unbind the queue from them; a trigger sees them without a queue",
            refusal="own_event",
        )
    if lineage.depth > max_depth:
        return RefusedMessage(
            "the message is an event that has come through too many installations of Functory",
            f"its depth would be {lineage.depth}, and the limit is {max_depth}",
            "end the loop between the installations, or raise FUNCTORY_MAX_DEPTH",
            refusal="too_deep",
        )
    return None


def rejection_event(queue: str, message: Message, why: str, max_bytes: int = 1_048_576) -> IncomingEvent:
    """The event of a rejected message: the reason, and the beginning of its body."""
    beginning = message.body[: min(REJECTED_BODY_BYTES, max_bytes // 4)]
    found = message.properties.get("message_id")
    id_ = found[:255] if isinstance(found, str) and found else None
    data = {
        "queue": queue,
        "reason": why[: min(1000, max_bytes // 8)],
        "content_type": None if message.content_type is None else str(message.content_type)[:100],
        "message_id": id_,
        "size": len(message.body),
        "body_base64": base64.b64encode(beginning).decode(),
    }
    key = f"rejected:{message.offset}" if message.offset is not None else None
    if key is None and id_ is not None:
        key = f"rejected:{found}"
    return IncomingEvent(SOURCE_REJECTED, data, queue, key)


@contextlib.contextmanager
def _refusing(reason: str) -> Iterator[None]:
    """Let what the block raises be a refusal, for this reason unless it has one."""
    try:
        yield
    except RefusedMessage:
        raise
    except Invalid as error:
        raise RefusedMessage(error.what, error.why, error.try_, refusal=reason) from error


def decode_body(message: Message) -> Any:
    """The decoded body. Raises :class:`Invalid` for anything but JSON and text."""
    if message.headers.get("compression"):
        raise RefusedMessage(
            "the body is compressed",
            "a small one may unpack to any size; send it as it is",
            refusal="encoding",
        )
    given = message.content_type
    type_ = str(given).split(";")[0].strip().lower() if given not in UNKNOWN_CONTENT_TYPES else None
    is_json = type_ is not None and (type_ == "application/json" or type_.endswith("+json"))
    if type_ is not None and not is_json and not type_.startswith("text/"):
        raise RefusedMessage(
            f"bodies of type {type_[:100]} are not read", "only JSON and text are", refusal="content_type"
        )
    encoding = message.encoding.lower() if isinstance(message.encoding, str) else message.encoding
    charset = CHARSETS.get(encoding)
    if charset is None:
        raise RefusedMessage(
            f"the encoding {str(encoding)[:100]!r} is not read", "send UTF-8", refusal="encoding"
        )
    try:
        text = message.body.decode(charset)
    except UnicodeDecodeError as error:
        raise RefusedMessage(
            f"the body is not {charset}", f"byte {error.start}", refusal="encoding"
        ) from None
    if type_ is not None and not is_json:
        return text
    try:
        return json_codec.loads(text)
    except Invalid:
        if is_json:
            raise
        return text


def to_json_value(value: Any, depth: int = 0) -> Any:
    """A header as JSON: brokers also have times, bytes and decimals. Values that are nested too deeply become null."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if depth > MAX_HEADER_DEPTH:
        return None
    if isinstance(value, Mapping):
        return {str(name): to_json_value(below, depth + 1) for name, below in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(below, depth + 1) for below in value]
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)[:1000]


def _compiled(text: str | None, what: str, kinds: frozenset[str] = TEXTS) -> ValueExpression | None:
    if text is None:
        return None
    value = compile_value(text, what, VARIABLES, EXAMPLE)
    if value.kind not in kinds:
        raise Invalid(f"wrong {what}", f"it gives a value of type {value.kind.lower()}, not a text")
    return value

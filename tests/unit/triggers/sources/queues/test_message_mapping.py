"""What a message on a queue becomes: the table of bodies, and what expressions make of them."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from functory.engine.errors import Invalid
from functory.engine.events.lineage_tokens import LineageToken
from functory.engine.serialization import json_codec
from functory.engine.sources import refusals
from functory.triggers.sources.queues.config import QueueConfig
from functory.triggers.sources.queues.message import Message
from functory.triggers.sources.queues.message_lineage import MessageLineage
from functory.triggers.sources.queues.message_mapping import (
    MappedMessages,
    MessageMapping,
    decode_body,
    map_messages,
    rejection_event,
    to_json_value,
)
from functory.triggers.sources.queues.redis_consumer import parse_envelope

ID = {"message_id": "m-1"}


def recipe(**config: Any) -> MessageMapping:
    return MessageMapping(QueueConfig(broker="own", queue="q", **config))


def mapped(message: Message, lineage: MessageLineage | None = None) -> MappedMessages:
    return map_messages(recipe(), [message], [lineage or MessageLineage()], 16, 10_000)


@pytest.mark.parametrize(
    ("body", "content_type", "encoding", "value"),
    [
        (b'{"a": 1}', "application/json", "utf-8", {"a": 1}),
        (b'{"a": 1}', "application/json; charset=utf-8", None, {"a": 1}),
        (b'{"a": 1}', "application/cloudevents+json", "binary", {"a": 1}),
        (b"18446744073709551617", "application/json", None, 18446744073709551617),
        ("ä".encode(), "text/plain", "UTF-8", "ä"),
        (b"\xe4", "text/plain", "iso-8859-1", "ä"),
        (b"[1]", "text/csv", None, "[1]"),
        (b"[1]", None, None, [1]),
        (b"[1", "", None, "[1"),
        (b"", "application/octet-stream", None, ""),
    ],
)
def test_bodies_are_json_or_text(body: bytes, content_type: Any, encoding: Any, value: Any) -> None:
    assert decode_body(Message(body, content_type, encoding)) == value


@pytest.mark.parametrize(
    ("body", "content_type", "encoding", "headers", "why"),
    [
        (b"\x80\x04}", "application/x-python-serialize", "binary", {}, "only JSON and text"),
        (b"a: 1", "application/x-yaml", "utf-8", {}, "only JSON and text"),
        (b"\x81\xa1a\x01", "application/x-msgpack", "binary", {}, "only JSON and text"),
        (b"{", "application/json", None, {}, "not JSON"),
        (b"NaN", "application/json", None, {}, "not JSON"),
        (b"[" * 100_000, "application/json", None, {}, "nested|not JSON"),
        (b"9" * 5000, "application/json", None, {}, "not JSON"),
        (b"\xff", "text/plain", None, {}, "not utf-8"),
        (b"\x80\x04}", None, None, {}, "not utf-8"),
        (b"x", "text/plain", "utf-7", {}, "encoding"),
        (b"x", "text/plain", "zlib", {}, "encoding"),
        (b"x", "text/plain", 7, {}, "encoding"),
        (b"x", 7, None, {}, "only JSON and text"),
        (b"x", "text/plain", None, {"compression": "application/x-gzip"}, "compressed"),
    ],
)
def test_nothing_else_is_read(
    body: bytes, content_type: Any, encoding: Any, headers: dict[str, Any], why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        decode_body(Message(body, content_type, encoding, headers))


def test_an_event_says_what_the_message_said() -> None:
    made = recipe().to_event(
        Message(b'{"n": 1}', headers={"kind": "a"}, properties=ID | {"routing_key": "a.b"}), 10_000
    )
    assert (made.type, made.subject, made.key) == ("queue.received", "a.b", "id:m-1")
    assert made.data == {
        "queue": "q", "headers": {"kind": "a"}, "body": {"n": 1}, "properties": ID | {"routing_key": "a.b"},
    }  # fmt: skip


def test_expressions_make_type_subject_data_and_key() -> None:
    made = recipe(
        type='"order." + headers.kind', subject="string(body.id)", data="body.rows", key='body.id + "/" + headers.kind'
    ).to_event(Message(b'{"id": "7", "rows": [1]}', headers={"kind": "created"}), 10_000)  # fmt: skip
    assert (made.type, made.subject, made.data, made.key) == ("order.created", "7", [1], "key:7/created")
    assert recipe(key="null").to_event(Message(b"x"), 10_000).key is None
    assert recipe(key="body.n").to_event(Message(b'{"n": 5}'), 10_000).key == "key:5"
    assert recipe().to_event(Message(b"x", offset=17), 10_000).key == "offset:17"


@pytest.mark.parametrize(
    ("config", "message", "why"),
    [
        ({}, Message(b"x"), "no id"),
        ({}, Message(b"x", properties={"message_id": 5}), "no id"),
        ({"key": "body.id"}, Message(b"{}", properties=ID), "key"),
        ({"key": "body"}, Message(b"true", properties=ID), "key"),
        ({"key": "body"}, Message(b"", properties=ID), "key"),
        ({"type": "body.type"}, Message(b'{"type": "function.created"}', properties=ID), "reserved"),
        ({"type": "body.type"}, Message(b'{"type": "source.rejected"}', properties=ID), "reserved"),
        ({"type": "body.type"}, Message(b'{"type": "a b"}', properties=ID), "type"),
        ({"type": "body.type"}, Message(b'{"type": 5}', properties=ID), "type"),
        ({"subject": "body"}, Message(b"{}", properties=ID), "subject"),
        ({"subject": "body"}, Message(b"x" * 1025, properties=ID), "subject"),
        ({}, Message(b"x" * 20_000, properties=ID), "too large"),
        ({}, Message(b"[" * 300 + b"]" * 300, "application/json", properties=ID), "nested"),
    ],
)
def test_what_cannot_become_an_event_says_why(config: dict[str, Any], message: Message, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        recipe(**config).to_event(message, 10_000)


@pytest.mark.parametrize(
    "config",
    [{"type": "headers."}, {"type": "1"}, {"key": "true"}, {"data": 'duration("1s")'}, {"subject": "missing.x"},
     {"type": ""}],
)  # fmt: skip
def test_wrong_expressions_are_refused_when_they_are_saved(config: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        recipe(**config)


def test_headers_of_every_kind_are_json() -> None:
    deep: Any = "x"
    for _ in range(1000):
        deep = [deep]
    shown = to_json_value(
        {1: b"\xff\x00", "t": datetime(2026, 1, 1, tzinfo=UTC), "d": Decimal("1.10"), "n": float("nan"),
         "i": float("-inf"), "o": object, "deep": deep, "none": None, "yes": True}
    )  # fmt: skip
    json_codec.encode(shown)
    assert (shown["1"], shown["t"], shown["d"], shown["n"]) == (
        "\\xff\x00",
        "2026-01-01T00:00:00+00:00",
        "1.10",
        "nan",
    )


@pytest.mark.parametrize(
    "raw",
    [b"", b"x", b"\xff", b"[]", b"{}", b"5", b'{"properties": 5, "body": "x"}', b'{"properties": {}, "body": 5}',
     b'{"properties": {"delivery_info": "x"}, "body": "x"}', b'{"properties": {}, "body": "x", "headers": "y"}',
     b'{"properties": {"body_encoding": "base64"}, "body": "!"}', b"[" * 5000],
)  # fmt: skip
def test_what_is_no_envelope_is_read_as_what_cannot_become_an_event(raw: bytes) -> None:
    judged = mapped(parse_envelope(raw))
    assert (judged.accepted, [one.type for one in judged.events]) == ([False], ["source.rejected"])


def test_an_envelope_of_kombu_is_a_message_with_an_id() -> None:
    reported = {
        "delivery_info": {"exchange": "shop", "routing_key": "a.b"},
        "delivery_tag": "t-1",
        "body_encoding": "base64",
    }
    raw = {
        "body": "eyJhIjogMX0=",
        "content-type": "application/json",
        "headers": {"h": 1},
        "properties": reported,
    }
    message = parse_envelope(json_codec.encode(raw))
    assert (decode_body(message), message.headers) == ({"a": 1}, {"h": 1})
    assert message.properties == {"exchange": "shop", "routing_key": "a.b", "message_id": "t-1"}
    assert mapped(message).events[0].key == "id:t-1"


def test_a_rejected_message_is_reported_with_the_beginning_of_its_body() -> None:
    made = rejection_event("q", Message(b"\x80" * 10_000, "application/x", properties=ID), "no reader")
    assert (made.type, made.subject, made.key) == ("source.rejected", "q", "rejected:m-1")
    assert (made.data["size"], len(made.data["body_base64"])) == (10_000, 5464)
    assert rejection_event("q", Message(b"x"), "no id").key is None


@pytest.mark.parametrize("body", [b"{}", b"{"], ids=["readable", "unreadable"])
@pytest.mark.parametrize(("lineage", "why", "reason"), [
    (MessageLineage(own=True), "Functory's own events", "own_event"),
    (MessageLineage(own=True, depth=3), "Functory's own events", "own_event"),
    (MessageLineage(depth=17), "through too many installations", "too_deep"),
])  # fmt: skip
def test_what_would_come_back_for_ever_makes_no_event_at_all(
    body: bytes, lineage: MessageLineage, why: str, reason: str
) -> None:
    judged = mapped(Message(body, "application/json", properties=ID), lineage)
    assert (judged.events, judged.accepted, judged.without_event) == ([], [False], {reason: 1})
    assert why in str(judged.problem)


@pytest.mark.parametrize("body", [b"{}", b"{"], ids=["readable", "unreadable"])
def test_the_event_of_a_message_and_that_of_its_rejection_continue_its_lineage(body: bytes) -> None:
    token = LineageToken("r", "e", 3)
    judged = mapped(Message(body, "application/json", properties=ID), MessageLineage(False, 16, token))
    assert [(one.depth, one.lineage) for one in judged.events] == [(16, token)]


@pytest.mark.parametrize(("message", "config", "reason"), [
    (Message(b"{", "application/json", properties=ID), {}, "malformed"),
    (Message(b"{}", "application/x-pickle", properties=ID), {}, "content_type"),
    (Message(b"{}", "application/json", "utf-16", properties=ID), {}, "encoding"),
    (Message(b"\xff", "text/plain", properties=ID), {}, "encoding"),
    (Message(b"{}", "application/json", headers={"compression": "zlib"}, properties=ID), {}, "encoding"),
    (Message(b"{}", "application/json"), {}, "no_id"),
    (Message(b"{}", "application/json", properties=ID), {"type": "body.kind"}, "mapping"),
    (Message(b'"' + b"x" * 3000 + b'"', "application/json", properties=ID), {}, "too_large"),
])  # fmt: skip
def test_a_rejected_message_has_a_reason_of_the_list(
    message: Message, config: dict[str, Any], reason: str
) -> None:
    judged = map_messages(recipe(**config), [message], [MessageLineage()], 16, 2000)
    assert [event.refusal for event in judged.events] == [reason]
    assert reason in refusals.REASONS

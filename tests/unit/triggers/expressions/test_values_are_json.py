"""JSON that goes through an expression comes out as it was, with the order of its members, or there is an error."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec
from functory.triggers.expressions.conditions import compile_condition
from functory.triggers.expressions.values import compile_value
from functory.triggers.flow_control.definition import compile_flow
from functory.triggers.sources.queues.config import QueueConfig
from functory.triggers.sources.queues.message_mapping import Message, MessageMapping
from functory.triggers.sources.webhooks.config import WebhookConfig
from functory.triggers.sources.webhooks.event_mapping import EventMapping

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

# Where the library's values end, and the characters that it has no form for.
edges = st.sampled_from([edge + step for edge in (2**53, 2**63, 2**64, -(2**63)) for step in (-1, 0, 1)])
texts = st.text(
    st.characters(exclude_categories=()) | st.sampled_from("\0\ud83d\ude00a"), max_size=4
) | st.sampled_from(["o\0a", "o\0b", "o", "o\ud83d", "o\ude00", "o\ufffd"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | edges
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
# An expression over ``data``, and the same in Python.
FORMS: list[tuple[str, Callable[[Any], Any]]] = [
    ("data", lambda v: v),
    ("data.b", lambda v: v["b"]),
    ('data["b"]', lambda v: v["b"]),
    ("data.l[1]", lambda v: v["l"][1]),
    ("data.l[0].z", lambda v: v["l"][0]["z"]),
    ('{"z": data.b, "a": data.l, "m": 1}', lambda v: {"z": v["b"], "a": v["l"], "m": 1}),
    ("[data.b, data]", lambda v: [v["b"], v]),
    ("has(data.b) ? data : null", lambda v: v),
    ("data.l.filter(x, true)", lambda v: v["l"]),
    ('data.l.map(x, {"z": x, "a": [x]})', lambda v: [{"z": x, "a": [x]} for x in v["l"]]),
    ('{"b": data.b, "a": {"z": data.l[0], "y": data}}', lambda v: {"b": v["b"], "a": {"z": v["l"][0], "y": v}}),
]  # fmt: skip


def queue_of(**config: Any) -> MessageMapping:
    return MessageMapping(QueueConfig.model_validate({"broker": "own", "queue": "q", "key": "null"} | config))


def shape_of(b: Any, first: Any) -> dict[str, Any]:
    return {"z": 0, "l": [{"z": first, "b": b}, first], "b": b, "a": {"y": 1, "x": 2}}


@given(json_values, json_values)
def test_a_value_comes_out_as_it_went_in_or_is_refused(b: Any, first: Any) -> None:
    data = shape_of(b, first)
    for text, wanted in FORMS:
        try:
            found = compile_value(text).evaluate({"event": {"data": data}, "data": data})
        except Invalid:
            continue
        assert json_codec.dumps(found) == json_codec.dumps(wanted(data)), text


@given(json_values, json_values)
def test_one_path_is_never_refused(b: Any, first: Any) -> None:
    data = shape_of(b, first)
    for text, wanted in FORMS[:5]:
        assert compile_value(text).evaluate({"event": {}, "data": data}) is wanted(data)


@given(json_values, json_values)
def test_a_member_that_an_expression_does_not_read_changes_nothing(b: Any, first: Any) -> None:
    data = {"hidden": shape_of(b, first), "s": "x", "l": [1, 2]}
    event = {
        "type": "t",
        "data": data,
        b if isinstance(b, str) and b not in ("type", "data") else "more": first,
    }
    assert (
        compile_condition('data.s == "x" && event.type == "t" && data.l[0] == 1')
        .evaluate(event, NOW, {})
        .matched
    )
    assert compile_value('data.s + "/" + event.data.s').evaluate({"event": event, "data": data}) == "x/x"


@given(texts, texts)
def test_two_texts_are_equal_in_a_condition_only_if_they_are(one: str, other: str) -> None:
    for text in (
        "data.a == data.b",
        "data.l[0] == data.l[1]",
        "started.data.a == data.b",
        "data.a in [data.b]",
    ):
        event = {"data": {"a": one, "b": other, "l": [one, other]}}
        result = compile_condition(text, ("started",)).evaluate(event, NOW, {}, started=event)
        assert result.matched == (one == other and result.problem is None)


@given(edges, edges)
def test_two_integers_are_equal_in_a_condition_only_if_they_are(one: int, other: int) -> None:
    result = compile_condition("data.a == data.b").evaluate({"data": {"a": one, "b": other}}, NOW, {})
    assert result.matched == (one == other and result.problem is None)


@given(json_values, json_values)
def test_two_values_are_one_key_only_if_they_are_equal(one: Any, other: Any) -> None:
    rate = {"limit": 1, "period": "1m"}
    controls: dict[str, dict[str, Any]] = {
        "idempotency": {}, "rate_limit": rate, "throttle": rate, "concurrency": {"limit": 1},
        "singleton": {"mode": "skip"}, "overlap": {"policy": "skip"},
    }  # fmt: skip
    for text in ("data.b", '{"b": data.b}', "[data.b]"):
        for name, fields in controls.items():
            flow = compile_flow({name: fields | {"key": text}}, composite=False)
            try:
                keys = [flow.evaluate({"data": {"b": value}}) for value in (one, other)]
            except Invalid:
                continue
            equal = json_codec.canonical(one) == json_codec.canonical(other)
            assert (keys[0] == keys[1]) == equal


@given(json_values, json_values)
def test_a_webhook_and_a_queue_store_what_was_sent_or_refuse_it(b: Any, first: Any) -> None:
    body = shape_of(b, first)
    for text, wanted in FORMS:
        mapped = text.replace("data", "body")
        hook = EventMapping("hook", WebhookConfig.model_validate(
            {"auth": {"type": "none", "allow_unauthenticated": True}, "data": mapped}
        ))  # fmt: skip
        queue = queue_of(data=mapped)
        message = Message(json_codec.encode(body), "application/json")
        asked: tuple[Callable[[], Any], ...] = (
            lambda hook=hook: hook.to_event({"headers": {}, "body": body, "query": {}, "method": "POST"}),
            lambda queue=queue, message=message: queue.to_event(message, 1_000_000),
        )
        for ask in asked:
            try:
                event = ask()
            except Invalid:
                continue
            assert json_codec.dumps(event.data) == json_codec.dumps(wanted(body)), text


@given(texts)
def test_a_subject_is_stored_as_it_was_sent_or_refused(text: str) -> None:
    hook = EventMapping("hook", WebhookConfig.model_validate(
        {"auth": {"type": "none", "allow_unauthenticated": True}, "subject": "body.s"}
    ))  # fmt: skip
    queue = queue_of(subject="body.s")
    variables = {"headers": {}, "body": {"s": text}, "query": {}, "method": "POST"}
    message = Message(json_codec.encode({"s": text}), "application/json")
    storable = text != "" and "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)
    for ask in (lambda: hook.to_event(variables), lambda: queue.to_event(message, 1_000_000)):
        if storable:
            assert ask().subject == text
        else:
            with pytest.raises(Invalid):
                ask()


def test_a_priority_beyond_all_numbers_is_the_largest() -> None:
    flow = compile_flow({"priority": {"run": "data.p"}}, composite=False)
    assert flow.evaluate({"data": {"p": 10**400}}).priority == 600.0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{1: data.s}", "a member name that is not a text"),
        ("[timestamp('2026-01-01T00:00:00Z')]", "it holds a datetime"),
        ('{"a": b"x"}', "it holds a bytearray"),
        ("[1.0 / 0.0]", "inf is not JSON"),
        ("1.0 / 0.0", "inf is not JSON"),
        ("[type(data)]", "it holds a Type"),
        ("data.s.t", "'t' is read from a str, which is not an object"),
        ("data.l[3]", "the list has 2 elements and none at 3"),
        ("data.l[-1]", "the list has 2 elements and none at -1"),
        ("data.s[0]", "0 is read from a str, which is not a list"),
        ("data.missing", 'Key not found in map : "missing"; test with has(...) first'),
    ],
)
def test_what_is_no_json_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        compile_value(text).evaluate({"event": {}, "data": {"s": "x", "l": [1, 2]}})
    assert why in refused.value.why

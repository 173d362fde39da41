"""What a request becomes: bodies by their content type, and the expressions over them."""

from typing import Any

import pytest

from functory.engine.errors import Invalid
from functory.engine.serialization.media_types import UnsupportedMediaType
from functory.triggers.sources import registry
from functory.triggers.sources.webhooks import Request, WebhookSource
from functory.triggers.sources.webhooks.event_mapping import EventMapping
from functory.triggers.sources.webhooks.receiver import handshake_response
from functory.triggers.sources.webhooks.request import content_type, read_body, read_fields

TOKEN = {"type": "token", "secret": "S"}
HEADERS = (
    ("content-type", "application/json"),
    ("user-agent", "GitHub-Hookshot/1"),
    ("authorization", "Bearer s3cret"),
    ("cookie", "s3cret"),
    ("x-event", "push"),
    ("x-many", "a"),
    ("x-many", "b"),
)


def mapping_of(**config: Any) -> EventMapping:
    made = registry.parse_config(WebhookSource(), {"auth": TOKEN} | config)
    WebhookSource().check(made)
    return EventMapping("orders", made)


def made(mapping: EventMapping, body: Any = None, *, headers: Any = HEADERS, query: str = "") -> Any:
    return mapping.to_event(mapping.variables(Request("POST", headers, query, b""), body))


def test_by_default_the_request_is_the_data_without_what_proves_its_sender() -> None:
    event = made(mapping_of(), {"n": 1}, query="a=1&b=2&b=3&c=")
    assert (event.type, event.subject, event.delivery_id) == ("webhook.received", "orders", None)
    assert event.data == {
        "webhook": "orders",
        "headers": {"content-type": "application/json", "user-agent": "GitHub-Hookshot/1"},
        "query": {"a": "1", "b": ["2", "3"], "c": ""},
        "body": {"n": 1},
    }
    kept = made(mapping_of(headers=["X-Event", "x-many", "x-absent"])).data["headers"]
    assert kept["x-event"] == "push" and kept["x-many"] == "a, b" and "x-absent" not in kept


def test_expressions_make_type_subject_data_and_delivery() -> None:
    event = made(
        mapping_of(
            type='"shop." + headers["x-event"] + "." + body.action',
            subject="body.customer",
            data='{"id": body.id, "method": method, "test": "test" in query}',
            delivery="body.id",
        ),
        {"action": "created", "customer": "ada", "id": 7},
        query="test=1",
    )
    assert (event.type, event.subject, event.delivery_id) == ("shop.push.created", "ada", "delivery:7")
    assert event.data == {"id": 7, "method": "POST", "test": True}


def test_an_expression_never_sees_what_proves_the_sender() -> None:
    for name in ("authorization", "cookie"):
        with pytest.raises(Invalid, match="Key not found"):
            made(mapping_of(subject=f'headers["{name}"]'))
    with pytest.raises(Invalid, match="Key not found"):
        made(
            mapping_of(auth={"type": "github", "secret": "S"}, subject='headers["x-hub-signature-256"]'),
            headers=(("x-hub-signature-256", "sha256=00"),),
        )


@pytest.mark.parametrize(
    ("expression", "body", "type_"),
    [
        ("null", {}, "webhook.received"),
        ('"webhook.received"', {}, "webhook.received"),
        ("body.kind", {"kind": "a.b-c_d"}, "a.b-c_d"),
        ('has(body.kind) ? body.kind : "other"', {}, "other"),
    ],
)
def test_types_that_are_taken(expression: str, body: Any, type_: str) -> None:
    assert made(mapping_of(type=expression), body).type == type_


@pytest.mark.parametrize(
    ("fields", "body", "why"),
    [
        ({"type": "body.kind"}, {}, "Key not found"),
        ({"type": "body.kind"}, {"kind": 5}, "wrong event type"),
        ({"type": "body.kind"}, {"kind": ""}, "wrong event type"),
        ({"type": "body.kind"}, {"kind": "a b"}, "wrong event type"),
        ({"type": "body.kind"}, {"kind": "a" * 256}, "wrong event type"),
        ({"type": "body.kind"}, {"kind": "ü"}, "wrong event type"),
        ({"type": "body.kind"}, {"kind": "a\n"}, "wrong event type"),
        ({"type": "body.kind"}, {"kind": "\ud800"}, "wrong event type"),
        ({"type": "body.kind"}, {"kind": "execution.failed"}, "reserved"),
        ({"type": "body.kind"}, {"kind": "webhook.other"}, "reserved"),
        ({"type": "body.kind"}, None, "type"),
        ({"subject": "body.who"}, {"who": ["ada"]}, "subject is no text"),
        ({"subject": "body.who"}, {"who": True}, "subject is no text"),
        ({"subject": "body.who"}, {"who": ""}, "subject is no text"),
        ({"subject": "body.who"}, {"who": "a" * 1025}, "1 to 1024"),
        ({"delivery": "body.id"}, {"id": {}}, "delivery is no text"),
        ({"data": "body.a + body.b"}, {"a": 1, "b": "x"}, "data"),
        ({"data": "1.0 / body.zero"}, {"zero": 0.0}, "no JSON value"),
        ({"data": "timestamp(body.t)"}, {"t": "2026-01-01T00:00:00Z"}, "timestamp"),
    ],
)
def test_what_an_expression_may_not_give(fields: dict[str, str], body: Any, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        made(mapping_of(**fields), body)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("when", "body", "wanted"),
    [
        ('body.action in ["opened", "closed"]', {"action": "opened"}, True),
        ('body.action in ["opened", "closed"]', {"action": "edited"}, False),
        ("has(body.action)", {}, False),
        ("body.commits.exists(c, c.author == 'ada')", {"commits": [{"author": "ada"}]}, True),
        ("body.action", {"action": "yes"}, None),
        ("body.action", {}, None),
    ],
)
def test_when_lets_through_or_not_and_an_error_is_neither(when: str, body: Any, wanted: bool | None) -> None:
    mapping = mapping_of(when=when)
    variables = mapping.variables(Request("POST", HEADERS, "", b""), body)
    if wanted is None:
        with pytest.raises(Invalid, match="when"):
            mapping.accepts(variables)
    else:
        assert mapping.accepts(variables) is wanted


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"type": "body."}, "type is not valid CEL"),
        ({"subject": "event.subject"}, "headers, body, query and method"),
        ({"when": "'yes'"}, "when gives a value of type string, not a boolean"),
        ({"type": "1 + 1"}, "type gives a value of type int, not a text"),
        ({"delivery": "[1]"}, "delivery gives a value of type list"),
        ({"data": "x" * 3000}, "too long"),
        ({"data": 5}, "data: it must be a text"),
        ({"when": "[body].exists(b, b == 1)"}, "walks a list that it makes itself"),
    ],
)
def test_expressions_that_cannot_work_are_refused_when_they_are_saved(fields: Any, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        mapping_of(**fields)
    assert why in str(refused.value)


def test_an_expression_cannot_be_made_to_work_hard_by_what_is_sent() -> None:
    mapping = mapping_of(when="body.all(x, body != [x])")
    variables = mapping.variables(Request("POST", HEADERS, "", b""), list(range(50_000)))
    with pytest.raises(Invalid, match="might look at"):
        mapping.accepts(variables)


@pytest.mark.parametrize(
    ("auth", "headers", "body", "delivery"),
    [
        ({"type": "github", "secret": "S"}, [("x-github-delivery", "d-1")], {}, "delivery:d-1"),
        ({"type": "github", "secret": "S"}, [], {}, None),
        ({"type": "stripe", "secret": "S"}, [], {"id": "evt_1"}, "delivery:evt_1"),
        ({"type": "stripe", "secret": "S"}, [], ["evt_1"], None),
        ({"type": "slack", "secret": "S"}, [("x-slack-retry-num", "1")], {"event_id": "Ev1"}, "delivery:Ev1"),
        ({"type": "slack", "secret": "S"}, [], {"trigger_id": "1.2"}, "delivery:1.2"),
        ({"type": "slack", "secret": "S"}, [], {"event_id": 5}, None),
        ({"type": "standard", "secret": "S"}, [("webhook-id", "msg_1")], {}, "delivery:msg_1"),
        (TOKEN, [("x-github-delivery", "d-1")], {"id": "1"}, None),
    ],
)
def test_known_senders_say_which_delivery_it_is(
    auth: Any, headers: Any, body: Any, delivery: str | None
) -> None:
    assert made(mapping_of(auth=auth), body, headers=headers).delivery_id == delivery


def test_senders_that_only_ask_whether_somebody_is_there_are_answered() -> None:
    slack = registry.parse_config(WebhookSource(), {"auth": {"type": "slack", "secret": "S"}}).auth
    github = registry.parse_config(WebhookSource(), {"auth": {"type": "github", "secret": "S"}}).auth
    asked = {"type": "url_verification", "challenge": "3eZbrw1a"}
    nothing = Request("POST", [], "", b"")
    ping = Request("POST", [("x-github-event", "ping")], "", b"")
    answer = handshake_response(slack, asked, nothing)
    assert answer is not None and (answer.status, answer.body) == (200, {"challenge": "3eZbrw1a"})
    answer = handshake_response(github, {"zen": "Keep it logically awesome."}, ping)
    assert answer is not None and answer.status == 200
    assert (
        handshake_response(github, asked, nothing) is None
        and handshake_response(slack, {"type": "event"}, ping) is None
    )


JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("kind", "body", "payload", "value"),
    [
        (JSON, b'{"a": [1, null]}', False, {"a": [1, None]}),
        ("application/vnd.api+json", b"5", False, 5),
        (JSON, b"", False, None),
        ("", b"", False, None),
        (JSON, b'"\\ud800"', False, "\ud800"),
        (JSON, b"123456789012345678901234567890", False, 123456789012345678901234567890),
        (FORM, b"a=1&b=%C3%A9&a=2&c", False, {"a": ["1", "2"], "b": "é", "c": ""}),
        (FORM, b"payload=%7B%22a%22%3A1%7D", True, {"a": 1}),
        (FORM, b"payload=%7B%22a%22%3A1%7D", False, {"payload": '{"a":1}'}),
        (FORM, b"command=%2Fdo&text=", True, {"command": "/do", "text": ""}),
        ("text/plain", "grüße\x00".encode(), False, "grüße\x00"),
    ],
)
def test_bodies_by_their_content_type(kind: str, body: bytes, payload: bool, value: Any) -> None:
    assert read_body(kind, body, payload=payload) == value


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, b"{"),
        (JSON, b'{"a": NaN}'),
        (JSON, b"\xff"),
        (JSON, b"[" * 101 + b"]" * 101),
        (JSON, b'{"a":' * 101 + b"1" + b"}" * 101),
        (JSON, b"[" * 100_000),
        (JSON, b"9" * 10_000),
        (FORM, b"a=%ff"),
        (FORM, b"&".join(b"a%d=1" % n for n in range(1001))),
        (FORM, b"\xff"),
        (FORM, b"payload={"),
        ("text/plain", b"\xff"),
    ],
)
def test_bodies_that_are_not_what_they_say(kind: str, body: bytes) -> None:
    with pytest.raises(Invalid):
        read_body(kind, body, payload=True)


def test_a_hundred_levels_are_read() -> None:
    assert read_body(JSON, b"[" * 100 + b"]" * 100, payload=False)
    # Many brackets are no depth.
    assert len(read_body(JSON, b"[" + b"[]," * 1000 + b"[]]", payload=False)) == 1001


@pytest.mark.parametrize(
    ("types", "body", "kind"),
    [
        (["Application/JSON; Charset=UTF-8"], b"{}", JSON),
        (["application/json;charset=utf-16"], b"{}", None),
        (["text/plain;charset=iso-8859-1"], b"x", None),
        (["multipart/form-data; boundary=x"], b"x", None),
        (["application/octet-stream"], b"x", None),
        (["application/json", "text/plain"], b"{}", None),
        ([], b"x", None),
        ([], b"", ""),
        (["json"], b"{}", None),
    ],
)
def test_content_types(types: list[str], body: bytes, kind: str | None) -> None:
    request = Request("POST", [("content-type", one) for one in types], "", body)
    if kind is None:
        with pytest.raises(UnsupportedMediaType):
            content_type(request)
    else:
        assert content_type(request) == kind


def test_a_query_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid):
        read_fields("a=%ff")

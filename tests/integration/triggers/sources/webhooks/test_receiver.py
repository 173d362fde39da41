"""Webhooks over the database: one event for each delivery, rates, strangers, rotation; on SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.sources.webhooks import Webhooks
from functory.triggers.sources.webhooks import Request, WebhookReceiver, WebhookResponse
from tests.support.patience import patient
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

KEY = "the key of the sender"
GITHUB = {"auth": {"type": "github", "secret": "HOOK"}}
TOKEN = {"auth": {"type": "token", "secret": "HOOK", "header": "x-token"}}


def door_of(world: World) -> WebhookReceiver:
    return WebhookReceiver(
        Webhooks(world.database), world.secrets, world.database.clock, world.settings.max_event_bytes
    )


def signed(body: Any, delivery: str | None = None, *, key: str = KEY, **headers: str) -> Request:
    """A request as GitHub sends it."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    proof = "sha256=" + hmac.new(key.encode(), raw, hashlib.sha256).hexdigest()
    given = {"content-type": "application/json", "x-hub-signature-256": proof}
    if delivery is not None:
        given["x-github-delivery"] = delivery
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return Request("POST", list(given.items()), "", raw)


def with_token(body: Any, token: str = KEY) -> Request:
    return Request(
        "POST", [("content-type", "application/json"), ("x-token", token)], "", json.dumps(body).encode()
    )


def events_of(world: World, prefix: str = "webhook.") -> list[dict[str, Any]]:
    return [row for row in world.rows(schema.event) if row["type"].startswith(prefix)]


@pytest.fixture
def hook(world: World) -> WebhookReceiver:
    """A door behind which ``github`` listens."""
    world.secrets.set("HOOK", KEY)
    world.sources.save("webhook", "github", GITHUB)
    return door_of(world)


def refuse(hook: WebhookReceiver, request: Request) -> float | None:
    """Send a request that is refused, and store that. Returns the pause that was to be made before."""
    answer = hook.receive("github", request)
    pause = hook.count_refusal(answer)
    hook.record_refusals(answer)
    return pause


def test_a_request_becomes_an_event_that_fires_triggers(world: World, hook: WebhookReceiver) -> None:
    world.function()
    world.trigger("t", "work", {"type": ["webhook.received"], "data": {"body": {"action": ["opened"]}}})
    answer = hook.receive("github", signed({"action": "opened"}, "d-1"))
    assert (answer.status, answer.reason, answer.body["duplicate"]) == (202, "accepted", False)
    (event,) = events_of(world)
    assert event["id"] == answer.body["event"]
    assert (event["source"], event["subject"]) == ("/functory/webhook/github", "github")
    assert event["data"]["headers"]["x-github-delivery"] == "d-1"
    assert KEY not in json.dumps(event["data"]) and "signature" not in json.dumps(event["data"])
    assert world.route() == [("t", None)]
    assert world.sources.get("webhook", "github")["last_event_at"] is not None


def test_a_delivery_that_comes_again_is_answered_with_its_event(world: World, hook: WebhookReceiver) -> None:
    first = hook.receive("github", signed({"n": 1}, "d-1"))
    world.advance(3600)
    again = hook.receive("github", signed({"n": 1}, "d-1"))
    assert (again.status, again.reason) == (202, "duplicate")
    assert again.body == {"event": first.body["event"], "duplicate": True}
    assert hook.receive("github", signed({"n": 2}, "d-2")).body["duplicate"] is False
    assert len(events_of(world)) == 2


def test_without_a_signature_and_a_delivery_id_each_request_is_a_new_one(world: World) -> None:
    world.secrets.set("HOOK", KEY)
    auth = {"type": "token", "secret": "HOOK", "header": "x-token"}
    world.sources.save("webhook", "plain", {"auth": auth})
    door = door_of(world)
    ids = {door.receive("plain", with_token({"n": 1})).body["event"] for _ in range(3)}
    assert len(ids) == len(events_of(world)) == 3


COPIES: dict[str, dict[str, str]] = {
    "a new delivery id": {"x_github_delivery": "d-2"},
    "no delivery id": {"x_github_delivery": ""},
    "another event header": {"x_github_event": "deployment"},
    "both": {"x_github_delivery": "d-2", "x_github_event": "deployment"},
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("limited", [False, True])
def test_a_copied_request_with_other_unsigned_headers_is_the_same_delivery(
    world: World, name: str, limited: bool
) -> None:
    """The sender signs the body alone: who has seen a request can send it again under any id and event header."""
    world.secrets.set("HOOK", KEY)
    rate = {"rate": {"limit": 5, "period": "1m"}} if limited else {}
    by_header = {"type": '"github." + headers["x-github-event"]'}
    world.sources.save("webhook", "github", {**GITHUB, **by_header, **rate})
    door = door_of(world)
    first = door.receive("github", signed({"n": 1}, "d-1", x_github_event="push"))
    assert first.reason == "accepted"
    for later in (1, 60, 3600):
        world.advance(later)
        sent = {"x_github_delivery": "d-1", "x_github_event": "push"} | COPIES[name]
        again = door.receive("github", signed({"n": 1}, **sent))
        assert (again.reason, again.body["event"]) == ("duplicate", first.body["event"])
    assert [row["type"] for row in events_of(world, "github.")] == ["github.push"]


def test_every_key_of_a_copy_leads_to_the_first_event(world: World, hook: WebhookReceiver) -> None:
    """An id that came first with a copy is the copied delivery's from then on."""
    first = hook.receive("github", signed({"n": 1}, "d-1")).body["event"]
    assert hook.receive("github", signed({"n": 1}, "d-2")).body["event"] == first
    later = hook.receive("github", signed({"n": 2}, "d-2"))
    assert (later.reason, later.body["event"]) == ("duplicate", first)
    assert len(events_of(world)) == 1
    assert {row["event_id"] for row in world.rows(schema.delivery_receipt)} == {first}


def test_a_sender_whose_ids_are_trusted_may_send_one_body_twice(world: World) -> None:
    world.secrets.set("HOOK", KEY)
    world.sources.save("webhook", "github", {"auth": GITHUB["auth"] | {"trust_delivery_id": True}})
    door = door_of(world)
    assert [door.receive("github", signed({"n": 1}, id_)).reason for id_ in ("d-1", "d-2", "d-1")] == [
        "accepted",
        "accepted",
        "duplicate",
    ]
    assert len(events_of(world)) == 2


def test_an_id_from_the_signed_body_needs_no_other_key(world: World) -> None:
    world.secrets.set("HOOK", KEY)
    world.sources.save("webhook", "github", {**GITHUB, "delivery": "body.id"})
    door = door_of(world)
    assert door.receive("github", signed({"id": "a", "try": 1}, "d-1")).reason == "accepted"
    assert door.receive("github", signed({"id": "a", "try": 2}, "d-2")).reason == "duplicate"
    assert [row["key"] for row in world.rows(schema.delivery_receipt)] == ["delivery:a"]


def test_an_id_from_an_unsigned_header_does_not_renew_a_signed_timestamp(world: World) -> None:
    world.secrets.set("HOOK", KEY)
    auth = {"type": "hmac", "secret": "HOOK", "header": "x-sign", "timestamp_header": "x-time"}
    world.sources.save("webhook", "hook", {"auth": auth, "delivery": 'headers["x-id"]'})
    door = door_of(world)

    def sent(stamp: int, id_: str) -> Request:
        proof = hmac.new(KEY.encode(), f"{stamp}.{{}}".encode(), hashlib.sha256).hexdigest()
        headers = [("content-type", "application/json"), ("x-sign", proof), ("x-time", str(stamp))]
        return Request("POST", [*headers, ("x-id", id_)], "", b"{}")

    now = int(world.clock.now().timestamp())
    assert door.receive("hook", sent(now, "a")).reason == "accepted"
    assert door.receive("hook", sent(now, "b")).reason == "duplicate"
    # The sender's own second try has a new timestamp and the same id.
    assert door.receive("hook", sent(now + 1, "a")).reason == "duplicate"
    assert door.receive("hook", sent(now + 1, "c")).reason == "duplicate"
    assert door.receive("hook", sent(now + 2, "c")).reason == "duplicate"
    assert door.receive("hook", sent(now + 3, "d")).reason == "accepted"


def test_a_signed_timestamp_makes_a_copied_request_known(world: World) -> None:
    world.secrets.set("HOOK", KEY)
    auth = {"type": "hmac", "secret": "HOOK", "header": "x-sign", "timestamp_header": "x-time"}
    world.sources.save("webhook", "hook", {"auth": auth})
    door = door_of(world)

    def sent() -> Request:
        stamp = str(int(world.clock.now().timestamp()))
        proof = hmac.new(KEY.encode(), f"{stamp}.{{}}".encode(), hashlib.sha256).hexdigest()
        headers = [("content-type", "application/json"), ("x-sign", proof), ("x-time", stamp)]
        return Request("POST", headers, "", b"{}")

    copied = sent()
    assert door.receive("hook", copied).reason == "accepted"
    assert door.receive("hook", copied).reason == "duplicate"
    world.advance(1)
    assert door.receive("hook", sent()).reason == "accepted"
    world.advance(300)
    assert door.receive("hook", copied).status == 404
    assert len(events_of(world)) == 2


def test_two_servers_that_get_the_same_deliveries_at_once_write_each_once(
    world: World, make_world: Callable[..., World]
) -> None:
    world.secrets.set("HOOK", KEY)
    world.sources.save("webhook", "github", GITHUB)
    doors = [door_of(world), door_of(make_world())]
    barrier = threading.Barrier(8)

    def send(number: int) -> list[WebhookResponse]:
        barrier.wait(patient(20))
        return [doors[number % 2].receive("github", signed({"n": n}, f"d-{n}")) for n in range(25)]

    with ThreadPoolExecutor(8) as pool:
        answers = [one for part in pool.map(send, range(8)) for one in part]
    assert {answer.status for answer in answers} == {202}
    assert sum(answer.body["duplicate"] is False for answer in answers) == 25
    written = events_of(world)
    assert len(written) == 25
    assert {answer.body["event"] for answer in answers} == {event["id"] for event in written}


def test_two_servers_keep_one_rate_and_no_request_beyond_it_gets_in(
    world: World, make_world: Callable[..., World]
) -> None:
    world.secrets.set("HOOK", KEY)
    world.sources.save("webhook", "github", GITHUB | {"rate": {"limit": 10, "period": "10s", "burst": 5}})
    other = make_world(clock=world.clock)
    doors = [door_of(world), door_of(other)]

    def send(number: int) -> WebhookResponse:
        return doors[number % 2].receive("github", signed({"n": number}, f"d-{number}"))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(20)))
    assert sorted(answer.status for answer in answers) == [202] * 5 + [429] * 15
    assert all(answer.retry_after == 1 for answer in answers if answer.status == 429)
    # One a second from then on; what has come before costs nothing.
    taken = next(number for number, answer in enumerate(answers) if answer.status == 202)
    assert send(taken).reason == "duplicate"
    refused = next(number for number, answer in enumerate(answers) if answer.status == 429)
    world.advance(1)
    assert [send(refused).status, send(100).status] == [202, 429]
    world.advance(60)
    assert [send(number).status for number in range(200, 206)] == [202] * 5 + [429]
    assert "rate" in send(300).problem


def test_an_unauthenticated_sender_learns_nothing(world: World, hook: WebhookReceiver) -> None:
    world.sources.save("webhook", "paused", GITHUB)
    world.sources.pause("webhook", "paused")
    world.sources.save("webhook", "gone", GITHUB)
    world.sources.delete("webhook", "gone")
    world.sources.save("webhook", "token", TOKEN)
    world.sources.save("webhook", "unset", {"auth": {"type": "github", "secret": "NOT_SET"}})
    wrong = signed({"n": 1}, key="wrong")
    places: list[tuple[str, Request]] = [
        ("github", wrong),
        ("github", signed({"n": 1}, x_hub_signature_256="")),
        ("paused", wrong),
        ("paused", signed({"n": 1})),
        ("gone", signed({"n": 1})),
        ("token", with_token({"n": 1}, "wrong")),
        ("unset", signed({"n": 1})),
        ("unknown", signed({"n": 1})),
        ("a/b", signed({"n": 1})),
        ("", signed({"n": 1})),
        ("gith\x00ub", signed({"n": 1})),
        ("gith\ud800ub", signed({"n": 1})),
        ("GITHUB", signed({"n": 1})),
        ("x" * 5000, signed({"n": 1})),
        ("' OR 1=1 --", signed({"n": 1})),
    ]
    for place, request in places:
        hook.receive(place, request)
        with world.statements() as sent:
            answer = hook.receive(place, request)
        assert (answer.status, answer.body, answer.retry_after) == (404, {}, None), place
        assert answer.detail == hook.receive("unknown", wrong).detail
        # The same work for all: none of it is a question to the database.
        assert sent == [], place
    assert events_of(world) == []


def test_a_refused_request_is_shown_on_the_webhook_until_one_is_taken(
    world: World, hook: WebhookReceiver
) -> None:
    assert refuse(hook, signed({}, key="wrong")) == 0
    shown = world.sources.get("webhook", "github")
    assert "the signature does not fit" in shown["problem"] and shown["problem_at"] == world.clock.now()
    world.advance(10)
    refuse(hook, signed({}, x_hub_signature_256="x"))
    assert "does not begin with sha256=" in world.sources.get("webhook", "github")["problem"]
    hook.receive("github", signed({}))
    shown = world.sources.get("webhook", "github")
    assert (shown["problem"], shown["problem_at"]) == (None, None)


def test_refusals_are_counted_and_stored_together_for_anybody_may_cause_them(
    world: World, hook: WebhookReceiver
) -> None:
    refuse(hook, signed({}, key="wrong"))
    assert world.sources.get("webhook", "github")["refused"] == 1
    world.advance(1)
    answer = hook.receive("github", signed({}, key="wrong"))
    # Not more often than every five seconds, and once for all that come meanwhile.
    assert hook.count_refusal(answer) == pytest.approx(4)
    with world.statements() as sent:
        for _ in range(30):
            assert hook.count_refusal(hook.receive("github", signed({}, key="wrong"))) is None
    assert not any(statement.startswith("UPDATE") for statement in sent)
    hook.record_refusals(answer)
    assert world.sources.get("webhook", "github")["refused"] == 32
    # An unknown webhook has no row to count in.
    assert hook.count_refusal(hook.receive("unknown", signed({}, key="wrong"))) is None


def test_a_secret_is_rotated_without_losing_a_request(world: World, hook: WebhookReceiver) -> None:
    world.secrets.set("NEXT", "the next key")
    world.sources.save("webhook", "github", {"auth": {"type": "github", "secret": ["HOOK", "NEXT"]}})
    assert [hook.receive("github", signed({}, key=key)).status for key in (KEY, "the next key", "x")] == [
        202,
        202,
        404,
    ]
    world.secrets.delete("HOOK")
    assert [hook.receive("github", signed({}, key=key)).status for key in (KEY, "the next key")] == [404, 202]
    # A new value counts from the next request on.
    world.secrets.set("NEXT", "a third key")
    assert [
        hook.receive("github", signed({}, key=key)).status for key in ("the next key", "a third key")
    ] == [
        404,
        202,
    ]


def test_a_change_of_the_webhook_counts_from_the_next_request_on(world: World, hook: WebhookReceiver) -> None:
    assert hook.receive("github", signed({})).status == 202
    world.sources.save("webhook", "github", GITHUB | {"type": '"my." + body.kind'})
    hook.receive("github", signed({"kind": "event"}))
    assert len(events_of(world, "my.event")) == 1
    world.sources.pause("webhook", "github")
    assert hook.receive("github", signed({"kind": "event"})).status == 404
    world.sources.resume("webhook", "github")
    assert hook.receive("github", signed({"kind": "event"})).status == 202


def test_what_cannot_be_mapped_is_refused_and_reported(world: World, hook: WebhookReceiver) -> None:
    world.sources.save("webhook", "github", GITHUB | {"type": "body.kind", "when": 'body.kind != "no"'})
    for body, status in (
        ({"kind": "ok"}, 202),
        ({"kind": "no"}, 202),
        ({"kind": 5}, 422),
        ({"kind": "execution.failed"}, 422),
        ({}, 422),
    ):
        answer = hook.receive("github", signed(body))
        assert answer.status == status, body
        if status == 422:
            assert answer.reason == "mapping" and answer.problem == answer.detail
            world.advance(10)
            assert hook.count_refusal(answer) == 0
            hook.record_refusals(answer)
            assert world.sources.get("webhook", "github")["problem"] == answer.detail
    assert hook.receive("github", signed({"kind": "no"})).body == {"event": None, "ignored": True}
    assert [event["type"] for event in events_of(world, "ok")] == ["ok"]


def test_a_mapping_stores_what_was_sent_or_refuses_it(world: World, hook: WebhookReceiver) -> None:
    mapped = {"type": "'copied'", "data": '{"body": body.b, "again": [body.b]}'}
    sent: list[tuple[Any, int]] = [
        ({"z": 1, "m": {"y": 1, "a": 2}, "b": 3}, 202), (2**64 - 1, 202), (1.0, 202), (-0.0, 202),
        (2**64, 422), ("x\0y", 422), ("\ud83d", 422), ({"x\0y": 1}, 422),
    ]  # fmt: skip
    world.sources.save("webhook", "github", GITHUB | mapped)
    assert [hook.receive("github", signed({"b": b})).status for b, _ in sent] == [
        status for _, status in sent
    ]
    found = [json.dumps(row["data"]) for row in events_of(world, "copied")]
    assert found == [json.dumps({"body": b, "again": [b]}) for b, status in sent if status == 202]
    world.sources.save("webhook", "github", GITHUB | {"type": "'whole'", "data": "body.b"})
    for b, _ in sent:
        assert hook.receive("github", signed({"b": b, "copy": 2})).status == 202
    assert [json.dumps(row["data"]) for row in events_of(world, "whole")] == [json.dumps(b) for b, _ in sent]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"1e999", 400),
        (b"[" * 200 + b"]" * 200, 400),
        (b'{"a": "\\ud800\\u0000"}', 202),
        (b"123456789012345678901234567890", 202),
        (b"", 202),
        (b'"' + b"x" * 2000 + b'"', 413),
        (b'"' + b"x" * 1020 + b'"', 413),
    ],
)
def test_bodies_that_somebody_has_signed(make_world: Callable[..., World], body: bytes, status: int) -> None:
    world = make_world(max_event_bytes=1024)
    world.secrets.set("HOOK", KEY)
    world.sources.save("webhook", "github", GITHUB)
    answer = door_of(world).receive("github", signed(body))
    assert answer.status == status
    assert len(events_of(world)) == (status == 202)


def test_a_webhook_may_take_less_than_the_server(world: World, hook: WebhookReceiver) -> None:
    world.sources.save("webhook", "github", GITHUB | {"max_bytes": 10})
    assert hook.receive("github", signed(b'"12345678"')).status == 202
    assert hook.receive("github", signed(b'"123456789"')).status == 413
    # Who proves nothing does not learn of it.
    assert hook.receive("github", signed(b'"123456789"', key="wrong")).status == 404


def test_nothing_of_a_request_is_read_before_it_has_proved_itself(
    world: World, hook: WebhookReceiver
) -> None:
    for body in (b"{", b"[" * 100_000, b"\xff"):
        assert hook.receive("github", signed(body, key="wrong")).status == 404


def test_anybody_may_send_only_where_it_was_said_and_then_not_much(world: World) -> None:
    world.sources.save("webhook", "open", {"auth": {"type": "none", "allow_unauthenticated": True}})
    door = door_of(world)
    request = Request("POST", [("content-type", "text/plain")], "", b"hello")
    answers = [door.receive("open", request).status for _ in range(61)]
    assert answers == [202] * 60 + [429]
    assert events_of(world)[0]["data"]["body"] == "hello"


def test_a_greeting_needs_its_proof_and_becomes_no_event(world: World, hook: WebhookReceiver) -> None:
    ping = signed({"zen": "Design for failure.", "hook_id": 1}, "d-1", x_github_event="ping")
    assert (hook.receive("github", ping).status, hook.receive("github", ping).reason) == (200, "greeting")
    wrong = signed({"zen": "x"}, key="wrong", x_github_event="ping")
    assert hook.receive("github", wrong).status == 404
    assert events_of(world) == []


def test_a_configuration_of_another_version_of_the_program_is_no_webhook(
    world: World, hook: WebhookReceiver
) -> None:
    from functory.engine.sources.store import Sources

    Sources(world.database).save("webhook", "github", {"auth": {"type": "tomorrow"}})
    assert hook.receive("github", signed({})).status == 404

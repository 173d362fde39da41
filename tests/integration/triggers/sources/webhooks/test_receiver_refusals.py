"""Why webhooks refused requests: counts by reason, nothing of the sender's, in few writes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event as hooks

from functory.engine.database import schema
from functory.engine.events.receipts import IncomingEvent
from functory.engine.sources import refusals
from functory.engine.sources.store import count_refused
from functory.triggers.sources.webhooks import Request, WebhookReceiver
from tests.integration.triggers.sources.webhooks.test_receiver import GITHUB, KEY, door_of, signed
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

SLACK = {"auth": {"type": "slack", "secret": "HOOK"}}


@pytest.fixture
def hook(world: World) -> WebhookReceiver:
    world.secrets.set("HOOK", KEY)
    world.sources.save("webhook", "github", GITHUB | {"max_bytes": 100})
    world.sources.save("webhook", "slack", SLACK)
    world.sources.save("webhook", "keyless", {"auth": {"type": "github", "secret": "NONE"}})
    limited = {"rate": {"limit": 1, "period": "1h"}, "type": 'body.kind == "x" ? "a.b" : body.kind'}
    world.sources.save("webhook", "limited", GITHUB | limited)
    return door_of(world)


def refuse(hook: WebhookReceiver, name: str, *requests: Request) -> None:
    """Send requests that are refused, and store them with one write."""
    answers = [hook.receive(name, request) for request in requests]
    assert all(answer.status >= 400 for answer in answers)
    for answer in answers:
        hook.count_refusal(answer)
    hook.record_refusals(answers[0])


def found(world: World, name: str, kind: str = "webhook") -> dict[str, int]:
    row = world.sources.store.get(kind, name)
    listed = refusals.listed(row["refusals"])
    assert sum(one.count for one in listed) == row["refused"]
    return {one.reason: one.count for one in listed}


def test_each_refusal_is_counted_by_its_reason(world: World, hook: WebhookReceiver) -> None:
    good = signed({"kind": "x"})
    bare = replace(good, headers=[("content-type", "application/json")])
    image = replace(good, headers=[("content-type", "image/secret-of-the-sender")])
    broken, large = signed(b"{secret-of-the-sender"), signed({"n": "x" * 200})
    wrong = signed({}, key="another")
    refuse(hook, "github", bare, wrong, wrong, image, broken, large)
    assert found(world, "github") == {
        "proof_missing": 1, "proof_wrong": 2, "content_type": 1, "malformed": 1, "too_large": 1
    }  # fmt: skip
    world.advance(10)
    refuse(hook, "github", wrong)
    (newest, *_) = refusals.listed(world.sources.store.get("webhook", "github")["refusals"])
    assert (newest.reason, newest.count, newest.what) == (
        "proof_wrong",
        3,
        "the signature or the credentials are wrong",
    )
    assert abs(world.database.clock.now() - newest.last_at) < timedelta(seconds=5)
    assert "secret-of-the-sender" not in json.dumps(world.sources.store.get("webhook", "github")["refusals"])


def test_a_wrong_clock_a_missing_secret_a_rate_and_a_mapping(world: World, hook: WebhookReceiver) -> None:
    old = [
        ("content-type", "application/json"),
        ("x-slack-request-timestamp", "1000000000"),
        ("x-slack-signature", "v0=00"),
    ]
    refuse(hook, "slack", Request("POST", old, "", b"{}"))
    assert found(world, "slack") == {"proof_old": 1}
    refuse(hook, "keyless", signed({}))
    assert found(world, "keyless") == {"secret_missing": 1}
    assert hook.receive("limited", signed({"kind": "x"})).status == 202
    refuse(hook, "limited", signed({"kind": "x", "n": 2}), signed({"kind": "no type"}))
    assert found(world, "limited") == {"rate": 1, "mapping": 1}


def test_many_refusals_are_one_write(world: World, hook: WebhookReceiver) -> None:
    wrong = signed({}, key="another")
    hook.receive("github", wrong)
    sent: list[str] = []
    hooks.listen(world.database.engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    pauses = [hook.count_refusal(hook.receive("github", wrong)) for _ in range(500)]
    assert pauses == [0.0] + [None] * 499
    hook.record_refusals(hook.receive("github", wrong))
    assert [one.split(" ")[0] for one in sent if "source" in one] == ["SELECT", "UPDATE"]
    assert found(world, "github") == {"proof_wrong": 500}
    # The next one waits for its turn.
    pause = hook.count_refusal(hook.receive("github", wrong))
    assert pause is not None and 4 < pause <= 5


def test_nothing_is_counted_for_a_webhook_that_takes_nothing(world: World, hook: WebhookReceiver) -> None:
    """The answers are the same for all of them."""
    world.sources.pause("webhook", "github")
    unread = [hook.refuse_unread(name, 413, "too_large") for name in ("github", "missing", "slack")]
    assert [one.webhook_id is None for one in unread] == [True, True, False]
    assert {(one.status, one.reason, one.detail) for one in unread} == {(413, "too_large", "")}


def test_the_record_is_bounded_and_a_reason_that_is_not_known_is_another_one(world: World) -> None:
    row = world.sources.store.save("queue", "orders", {})
    with world.database.write() as tx:
        count_refused(tx, row["id"], {f"sender's text {n}": 1 for n in range(50)} | {"rate": 2})
    assert found(world, "orders", "queue") == {"other": 50, "rate": 2}
    assert len(refusals.REASONS) <= 20


def test_a_rejected_message_counts_once_with_its_reason(world: World) -> None:
    world.sources.store.save("queue", "orders", {})
    (held,) = world.sources.store.claim(["queue"], "me", 30)
    bad = IncomingEvent("source.rejected", {}, "orders", key="rejected:1", refusal="encoding")
    plain = IncomingEvent("source.rejected", {}, "orders", key="rejected:2")
    good = IncomingEvent("queue.received", {}, "orders", key="id:3")
    for _ in range(2):
        world.sources.store.ingest(held, [bad, plain, good])
    assert found(world, "orders", "queue") == {"encoding": 1, "other": 1}


def test_a_count_of_an_earlier_release_has_no_reason(world: World) -> None:
    row = world.sources.store.save("queue", "orders", {})
    with world.database.write() as tx:
        tx.execute(sa.update(schema.source).where(schema.source.c.id == row["id"]).values(refused=7))
    stored: dict[str, Any] = world.sources.store.get("queue", "orders")
    assert (stored["refused"], refusals.listed(stored["refusals"])) == (7, [])

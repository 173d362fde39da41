"""Access changes while a stream is open: it ends within seconds, and the next one has the rights of now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from functory.api.redaction import REDACTED
from functory.api.stream import feed as stream_feed
from functory.api.stream import subscriber
from functory.client.functory import Functory
from functory.engine.executions.attempt_output import AttemptOutput
from functory.engine.executions.claims import Claim
from functory.engine.settings import Settings
from tests.support.event_stream import Stream, stream, streaming
from tests.support.patience import patient
from tests.support.waiting import stays, wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

GOOD = SecretStr("correct horse battery")


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings.model_validate(
        {
            "home": tmp_path / "home",
            "database_url": database_url,
            "broker_url": "none://",
            "poll_seconds": 0.05,
        }
    )


@pytest.fixture
def functory(settings: Settings) -> Iterator[Functory]:
    """A client of the database, as a server process has one: no role runs in it."""
    with Functory(settings) as made:
        made.users.create("ada", GOOD, role="admin")
        yield made


@pytest.fixture
def url(functory: Functory) -> Iterator[str]:
    with streaming(functory, authenticated=True) as found:
        yield found


@pytest.fixture
def beside(database_url: str, functory: Functory, tmp_path: Path) -> Iterator[World]:
    """Another process with the same database. Its clock is that of the client: two measurements of the server's clock
    differ by milliseconds, and on a busy machine by more than passes between a start and its claim.
    """
    world = World(database_url, tmp_path / "home", clock=functory.database.clock)
    yield world
    world.close()


def token(functory: Functory, user: str, **given: Any) -> str:
    return functory.tokens.create(user, "stream", **given)["token"]


def seen_event(functory: Functory, client: Stream, subject: str = "one") -> Any:
    """The row of a new event, as the client gets it."""
    id_ = functory.events.emit("order.created", {"n": 1}, subject=subject)
    wait_for(lambda: id_ in client.ids("events"))
    return next(row for row in client.rows("events") if row["id"] == id_)


def ended(client: Stream) -> None:
    wait_for(client.ended.is_set)
    assert client.frames[-1] == ("bye", {})


CHANGES: dict[str, Callable[[Functory], Any]] = {
    "a right is taken": lambda functory: functory.users.update("vic", rights=[]),
    "the role falls": lambda functory: functory.users.update("vic", role="viewer"),
    "labels limit what is seen": lambda functory: functory.users.update("vic", labels=["team:billing"]),
    "the user is disabled": lambda functory: functory.users.set_state("vic", "disabled"),
    "the user is deleted": lambda functory: functory.users.delete("vic"),
    "the token is revoked": lambda functory: functory.tokens.revoke(functory.tokens.list("vic")[0]["id"]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=[name.replace(" ", "-") for name in CHANGES])
def test_a_stream_does_not_go_on_with_the_access_of_before(
    functory: Functory, url: str, change: Callable[[Functory], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the wake-up of the change can end it in time.
    monkeypatch.setattr(stream_feed, "LOGIN_SECONDS", 600.0)
    functory.users.create("vic", GOOD, role="operator", rights=["payload:read"])
    with stream(url, "events", token=token(functory, "vic", rights=["payload:read"])) as vic:
        assert seen_event(functory, vic, "before")["subject"] == "before"
        with stream(url, "events", token=token(functory, "ada")) as ada:
            change(functory)
            ended(vic)
            seen_event(functory, ada, "after")
    assert "after" not in json.dumps(vic.frames)
    # The stream of the other user has not ended.
    assert ("bye", {}) not in ada.frames


def test_the_next_stream_has_the_rights_of_now(functory: Functory, url: str) -> None:
    functory.users.create("vic", GOOD, role="viewer", rights=["payload:read"])
    key = token(functory, "vic", rights=["payload:read"])
    with stream(url, "events", token=key) as before:
        functory.users.update("vic", rights=[])
        ended(before)
    with stream(url, "events", token=key, last_id=before.last_id) as after:
        assert seen_event(functory, after, "hidden")["subject"] == REDACTED


def test_a_change_that_takes_and_gives_nothing_ends_no_stream(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_feed, "LOGIN_SECONDS", 0.1)
    functory.users.create("vic", GOOD, role="viewer", labels=["team:billing"])
    with stream(url, "bar", token=token(functory, "vic")) as vic:
        functory.users.set_preferences("vic", {"theme": "dark"})
        functory.users.update("vic", role="viewer", labels=["team:billing"])
        functory.users.update("ada", rights=["approve"])
        stays(lambda: not vic.ended.is_set(), 1.0)


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_the_stream_of_a_browser_ends_when_its_user_gets_another_role(
    functory: Functory, url: str, role: str
) -> None:
    functory.users.create("vic", GOOD, role="author")
    with httpx.Client(base_url=f"{url}/api/v1", timeout=patient(20)) as browser:
        answer = browser.post(
            "/login",
            json={"name": "vic", "password": GOOD.get_secret_value()},
            headers={"origin": url, "sec-fetch-site": "same-origin"},
        )
        assert answer.status_code == 204
        with browser.stream("GET", "/stream", params={"topics": "bar"}) as response:
            given = response.iter_lines()
            assert next(given).startswith("retry")
            functory.users.update("vic", role=role)
            assert "event: bye" in [*given]


def test_a_token_that_expires_ends_its_stream_without_a_wake_up(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_feed, "LOGIN_SECONDS", 0.5)
    functory.users.create("vic", GOOD)
    key = token(functory, "vic", lifetime=timedelta(seconds=8))
    with stream(url, "bar", token=key) as vic:
        ended(vic)
    assert httpx.get(f"{url}/api/v1/me", headers={"authorization": f"Bearer {key}"}).status_code == 401


def test_lines_of_an_execution_end_when_its_function_loses_the_label(
    functory: Functory, url: str, beside: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_feed, "LOGIN_SECONDS", 0.2)
    beside.function("bills")
    functory.labels.function("bills", ["team:billing"])
    functory.users.create("bill", GOOD, role="author", labels=["team:billing"])
    claim = beside.claim(functory.executions.start("bills", {}))
    key = claim.id, claim.fence

    def prints(seq: int, text: str) -> None:
        row = {"seq": seq, "stream": "stdout", "level": "info", "text": text, "offset_seconds": 0.1}
        beside.worker.store_output([AttemptOutput(key, [row])])

    with stream(url, f"logs:{claim.id}", token=token(functory, "bill")) as bill:
        prints(1, "seen")
        wait_for(lambda: bill.lines())
        functory.labels.function("bills", remove=["team:billing"])
        wait_for(lambda: bill.of("gone"))
        prints(2, "hidden")
        beside.finish(claim)
    assert [line["text"] for line in bill.lines()] == ["seen"]


def test_a_topic_that_is_lost_does_not_end_the_others_and_is_answered_when_the_client_comes_back(
    functory: Functory, url: str, beside: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_feed, "LOGIN_SECONDS", 0.2)
    for name in ("bills", "wages"):
        beside.function(name)
        functory.labels.function(name, ["team:billing"])
    functory.users.create("bill", GOOD, role="author", labels=["team:billing"])
    lost, kept = (beside.claim(functory.executions.start(name, {})) for name in ("bills", "wages"))
    topics = ",".join(f"{kind}:{claim.id}" for kind in ("execution", "logs") for claim in (lost, kept))
    key = token(functory, "bill")

    def prints(claim: Claim, seq: int) -> None:
        row = {"seq": seq, "stream": "stdout", "level": "info", "text": f"{seq}", "offset_seconds": 0.1}
        beside.worker.store_output([AttemptOutput((claim.id, claim.fence), [row])])

    def shows_only_what_is_kept(bill: Stream, seq: int) -> None:
        wait_for(lambda: len(bill.of("gone")) == 2)
        prints(lost, seq)
        prints(kept, seq)
        wait_for(lambda: bill.lines()[-1:] and bill.lines()[-1]["text"] == f"{seq}")
        assert {data["topic"] for data in bill.of("gone")} == {f"execution:{lost.id}", f"logs:{lost.id}"}
        assert lost.id not in json.dumps([data for kind, data in bill.frames if kind != "gone"])
        assert not bill.ended.is_set()

    with stream(url, topics, token=key) as bill:
        assert not bill.of("gone")
        functory.labels.function("bills", remove=["team:billing"])
        shows_only_what_is_kept(bill, 1)
    with stream(url, topics, token=key, last_id=bill.last_id) as again:
        assert again.status == 200
        shows_only_what_is_kept(again, 2)
        beside.finish(lost)
        beside.finish(kept)
        wait_for(lambda: again.rows(f"execution:{kept.id}"))
        assert not again.rows(f"execution:{lost.id}")


def test_an_idle_stream_gets_a_comment_that_moves_its_cursor(
    functory: Functory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert subscriber.COMMENT_SECONDS == 15.0
    monkeypatch.setattr(subscriber, "COMMENT_SECONDS", 0.05)
    monkeypatch.setattr(stream_feed, "WAITING_SECONDS", 0.1)
    monkeypatch.setattr(stream_feed, "IDLE_SECONDS", 0.1)
    with stream(url, "events", token=token(functory, "ada")) as ada:
        first = ada.last_id
        wait_for(lambda: ada.comments.count("still here") > 3 and ada.last_id > first)
    assert not ada.frames

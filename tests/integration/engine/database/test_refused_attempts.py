"""Refused attempts: a burst of them costs few writing transactions, and none is missing in the audit."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import structlog

from functory.engine.database import schema
from functory.engine.database.refused_attempts import RefusedAttempts
from functory.engine.errors import Unavailable
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


class Turns:
    """A sleep that ends when the test says so."""

    def __init__(self) -> None:
        self.begun, self._going = threading.Semaphore(0), threading.Semaphore(0)

    def sleep(self, _seconds: float) -> None:
        self.begun.release()
        assert self._going.acquire(timeout=60)

    def end(self) -> None:
        self._going.release()


def entries(world: World) -> dict[tuple[str, str], tuple[int, str]]:
    return {
        (row["author"], row["action"]): (row["count"], row["origin"])
        for row in world.rows(schema.audit)
        if row["refused"]
    }


def test_the_first_attempt_is_written_at_once_and_a_burst_together(world: World) -> None:
    turns = Turns()
    refused = RefusedAttempts(world.database, turns.sleep)
    refused.record("", "api.authentication", "/a", "http 10.0.0.1")
    assert entries(world) == {("", "api.authentication"): (1, "http 10.0.0.1")}
    assert turns.begun.acquire(timeout=60)
    for number in range(500):
        refused.record("", "api.authentication", "/a", f"http 10.0.0.{number % 7}")
    refused.record("ada", "POST /secrets", "/secrets", "login at 10.0.0.9")
    # Another kind is written at once, too; the burst waits for its pause.
    assert entries(world) == {
        ("", "api.authentication"): (1, "http 10.0.0.1"),
        ("ada", "POST /secrets"): (1, "login at 10.0.0.9"),
    }
    turns.end()
    assert turns.begun.acquire(timeout=60)
    assert entries(world)["", "api.authentication"] == (501, "http 10.0.0.2")
    # Nothing came in the second pause: the thread ends, and the next attempt is written at once again.
    turns.end()
    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "functory-refused"])
    refused.record("", "api.authentication", "/a", "http 10.0.0.3")
    assert entries(world)["", "api.authentication"] == (502, "http 10.0.0.3")
    assert turns.begun.acquire(timeout=60)
    turns.end()


def test_a_count_that_cannot_be_written_is_in_the_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    refused = RefusedAttempts(world.database, turns.sleep)
    refused.record("", "api.authentication", "/a", "http 10.0.0.1")
    assert turns.begun.acquire(timeout=60)
    refused.record("", "api.authentication", "/a", "http 10.0.0.1")

    def fail(*_: Any, **__: Any) -> Any:
        raise Unavailable("the database does not answer")

    with structlog.testing.capture_logs() as logs, monkeypatch.context() as broken:
        broken.setattr(world.database, "write", fail)
        turns.end()
        assert turns.begun.acquire(timeout=60)
    assert [(one["event"], one["attempts"]) for one in logs] == [
        ("refused attempts not in the audit", [("", "api.authentication", 1)])
    ]
    turns.end()

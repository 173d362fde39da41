"""Executions that end without a result of a worker are counted as finished, once and only after the commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from functory.engine.errors import Conflict
from functory.engine.executions import cancel_row
from functory.engine.maintenance import lost_workers
from functory.engine.telemetry import metrics
from tests.support.world import LEASE, World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """Function and state of each execution that is counted as finished."""
    found: list[tuple[str, str]] = []

    class Counted:
        def labels(self, function: str, status: str) -> Counted:
            self.last = function, status
            return self

        def inc(self) -> None:
            found.append(self.last)

    monkeypatch.setattr(metrics, "executions_finished", Counted())
    monkeypatch.setattr(metrics, "function_label", lambda name: name)
    yield found


def reap(world: World) -> None:
    lost_workers.reap(world.database, cancel_grace=LEASE)


def test_an_execution_that_is_cancelled_before_it_starts(
    ready: World, finished: list[tuple[str, str]]
) -> None:
    row = ready.start()
    ready.executions.cancel(row["id"])
    with pytest.raises(Conflict):
        ready.executions.cancel(row["id"])
    assert finished == [(row["function"], "cancelled")]


def test_an_execution_whose_cancellation_is_rolled_back_is_not_counted(
    ready: World, finished: list[tuple[str, str]]
) -> None:
    row = ready.start()
    with pytest.raises(RuntimeError), ready.database.write() as tx:
        cancel_row.cancel_row(tx, row["id"], "ada")
        raise RuntimeError
    assert finished == []


def test_an_execution_that_expires(world: World, finished: list[tuple[str, str]]) -> None:
    world.function("work", limits={"expires": 60})
    world.start()
    world.advance(61)
    reap(world)
    assert finished == [("work", "expired")]


def test_an_execution_whose_last_attempt_is_lost(world: World, finished: list[tuple[str, str]]) -> None:
    world.function("work", limits={"retries": 0})
    row = world.start()
    while world.executions.get(row["id"])["state"] == "queued":
        assert finished == []
        world.claim(row)
        world.advance(LEASE + 1)
        reap(world)
    assert world.executions.get(row["id"])["state"] == "dead"
    assert finished == [("work", "dead")]


def test_an_execution_that_its_worker_does_not_stop(ready: World, finished: list[tuple[str, str]]) -> None:
    row = ready.start()
    ready.claim(row)
    ready.executions.cancel(row["id"])
    assert finished == []
    ready.advance(LEASE + 1)
    reap(ready)
    assert finished == [(row["function"], "cancelled")]

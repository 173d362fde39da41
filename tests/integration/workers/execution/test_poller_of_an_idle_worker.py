"""With a broker, an idle worker looks rarely for executions whose message does not come, and misses none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from functory.engine.executions.claims import Claim
from functory.workers.execution import poller as poller_module
from functory.workers.execution.poller import Poller
from functory.workers.execution.slots import Slots
from tests.support.patience import patient
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

# Longer than any test.
LONG = 1000.0


class CountedSlots(Slots):
    """Slots that know how often the poller has asked for them."""

    asked = 0

    @property
    def free_seconds(self) -> float:
        self.asked += 1
        return LONG


@pytest.fixture
def worker(make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with a broker's settings, whose clock the test moves."""
    monkeypatch.setattr(poller_module, "POLL_SECONDS", 0.005)
    world = make_world()
    world.settings = world.settings.model_copy(update={"claim_seconds": 2.0, "poll_seconds": 10.0})
    world.function()
    return world


@contextmanager
def polling(world: World, claimed: list[Claim]) -> Iterator[CountedSlots]:
    slots = CountedSlots(2)
    poller = Poller(world.database, world.settings, world.worker, slots, claimed.extend)
    poller.start()
    try:
        yield slots
    finally:
        poller.stop()
        poller.join(patient(10))


def rounds(slots: CountedSlots, count: int = 20) -> None:
    """Wait until the poller has made further rounds."""
    until = slots.asked + count
    wait_for(lambda: slots.asked >= until, f"{count} rounds")


def test_while_wake_ups_arrive_a_check_that_found_nothing_holds(worker: World) -> None:
    worker.database.wakeup.poll_multiplier = 100
    with polling(worker, []) as slots, worker.statements() as sent:
        wait_for(lambda: bool(sent) or slots.asked > 2, "a first check")
        rounds(slots)
        assert len(sent) <= 1


def test_without_wake_ups_each_round_checks(worker: World) -> None:
    with polling(worker, []) as slots, worker.statements() as sent:
        rounds(slots)
        wait_for(lambda: len(sent) > 10, "a check in each round")


def test_an_execution_whose_message_does_not_come_is_claimed_when_it_has_waited(worker: World) -> None:
    claimed: list[Claim] = []
    worker.database.wakeup.poll_multiplier = 100
    with polling(worker, claimed) as slots:
        rounds(slots)
        row = worker.start()
        rounds(slots)
        assert not claimed
        worker.advance(2.5)
        # Another execution: what has waited is found at the next wake-up, long before the poll interval ends.
        worker.start()
        wait_for(lambda: bool(claimed), "the claim")
    assert claimed[0].id == row["id"]


def test_a_lost_wake_up_costs_one_poll_interval(worker: World, monkeypatch: pytest.MonkeyPatch) -> None:
    claimed: list[Claim] = []
    worker.settings = worker.settings.model_copy(update={"poll_seconds": 0.01})
    worker.database.wakeup.poll_multiplier = 2
    with polling(worker, claimed) as slots:
        rounds(slots)
        # The wake-up is lost: nothing signals it here.
        monkeypatch.setattr(worker.database.wakeup, "signal", lambda topics: None)
        row = worker.start()
        worker.advance(2.5)
        wait_for(lambda: bool(claimed), "the claim")
    assert claimed[0].id == row["id"]

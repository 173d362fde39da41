"""Wake-ups inside of a process: each reaches those who wait for its topic, and none is missed."""

from __future__ import annotations

import threading

from functory.engine.database.wakeups import Wakeup
from tests.support.patience import patient
from tests.support.waiting import wait_for


class Waiter(threading.Thread):
    """Waits for topics; ``woken`` when a wake-up has come, and not the time."""

    def __init__(self, wakeup: Wakeup, *topics: str, timeout: float = 30.0) -> None:
        super().__init__(daemon=True)
        self.wakeup, self.topics, self.timeout = wakeup, topics, timeout
        self.seen = wakeup.generation(*topics)
        self.woken = False
        self.start()

    def run(self) -> None:
        self.woken = self.wakeup.wait(self.topics, self.seen, self.timeout) != self.seen


def test_a_signal_wakes_all_who_wait_for_one_of_its_topics() -> None:
    wakeup = Wakeup()
    one, both = Waiter(wakeup, "events"), Waiter(wakeup, "flow", "events")
    other = Waiter(wakeup, "finished")
    wakeup.signal(["events", "unknown"])
    for waiter in (one, both):
        waiter.join(patient(10))
        assert waiter.woken
    assert other.is_alive()
    wakeup.signal(["finished"])
    other.join(patient(10))
    assert other.woken


def test_a_signal_before_the_wait_counts() -> None:
    wakeup = Wakeup()
    seen = wakeup.generation("events")
    wakeup.signal(["events"])
    assert wakeup.wait("events", seen, 0) != seen
    assert wakeup.wait("events", wakeup.generation("events"), 0) == wakeup.generation("events")


def test_no_signal_is_lost_between_waits() -> None:
    wakeup, rounds = Wakeup(), 2000
    seen = wakeup.generation("events")
    got = threading.Semaphore(0)

    def follow() -> None:
        known = seen
        for _ in range(rounds):
            following = wakeup.wait("events", known, 10)
            if following == known:
                return
            known = following
            got.release()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    for _ in range(rounds):
        wakeup.signal(["events"])
        assert got.acquire(timeout=patient(10))
    thread.join(patient(10))


def test_a_wait_that_has_ended_leaves_nothing_behind() -> None:
    wakeup = Wakeup()
    waiter = Waiter(wakeup, "events", "flow", timeout=0.01)
    waiter.join(patient(10))
    assert not waiter.woken
    wait_for(lambda: not any(wakeup._waiting.values()), "no waiter")

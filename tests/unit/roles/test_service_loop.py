"""The loop of a service ends when it is asked to."""

from __future__ import annotations

from functory.engine.database.wakeups import Wakeup
from functory.engine.service import Service
from functory.roles.service_loop import ServiceLoop
from tests.support.patience import patient


class Idle(Service):
    """A service that has nothing to do, for an hour."""

    name, topic, poll_seconds = "idle", "llm", 3600.0

    def run_once(self) -> bool:
        return False


def test_a_loop_that_is_asked_to_end_before_its_first_round_does_not_wait_for_work() -> None:
    wakeup = Wakeup()
    loop = ServiceLoop(Idle(), wakeup)
    # The first thing that a loop does is to ask for its wake-ups.
    wakeup.on_wanted = loop.stop
    loop.start()
    loop.join(patient(10))
    assert not loop.is_alive()

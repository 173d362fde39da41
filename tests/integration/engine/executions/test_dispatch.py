"""Dispatch sends each due execution once, and again when no worker claims it."""

import threading
from typing import TYPE_CHECKING

import pytest

from functory.engine.executions.dispatch_window import DispatchWindow

if TYPE_CHECKING:
    from tests.support.world import World
from tests.support.sending import send_due
from tests.support.state_rules import LEASE, refuse_connection

pytest_plugins = ["tests.support.world"]


def test_every_due_execution_is_sent_once_and_again_when_no_worker_claims_it(ready):
    rows = [ready.start()["id"] for _ in range(3)]
    ready.start(delay=3600)
    sent: list[str] = []

    def send() -> int:
        sent.clear()
        return send_due(
            ready.database,
            sent.extend,
            redispatch=60,
            worker_ttl=LEASE,
            window=DispatchWindow(0.0),
        )

    assert (send(), sent) == (3, rows)
    assert send() == 0
    ready.claim({"id": rows[0]})
    ready.advance(61)
    assert (send(), sorted(sent)) == (2, sorted(rows[1:]))
    ready.advance(61)
    assert send() == 0, "the patience doubles"
    ready.advance(61)
    assert (send(), sorted(sent)) == (2, sorted(rows[1:]))


def test_a_sending_that_fails_is_repeated(ready):
    ready.start()
    with pytest.raises(ConnectionError):
        send_due(ready.database, refuse_connection, redispatch=60, worker_ttl=LEASE, window=DispatchWindow())
    sent: list[str] = []
    send_due(ready.database, sent.extend, redispatch=60, worker_ttl=LEASE, window=DispatchWindow())
    assert len(sent) == 1


def test_higher_priorities_are_sent_first(ready):
    rows = [ready.start(priority=n)["id"] for n in (0, 5, -5)]
    sent: list[str] = []
    send_due(ready.database, sent.extend, redispatch=60, worker_ttl=LEASE, window=DispatchWindow())
    assert sent == [rows[1], rows[0], rows[2]]


def test_two_dispatchers_send_each_execution_once(make_world):
    worlds = [make_world() for _ in range(2)]
    worlds[0].function("work")
    rows = [worlds[0].start()["id"] for _ in range(50)]
    sent: list[str] = []

    def send(world: "World") -> None:
        for _ in range(5):
            send_due(
                world.database,
                sent.extend,
                redispatch=60,
                worker_ttl=LEASE,
                window=DispatchWindow(),
                limit=15,
            )

    threads = [threading.Thread(target=send, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sent) == sorted(rows)

"""The reaper ends attempts whose lease has expired, once, and only when the lease can be believed."""

import threading
from datetime import datetime

import pytest

from functory.engine.executions import worker_registry
from functory.engine.maintenance import lost_workers
from functory.engine.maintenance.reaper import Reaper
from tests.support.state_rules import LEASE, check, refuse_connection

pytest_plugins = ["tests.support.world"]


def test_an_execution_whose_worker_dies_every_time_is_dead_after_its_last_attempt(ready):
    row = ready.start()
    done = []
    for _ in range(4):
        ready.claim(row)
        ready.advance(LEASE + 1)
        done.append(lost_workers.reap(ready.database, cancel_grace=LEASE))
        check(ready)
    assert [d["lost"] for d in done] == [1, 1, 1, 0]
    assert done[-1]["dead"] == 1
    assert [a["outcome"] for a in ready.executions.attempts(row["id"])] == ["lost"] * 4
    assert "no heartbeat from worker" in ready.executions.get(row["id"])["error"]["message"]


def test_two_reapers_end_an_execution_once(ready):
    row = ready.start()
    ready.claim(row)
    ready.advance(LEASE + 1)
    barrier, done = threading.Barrier(2), []

    def reap() -> None:
        barrier.wait()
        done.append(lost_workers.reap(ready.database, cancel_grace=LEASE)["lost"])

    threads = [threading.Thread(target=reap) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1]
    check(ready)


def test_a_queued_execution_expires_when_no_worker_starts_it_in_time(world):
    world.function("work", limits={"expires": 60})
    row = world.start()
    world.advance(59)
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["expired"] == 0
    world.advance(2)
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["expired"] == 1
    assert world.executions.get(row["id"])["state"] == "expired"
    check(world)


def test_a_reaper_believes_no_lease_before_a_lease_has_passed_without_an_outage(ready, monkeypatch):
    reaper = Reaper(ready.database, ready.settings)
    row = ready.start()
    ready.claim(row)
    ready.advance(LEASE - 1)
    assert reaper.reap() == {}
    ready.advance(2)
    assert reaper.reap()["lost"] == 1

    ready.claim(row)
    ready.advance(LEASE - 1)
    reaper.reap()
    with monkeypatch.context() as away:
        away.setattr(lost_workers, "reap", refuse_connection)
        ready.advance(2)
        with pytest.raises(ConnectionError):
            reaper.reap()
    assert reaper.reap() == {}, "the worker could not send heartbeats either: it gets a lease's time"
    ready.advance(LEASE)
    assert reaper.reap()["lost"] == 1
    check(ready)


def test_a_reaper_believes_no_lease_when_the_database_stood_still_while_it_asked_the_time(ready, monkeypatch):
    reaper = Reaper(ready.database, ready.settings, trust_at_once=True)
    ready.claim(ready.start())
    now = ready.clock.now

    def stand_still() -> datetime:
        ready.advance(LEASE + 1)
        return now()

    with monkeypatch.context() as stopped:
        stopped.setattr(ready.clock, "now", stand_still)
        assert not any(reaper.reap().values())
    assert reaper.reap() == {}, "the worker could not send heartbeats either: it gets a lease's time"
    ready.advance(LEASE)
    assert reaper.reap()["lost"] == 1
    check(ready)


def test_a_reaper_believes_no_lease_when_the_clock_was_put_forward(ready, monkeypatch):
    reaper = Reaper(ready.database, ready.settings, trust_at_once=True)
    ready.claim(ready.start())
    assert not any(reaper.reap().values())
    monotonic = ready.clock.monotonic
    # Time has passed on the wall and nowhere else.
    ready.advance(LEASE * 10)
    monkeypatch.setattr(ready.clock, "monotonic", lambda: monotonic() - LEASE * 10)
    assert reaper.reap() == {}
    ready.advance(LEASE)
    assert reaper.reap()["lost"] == 1


def test_a_stopped_reaper_that_wakes_up_waits_for_a_lease(ready):
    reaper = Reaper(ready.database, ready.settings, trust_at_once=True)
    ready.claim(ready.start())
    ready.advance(LEASE * 10)
    assert reaper.reap() == {}
    ready.advance(LEASE)
    assert reaper.reap()["lost"] == 1


def test_a_reaper_believes_no_lease_until_the_database_server_is_a_lease_old(ready, monkeypatch):
    reaper = Reaper(ready.database, ready.settings, trust_at_once=True)
    ready.claim(ready.start())
    ready.advance(LEASE / 2)
    assert not any(reaper.reap().values())
    # The server restarted between two rounds: no round was missed, but heartbeats were.
    ready.advance(LEASE / 2 + 1)
    monkeypatch.setattr(lost_workers, "server_uptime", lambda database: 1.0)
    assert reaper.reap() == {}
    monkeypatch.setattr(lost_workers, "server_uptime", lambda database: LEASE)
    ready.advance(LEASE - 2)
    assert reaper.reap() == {}, "a lease after its start the server is believed"
    ready.advance(2)
    assert reaper.reap()["lost"] == 1
    check(ready)


def lost_attempt(world):
    world.claim(world.start())
    world.advance(LEASE + 1)


def ignored_cancel(world):
    claim = world.claim(world.start())
    world.executions.cancel(claim.id)
    for _ in range(3):
        world.advance(LEASE / 2)
        world.worker.heartbeat([(claim.id, claim.fence)])


def late_start(world):
    world.function("late", limits={"expires": 60})
    world.start("late")
    world.advance(61)


def gone_worker(world):
    worker_registry.record_heartbeat(world.database, "gone", 1, "none")
    world.advance(4 * LEASE + 1)


@pytest.mark.parametrize("lose", [lost_attempt, ignored_cancel, late_start, gone_worker])
def test_a_reaper_finds_each_kind_of_loss_and_asks_little_while_there_is_none(ready, lose):
    reaper = Reaper(ready.database, ready.settings, trust_at_once=True)
    with ready.statements() as sent:
        reaper.reap()
    assert len(sent) == 2
    lose(ready)
    reaper = Reaper(ready.database, ready.settings, trust_at_once=True)
    counts = reaper.reap()
    assert any(counts.values()) or ready.types("worker.lost")
    with ready.statements() as sent:
        assert not any(reaper.reap().values())
    assert len(sent) == 2
    check(ready)

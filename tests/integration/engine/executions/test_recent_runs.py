"""What the newest executions of a function spent their time on, read from their rows."""

from collections import Counter

from functory.engine.executions import recent_runs
from functory.engine.tallies.rows import HOUR
from tests.support.aging_world import ids_of

pytest_plugins = ["tests.support.world"]


def span(seq, function, seconds, parent=None, error=None):
    return {
        "seq": seq,
        "parent_seq": parent,
        "function": function,
        "version": 1,
        "input": None,
        "output": None,
        "error": error,
        "offset_seconds": 0.0,
        "duration_seconds": seconds,
    }


def read(world, version=1, since=HOUR):
    with world.database.read() as tx:
        return recent_runs.read(tx, "work", version, tx.now - since)


def attempt(world, row, outcome="succeeded", seconds=1.0, **ending):
    world.finish(world.claim(row), outcome, duration_seconds=seconds, **ending)


def test_calls_are_summed_without_those_inside_of_them(world):
    world.function()
    spans = [span(1, "fetch", 0.6), span(2, "parse", 0.5, parent=1), span(3, "store", 0.1)]
    for _ in range(3):
        attempt(world, world.start(), spans=spans, waited_seconds=0.25)
    attempt(world, world.start(), spans=[span(1, "fetch", 0.4, error={"type": "OSError"})])
    found = read(world)
    fetch, store = found.calls
    assert (fetch.function, fetch.calls, fetch.failed, round(fetch.seconds, 6)) == ("fetch", 4, 1, 2.2)
    assert (store.function, store.calls, store.failed) == ("store", 3, 0)
    assert (found.executions, found.seconds, found.waited_seconds) == (4, 4.0, 0.75)
    # What the timeout limits: the attempts without waiting.
    assert found.attempt_seconds == [0.75, 0.75, 0.75, 1.0]
    assert found.longest_of(0.99) == 1.0


def test_retries_that_helped_are_told_from_those_that_did_not(world):
    world.function(limits={"retries": 1, "retry_delay": 0})
    for last in ("succeeded", "failed", "timed_out"):
        row = world.start()
        attempt(world, row, "failed", error={"type": "KeyError", "message": "x"})
        world.advance(1)
        attempt(world, row, last)
    attempt(world, world.start())
    # It failed once and was not retried.
    attempt(world, world.start(), "failed", retryable=False)
    found = read(world)
    assert (found.executions, found.retried, found.helped) == (5, 3, 1)
    assert found.errors == Counter({"KeyError": 3, "ValueError": 3})


def test_only_ended_executions_of_the_version_since_then_count(world):
    # Ids are as old as the clock says.
    world.database.new_id = ids_of(world.database)
    world.function()
    attempt(world, world.start())
    world.functions.save("def work(*given, **named):\n    return 2\n")
    world.start()
    world.claim(world.start())
    attempt(world, world.start(), "cancelled")
    attempt(world, world.start(), seconds=2.0)
    assert [read(world, version).executions for version in (1, 2)] == [1, 1]
    assert read(world, 2).attempt_seconds == [2.0]
    assert read(world, 3) == recent_runs.RecentRuns()
    world.advance(3601)
    assert read(world, 2) == recent_runs.RecentRuns()
    assert read(world, 2, 2 * HOUR).executions == 1


def test_only_the_newest_executions_are_read(world, monkeypatch):
    monkeypatch.setattr(recent_runs, "_NEWEST", recent_runs._NEWEST.limit(2))
    world.function()
    for seconds in (1.0, 2.0, 3.0):
        attempt(world, world.start(), seconds=seconds)
    assert read(world).attempt_seconds == [2.0, 3.0]

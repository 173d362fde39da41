"""How an execution starts: replays, idempotency keys, calls of functions, their depth and budget."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from functory.engine.errors import Conflict, Invalid, NotFound, Refused, WaitTimeout
from functory.engine.executions.store import Executions

if TYPE_CHECKING:
    from tests.support.world import World
from tests.support.patience import patient
from tests.support.state_rules import check

pytest_plugins = ["tests.support.world"]


def test_a_replay_is_a_new_execution_with_the_same_input_and_version(world):
    world.function("work", metadata={"n": 1})
    old = world.executions.start("work", {"a": 1})
    with pytest.raises(Conflict, match="only a finished one"):
        world.executions.replay(old["id"])
    world.finish(world.claim(old), "failed")
    world.function("work", metadata={"n": 2})
    same, latest = world.executions.replay(old["id"]), world.executions.replay(old["id"], latest=True)
    assert [(r["version"], r["input"], r["replay_of"], r["cause"], r["depth"]) for r in (same, latest)] == [
        (1, {"a": 1}, old["id"], "replay", 0),
        (2, {"a": 1}, old["id"], "replay", 0),
    ]
    assert world.executions.get(old["id"])["state"] == "failed"
    check(world)


def test_the_same_idempotency_key_gives_the_first_execution(ready):
    first = ready.start(idempotency_key="order-1")
    assert ready.start(idempotency_key="order-1")["id"] == first["id"]
    assert ready.start(idempotency_key="order-2")["id"] != first["id"]
    ready.function("other")
    with pytest.raises(Conflict, match="used for another function"):
        ready.start("other", idempotency_key="order-1")
    for wrong in ("", "x" * 256, "a\x00b", "\ud800"):
        with pytest.raises(Invalid, match="idempotency_key"):
            ready.start(idempotency_key=wrong)


def test_the_same_idempotency_key_at_the_same_moment_gives_one_execution(make_world):
    worlds = [make_world() for _ in range(4)]
    worlds[0].function("work")
    barrier, ids = threading.Barrier(4), []

    def race(world: "World") -> None:
        barrier.wait()
        ids.extend(world.start(idempotency_key=f"order-{n}")["id"] for n in range(10))

    threads = [threading.Thread(target=race, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 40
    assert len(set(ids)) == 10 == len(worlds[0].executions.list())


def test_a_child_is_one_deeper_in_the_same_root(ready):
    root = ready.claim(ready.start())
    child = ready.claim(ready.executions.start("work", {}, parent=root.cause))
    grandchild = ready.executions.start("work", {}, parent=child.cause)
    assert (grandchild["root_id"], grandchild["parent_id"], grandchild["depth"], grandchild["cause"]) == (
        root.id,
        child.id,
        2,
        "parent",
    )
    tree = ready.lineage.tree(grandchild["id"])
    assert [node.id for top in tree.nodes for node in top.walk() if node.kind == "execution"] == [
        root.id,
        child.id,
        grandchild["id"],
    ]


def test_a_chain_of_calls_is_stopped_exactly_at_the_depth(make_world):
    world = make_world(max_depth=3)
    world.function("work")
    row = world.start()
    for _ in range(3):
        row = world.executions.start("work", {}, parent=world.claim(row).cause)
    assert row["depth"] == 3
    with pytest.raises(Refused, match=r"the call of work was stopped: depth\nlimit 3"):
        world.executions.start("work", {}, parent=world.claim(row).cause)
    assert len(world.executions.list()) == 4


def test_a_fan_out_of_calls_is_stopped_exactly_at_the_budget(make_world):
    world = make_world(root_budget=5)
    world.function("work")
    root = world.claim(world.start())
    for _ in range(5):
        world.executions.start("work", {}, parent=root.cause)
    with pytest.raises(Refused, match="has caused 5 of at most 5 executions"):
        world.executions.start("work", {}, parent=root.cause)
    assert len(world.executions.list()) == 6
    assert world.lineage.tree(root.id).budget == (5, 5)


def test_a_budget_shared_by_many_threads_is_exact(make_world):
    worlds = [make_world(root_budget=20) for _ in range(3)]
    worlds[0].function("work")
    root = worlds[0].claim(worlds[0].start())
    refused: list[int] = []

    def race(world: "World") -> None:
        for n in range(15):
            try:
                world.executions.start("work", {}, parent=root.cause)
            except Refused:
                refused.append(n)

    threads = [threading.Thread(target=race, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 25
    assert len(worlds[0].executions.list(parent_id=root.id)) == 20


def test_a_function_that_does_not_exist_starts_nothing(ready):
    with pytest.raises(NotFound, match="function 'missing' not found"):
        ready.start("missing")
    with pytest.raises(NotFound, match="function 'work' has no version 7"):
        ready.start("work", version=7)
    with pytest.raises(NotFound):
        ready.executions.get("nonsense")
    with pytest.raises(NotFound):
        ready.executions.wait(["0" * 32], 0)


def test_a_wait_ends_with_the_last_execution_or_with_its_time(ready):
    rows = [ready.start()["id"] for _ in range(3)]
    for claim in ready.worker.claim(rows[:2]):
        ready.finish(claim, result=claim.id)
    with pytest.raises(WaitTimeout, match="is still queued"):
        ready.executions.wait(rows, 0)
    ready.finish(ready.worker.claim(rows[2:])[0], result=rows[2])
    assert [row["result"] for row in ready.executions.wait([*reversed(rows), rows[0].upper()])] == [
        *reversed(rows),
        rows[0],
    ]


def test_a_wait_can_ask_only_how_long_the_results_are(ready):
    rows = [ready.start()["id"] for _ in range(2)]
    for claim in ready.worker.claim(rows):
        ready.finish(claim, result="x" * 1000)
    assert ready.executions.wait_for_lengths([*rows, rows[0].upper()], 0) == dict.fromkeys(rows, 1002)


@contextmanager
def waiting(world: "World", row, before: int, timeout: float | None = None) -> Iterator[list]:
    """Wait for an execution in a thread; the list gets its row, or the error."""
    found: list = []

    def wait() -> None:
        try:
            found.append(world.executions.wait_for_started(row["id"], before, timeout))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    yield found
    thread.join(patient(30))
    assert not thread.is_alive()


@pytest.fixture
def woken(make_world) -> "World":
    """A world to which wake-ups arrive, and which polls only after a long time."""
    world = make_world()
    world.executions = Executions(world.database, world.settings.model_copy(update={"poll_seconds": 1000.0}))
    world.database.wakeup.poll_multiplier = 10
    world.function("work")
    return world


def test_a_caller_reads_nothing_until_its_execution_has_ended(woken):
    before = woken.executions.before_start()
    row = woken.start()
    claim = woken.claim(row)
    with woken.statements() as sent:
        with waiting(woken, row, before) as found:
            # The first look of a wait for several would come at once.
            assert not sent
            woken.finish(claim, result=7)
        reads = [text for text in sent if text.startswith("SELECT") and "FROM execution" in text]
    assert (found[0]["state"], found[0]["result"]) == ("succeeded", 7)
    assert sum("state IN" in text for text in reads) == 1


def test_a_caller_whose_execution_ended_before_it_waits_gets_it_at_once(woken):
    before = woken.executions.before_start()
    row = woken.start()
    woken.finish(woken.claim(row), result=7)
    assert woken.executions.wait_for_started(row["id"], before)["result"] == 7


def test_a_caller_goes_on_waiting_while_other_executions_end(woken):
    before = woken.executions.before_start()
    row, other = woken.start(), woken.start()
    with waiting(woken, row, before) as found:
        woken.finish(woken.claim(other))
        claim = woken.claim(row)
        assert not found
        woken.finish(claim, result=7)
    assert found[0]["result"] == 7


def test_a_caller_without_wake_ups_polls(make_world, ready):
    before = ready.executions.before_start()
    row = ready.start()
    # Another process: its wake-ups do not arrive here.
    beside = make_world()
    with waiting(ready, row, before) as found:
        beside.finish(beside.claim(row), result=7)
    assert found[0]["result"] == 7


def test_a_lost_wake_up_costs_a_caller_one_poll_interval(make_world, ready):
    before = ready.executions.before_start()
    row = ready.start()
    ready.database.wakeup.poll_multiplier = 10
    beside = make_world()
    with waiting(ready, row, before) as found:
        beside.finish(beside.claim(row), result=7)
    assert found[0]["result"] == 7


@pytest.mark.parametrize("multiplier", [1, 10])
def test_a_caller_waits_no_longer_than_its_time(ready, multiplier):
    ready.database.wakeup.poll_multiplier = multiplier
    before = ready.executions.before_start()
    row = ready.start()
    with pytest.raises(WaitTimeout, match="still queued"):
        ready.executions.wait_for_started(row["id"], before, 0.05)

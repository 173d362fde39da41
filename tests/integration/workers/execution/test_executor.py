"""The executions of one message run in the worker's own process, with real children."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.maintenance import lost_workers
from functory.workers.execution import held_claims
from functory.workers.execution.executor import Executor
from functory.workers.sandbox.runner import Runner
from functory.workers.sandbox.supervision import train_habits
from tests.support.patience import patient
from tests.support.world import LEASE, World, lines

pytest_plugins = ["tests.support.world"]

# Nothing here takes that long.
PATIENCE = 20.0


@pytest.fixture
def executor(world: World) -> Iterator[Executor]:
    runner = Runner()
    made = Executor(world.database, world.settings, runner, "worker")
    made.start()
    yield made
    made.close()


@pytest.fixture(params=["one by one", "in trains"])
def work(world: World, executor: Executor, request: pytest.FixtureRequest) -> str:
    """How a function runs that returns `n` after `seconds`, and fails if `n` is negative.

    It rides trains once it has run in this process and was quick.
    """
    world.functions.save(
        lines(
            "import time",
            "def work(n, seconds=0.0):",
            "    time.sleep(seconds)",
            "    if n < 0:",
            "        raise ValueError(n)",
            "    return n",
        ),
        limits={"retries": 0},
        reuse=None if request.param == "in trains" else False,
    )
    if request.param == "in trains":
        executor.execute(start(world, {"n": 0}))
    return request.param


def start(world: World, *inputs: dict[str, Any]) -> list[str]:
    return [world.executions.start("work", given)["id"] for given in inputs]


def states(world: World, ids: list[str]) -> list[str]:
    return [world.executions.get(id_)["state"] for id_ in ids]


def wait_for(fact: Callable[[], bool]) -> None:
    end = time.monotonic() + patient(PATIENCE)
    while not fact():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def in_background(executor: Executor, ids: list[str]) -> threading.Thread:
    thread = threading.Thread(target=executor.execute, args=(ids,))
    thread.start()
    return thread


def test_a_message_ends_with_all_its_results_stored(world: World, executor: Executor, work: str) -> None:
    ids = start(world, *({"n": n} for n in range(5)), {"n": -1}, {"n": 6})
    executor.execute(ids)
    assert states(world, ids) == ["succeeded"] * 5 + ["failed", "succeeded"]
    assert [world.executions.get(id_)["result"] for id_ in ids] == [0, 1, 2, 3, 4, None, 6]
    assert len(world.rows(schema.attempt)) == 7 + (work == "in trains")
    assert executor.idle


def test_results_do_not_wait_for_a_slow_execution_and_what_is_behind_it_goes_back(
    world: World, executor: Executor, work: str
) -> None:
    ids = start(world, {"n": 1}, {"n": 2, "seconds": 4.0}, {"n": 3})
    message = in_background(executor, ids)
    wait_for(lambda: states(world, ids)[0] == "succeeded")
    assert states(world, ids)[1] == "running"
    wait_for(lambda: states(world, ids)[2] == "queued")
    assert states(world, ids)[1] == "running"
    assert world.executions.get(ids[2])["released"] == 0
    message.join(PATIENCE)
    assert states(world, ids) == ["succeeded", "succeeded", "queued"]


def test_a_cancelled_one_does_not_take_the_others_with_it(
    world: World, executor: Executor, work: str
) -> None:
    ids = start(world, {"n": 1}, {"n": 2, "seconds": 30.0}, {"n": 3})
    message = in_background(executor, ids)
    wait_for(lambda: states(world, ids)[0] == "succeeded")
    world.executions.cancel(ids[1])
    message.join(PATIENCE)
    assert states(world, ids)[:2] == ["succeeded", "cancelled"]
    if states(world, ids)[2] == "queued":
        # It waited too long behind the slow one.
        executor.execute(ids)
    assert states(world, ids)[2] == "succeeded"


def test_a_lost_lease_does_not_take_the_others_with_it(world: World, executor: Executor, work: str) -> None:
    ids = start(world, {"n": 1}, {"n": 2, "seconds": 30.0}, {"n": 3})
    message = in_background(executor, ids)
    wait_for(lambda: states(world, ids)[0] == "succeeded")
    with world.database.write() as tx:
        tx.execute(
            schema.execution.update().where(schema.execution.c.id == ids[1]).values(lease_until=tx.now)
        )
    world.advance(0.001)
    assert lost_workers.reap(world.database, cancel_grace=LEASE)["lost"] == 1
    message.join(PATIENCE)
    assert states(world, ids)[:2] == ["succeeded", "queued"]
    assert states(world, ids)[2] in ("succeeded", "queued")


def test_a_worker_that_shuts_down_gives_back_what_has_not_begun(
    world: World, executor: Executor, work: str
) -> None:
    ids = start(world, {"n": 1}, {"n": 2, "seconds": 0.8}, *({"n": n} for n in range(3, 9)))
    message = in_background(executor, ids)
    wait_for(lambda: states(world, ids)[0] == "succeeded")
    executor.drain(PATIENCE)
    message.join(PATIENCE)
    assert states(world, ids) == ["succeeded", "succeeded"] + ["queued"] * 6
    assert {world.executions.get(id_)["attempt"] for id_ in ids[2:]} == {0}
    assert executor.idle


def test_a_train_loses_and_doubles_nothing(
    world: World, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    train = Runner.train

    def counted(runner: Runner, passengers: Any, **calls: Any) -> None:
        sizes.append(len(passengers))
        train(runner, passengers, **calls)

    monkeypatch.setattr(Runner, "train", counted)
    # On a slow machine, too, the first run of the function is quick enough, and none waits too long behind another.
    monkeypatch.setattr(train_habits, "_LONGEST_SECONDS", patient(30))
    monkeypatch.setattr(held_claims, "CLAIM_HOLD_SECONDS", patient(30))
    world.functions.save(
        lines(
            "import os",
            "def ride(n):",
            "    if n == 30:",
            "        raise ValueError(n)",
            "    if n == 60:",
            "        print('hello')",
            "    if n == 90:",
            "        os._exit(3)",
            "    return n",
        ),
        limits={"retries": 0, "max_attempts": 1},
    )
    first = world.executions.start("ride", {"n": -1})["id"]
    executor.execute([first])
    ids = [world.executions.start("ride", {"n": n})["id"] for n in range(120)]
    executor.execute(ids)
    rows = [world.executions.get(id_) for id_ in ids]
    assert sizes[0] == 120
    expected = dict.fromkeys(range(120), "succeeded") | {30: "failed", 90: "dead"}
    assert {n: row["state"] for n, row in enumerate(rows)} == expected
    assert [row["result"] for n, row in enumerate(rows) if n not in (30, 90)] == [
        n for n in range(120) if n not in (30, 90)
    ]
    assert {row["attempt"] for row in rows} == {1}
    assert [(row["execution_id"], row["text"]) for row in world.rows(schema.log)] == [(ids[60], "hello")]
    attempts = world.rows(schema.attempt)
    assert len(attempts) == 121
    assert all(row["ended_at"] is not None and row["duration_seconds"] >= 0 for row in attempts)
    assert executor.idle

"""Lines of attempts that do not end by themselves, on both databases: released by a shutdown, or given back by a
train.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.executions.leases import MAX_RELEASES
from functory.workers.execution.executor import Executor
from functory.workers.sandbox.runner import Runner
from tests.support.patience import patient
from tests.support.waiting import wait_for
from tests.support.world import World, lines

pytest_plugins = ["tests.support.world"]


@pytest.fixture(params=[60_000, 50], ids=["nothing-was-stored", "some-was-stored"])
def executor(world: World, request: pytest.FixtureRequest) -> Iterator[Executor]:
    world.settings = world.settings.model_copy(update={"live_milliseconds": request.param})
    made = Executor(world.database, world.settings, Runner(), "worker")
    made.start()
    yield made
    made.close()


def texts(world: World, id_: str) -> list[str]:
    return [row["text"] for row in world.executions.logs(id_)]


def talking(world: World, executor: Executor) -> tuple[str, threading.Thread]:
    """An execution that has printed all of its lines and still runs."""
    world.functions.save("def part(n):\n    return n\n")
    world.functions.save(
        lines(
            "import time",
            "from functory import emit",
            "def talk():",
            "    print('first', flush=True)",
            "    part(1)",
            "    time.sleep(0.3)",
            "    print('last, and its line has no end', end='', flush=True)",
            "    emit('talk.printed')",
            "    time.sleep(600)",
        ),
        dependencies=["part"],
    )
    id_ = world.executions.start("talk", {})["id"]
    thread = threading.Thread(target=executor.execute, args=([id_],))
    thread.start()
    wait_for(lambda: world.rows(schema.event, schema.event.c.type == "talk.printed"), seconds=60)
    return id_, thread


def test_a_worker_that_shuts_down_stores_the_last_lines_of_what_it_releases(
    world: World, executor: Executor
) -> None:
    id_, thread = talking(world, executor)
    executor.drain(0)
    thread.join(patient(30))
    row = world.executions.get(id_)
    assert (row["state"], row["attempt"]) == ("queued", 0)
    assert texts(world, id_) == ["first", "last, and its line has no end"]
    assert [one["output"] for one in world.executions.spans(id_)] == [1]
    # The next attempt has lines of its own.
    claim = world.claim(row)
    world.finish(claim, logs=[{"seq": 1, "stream": "log", "level": "info", "text": "2", "offset_seconds": 0}])
    assert texts(world, id_) == ["first", "last, and its line has no end", "2"]


def test_the_lines_stay_when_it_was_released_too_often_and_cannot_be_given_back(
    world: World, executor: Executor
) -> None:
    id_, thread = talking(world, executor)
    with world.database.write() as tx:
        tx.execute(
            schema.execution.update().where(schema.execution.c.id == id_).values(released=MAX_RELEASES)
        )
    executor.drain(0)
    thread.join(patient(30))
    assert world.executions.get(id_)["state"] == "running"
    assert texts(world, id_) == ["first", "last, and its line has no end"]


def test_an_attempt_that_lost_its_execution_adds_no_line_when_its_worker_shuts_down(
    world: World, executor: Executor
) -> None:
    id_, thread = talking(world, executor)
    with world.database.write() as tx:
        found = world.rows(schema.attempt, schema.attempt.c.execution_id == id_)[0]["fence"]
        tx.execute(schema.execution.update().where(schema.execution.c.id == id_).values(fence=found + 1))
    executor.drain(0)
    thread.join(patient(30))
    assert "last, and its line has no end" not in texts(world, id_)


def test_passengers_of_a_train_that_print_keep_their_lines_apart(
    world: World, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    train = Runner.train

    def counted(runner: Runner, passengers: Any, **calls: Any) -> None:
        sizes.append(len(passengers))
        train(runner, passengers, **calls)

    monkeypatch.setattr(Runner, "train", counted)
    world.functions.save(
        lines(
            "import time",
            "def ride(n):",
            "    if n % 3 == 1:",
            "        print(n, 'begins', flush=True)",
            "        time.sleep(0.3)",
            "        print(n, 'ends')",
            "    return n",
        )
    )

    def rides() -> bool:
        """A version rides once its runs were quick: on a slow machine, not after the first one."""
        executor.execute([world.executions.start("ride", {"n": 0})["id"] for _ in range(2)])
        return bool(sizes)

    wait_for(rides)
    sizes.clear()
    ids = [world.executions.start("ride", {"n": n})["id"] for n in range(9)]
    executor.execute(ids)
    assert sizes == [9]
    assert [world.executions.get(id_)["result"] for id_ in ids] == [*range(9)]
    for n, id_ in enumerate(ids):
        assert texts(world, id_) == ([f"{n} begins", f"{n} ends"] if n % 3 == 1 else [])

"""Some functions in real child processes: their rows do not depend on the size of a message either."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from functory.engine.settings import Settings
from functory.workers.sandbox.runner import Runner
from tests.simulation.batches.normalised_rows import differences
from tests.simulation.batches.stepped_engine import SteppedEngine

pytest_plugins = ["tests.support.world", "tests.simulation.batches.databases"]

# What a child's clock measures.
MEASURED = re.compile(r'"(duration_seconds|waited_seconds|offset_seconds)": [0-9.e-]+')

PLAIN = """
def plain(given):
    return {"n": given["data"]["n"]}
"""
TALKS = """
def talks(given):
    n = given["data"]["n"]
    if n % 3 == 0:
        print("line", n)
    if n % 5 == 1:
        raise ValueError(f"no {n}")
    return n
"""
DIES = """
def dies(given):
    import os
    if given["data"]["n"] in (2, 5):
        os._exit(3)
    return "alive"
"""
EMITS = """
def emits(given):
    n = given["data"]["n"]
    emit("step", {"n": n})
    emit("step", {"n": n})
    return call("plain", given={"data": {"n": 100 + n}})
"""
SLOW = """
def slow(given):
    import time
    if given["data"]["n"] == 3:
        time.sleep(60)
    return given["data"]["n"]
"""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with Runner.from_settings(Settings(home=tmp_path_factory.mktemp("runner"))) as found:
        yield found


def play(engine: SteppedEngine) -> None:
    save = engine.world.functions.save
    save(textwrap.dedent(PLAIN))
    save(TALKS, limits={"retries": 1, "retry_delay": 0})
    save(DIES, limits={"max_attempts": 2, "retry_delay": 0})
    save(EMITS)
    save(SLOW, limits={"timeout": 0.5})
    for name in ("plain", "talks", "dies", "emits", "slow"):
        engine.trigger(f"on-{name}", name, name)
        engine.emit(name, *range(8))
    engine.trigger("on-step", "plain", "step")
    engine.settle()
    engine.advance(10)
    engine.settle()


def test_rows_of_real_children_do_not_depend_on_the_batch_size(
    next_url: Callable[[], str], tmp_path: Path, runner: Runner
) -> None:
    states = []
    for size in (1, 40):
        engine = SteppedEngine(next_url(), tmp_path / "home", size, runner=runner)
        try:
            play(engine)
        finally:
            engine.close()
        states.append(
            [
                {t: sorted(MEASURED.sub(r'"\1": 0', row) for row in rows) for t, rows in s.items()}
                for s in engine.states
            ]
        )
    one, many = states
    for number, (left, right) in enumerate(zip(one, many, strict=True), 1):
        found = differences(left, right)
        assert not found, f"state {number} at batch size 40 (+) is not that at 1 (-)\n{found}"

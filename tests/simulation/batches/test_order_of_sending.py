"""What was queued first is sent first, also while the workers have room again for what has just been routed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from functory.engine.database.schema import execution
from tests.simulation.batches.stepped_engine import SteppedEngine

pytest_plugins = ["tests.support.world", "tests.simulation.batches.databases"]

# More than a dispatcher sends while no worker has claimed any.
MANY = 200


@pytest.mark.parametrize("size", [1, 7, 100])
def test_what_is_routed_while_a_backlog_waits_does_not_overtake_it(
    next_url: Callable[[], str], tmp_path: Path, size: int
) -> None:
    engine = SteppedEngine(next_url(), tmp_path / "home", size)
    try:
        engine.function("work", lambda call: call.number)
        engine.trigger("t", "work", "tick")
        engine.emit_many("tick", range(MANY))
        engine.route()
        engine.dispatch()
        first = len(engine.sent)
        assert first < MANY, "a part must stay in the database"
        # The workers take some messages, and new executions come before the next round of the dispatcher.
        engine.work(at_most=first // 2 // size + 1)
        engine.emit_many("tick", range(MANY, MANY + 20))
        engine.route()
        assert len(engine.sent) == first, "older executions wait"
        engine.settle()
        number = {row["id"]: row["input"]["given"]["data"]["n"] for row in engine.world.rows(execution)}
        assert [number[id_] for id_ in engine.sent] == list(range(MANY + 20))
    finally:
        engine.close()

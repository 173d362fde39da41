"""What was queued first is sent first, also while the workers have room again for what has just been routed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from functory.engine.database.schema import execution
from tests.simulation.batches.stepped_engine import SteppedEngine
from tests.simulation.engine.mutants import Edit, Mutant
from tests.support.world import on_sqlite

pytest_plugins = ["tests.support.world", "tests.simulation.batches.databases"]

# More than a dispatcher sends while no worker has claimed any.
MANY = 200

OVERTAKES = Mutant(
    "sent directly while an older backlog waits",
    [
        Edit(
            "functory.engine.executions.direct_dispatch",
            "open_room",
            "return 0 if waiting else free",
            "return free",
        )
    ],
)


def order_of_sending(url: str, home: Path, size: int) -> list[int]:
    """Emit numbered events while a part of the executions of earlier ones waits in the backlog. Returns the numbers in
    the order in which their executions are sent.
    """
    engine = SteppedEngine(url, home, size)
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
        engine.settle()
        number = {row["id"]: row["input"]["given"]["data"]["n"] for row in engine.world.rows(execution)}
        return [number[id_] for id_ in engine.sent]
    finally:
        engine.close()


@pytest.mark.parametrize("size", [1, 7, 100])
def test_what_is_routed_while_a_backlog_waits_does_not_overtake_it(
    next_url: Callable[[], str], tmp_path: Path, size: int
) -> None:
    assert order_of_sending(next_url(), tmp_path / "home", size) == list(range(MANY + 20))


@on_sqlite
def test_the_order_shows_that_a_router_overtakes_the_backlog(
    next_url: Callable[[], str], tmp_path: Path
) -> None:
    with OVERTAKES.applied():
        assert order_of_sending(next_url(), tmp_path / "home", 7) != list(range(MANY + 20))

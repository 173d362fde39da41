"""Random trees that are cancelled, fail and go on at random: a model says which executions have to go along."""

import random
from collections.abc import Iterator

import pytest

from functory.engine.database import schema
from functory.engine.executions.claims import Claim
from functory.engine.maintenance import canceller, invariants
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

SEEDS = range(12)
STEPS = 200
BAD = ("failed", "timed_out", "dead", "cancelled")


class Trees:
    """Grows trees by random steps of workers, people and the canceller."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = random.Random(seed)
        self._running: dict[str, Claim] = {}
        # The states in which executions ended other than by a cancel that came from above.
        self.ended: dict[str, str] = {}

    def grow(self) -> None:
        for _ in range(3):
            self._start()
        steps = [self._start, self._submit, self._claim, self._finish, self._cancel, self._go_down]
        for _ in range(STEPS):
            (step,) = self._random.choices(steps, weights=[1, 8, 6, 3, 1, 2])
            step()

    def settle(self) -> None:
        """Let workers stop what they are asked to stop, until no cancel is open."""
        while True:
            self._go_down()
            keys = [(one.id, one.fence) for one in self._running.values()]
            asked = self._world.worker.lease_status(keys).cancel_requested
            for id_, _ in sorted(asked):
                self._world.finish(self._running.pop(id_), "cancelled")
            if not asked and not self._world.rows(schema.open_cancel):
                return

    def _start(self) -> None:
        self._world.start()

    def _submit(self) -> None:
        if self._running:
            parent = self._random.choice(list(self._running.values()))
            self._world.start(
                parent=parent.cause,
                abandon=self._random.random() < 0.2,
                delay=self._random.choice([0.0, 0.0, 900.0]),
            )

    def _claim(self) -> None:
        for one in self._world.worker.claim_any(self._random.randint(1, 3)):
            self._running[one.id] = one
        self._world.advance(1)

    def _finish(self) -> None:
        if self._running:
            claim = self._running.pop(self._random.choice(list(self._running)))
            outcome = self._random.choice(["succeeded", "succeeded", "failed", "timed_out", "crashed"])
            after = self._world.finish(claim, outcome, retryable=self._random.random() < 0.5)
            if after.state != "queued":
                self.ended[claim.id] = after.state

    def _cancel(self) -> None:
        rows = [row for row in self._world.rows(schema.execution) if row["state"] in ("queued", "running")]
        if rows:
            self._world.executions.cancel(self._random.choice(rows)["id"], author="ada")

    def _go_down(self) -> None:
        canceller.advance(self._world.database)


@pytest.fixture
def world(memory: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world of its own for each tree, whose canceller takes few children at a time."""
    monkeypatch.setattr(canceller, "_CHILDREN", canceller._CHILDREN.limit(3))
    monkeypatch.setattr(canceller, "PAGE", 3)
    found = World("sqlite:///:memory:", memory.home, like=memory)
    with found.database.connection(write=True) as connection, connection.begin():
        schema.metadata.create_all(connection)
    yield found
    found.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_waits_only_for_a_cancelled_one_ends_and_nothing_else(world: World, seed: int) -> None:
    world.function("work", limits={"retries": 2, "retry_delay": 1})
    trees = Trees(world, seed)
    trees.grow()
    trees.settle()
    rows = {row["id"]: row for row in world.rows(schema.execution)}
    for id_, row in rows.items():
        parent = rows.get(row["parent_id"])
        takes = parent is not None and parent["state"] in BAD and row["ends_with_parent"]
        by_parent = row["cancelled_by"] == f"execution {row['parent_id']}"
        assert not (takes and row["state"] in ("queued", "running")), f"{id_} is left behind"
        assert not by_parent or takes, f"{id_} was left alone by its parent, and is cancelled"
        assert row["state"] != "cancelled" or row["cancelled_by"] is not None
        if id_ in trees.ended:
            assert row["state"] == trees.ended[id_]
    assert [one for one in invariants.verify(world.database, world.settings) if one.count] == []

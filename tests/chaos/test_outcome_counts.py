"""The counts of a run show lost and doubled executions, and the table adds the counts of several runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import attempt, event, execution, firing
from tests.chaos import results_table
from tests.chaos.outcome_counts import count, recoveries
from tests.chaos.workload import ORDERS, Given
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def tried(id_: str, outcome: str, begun: float, ended: float) -> dict[str, Any]:
    return {"execution_id": id_, "outcome": outcome, "started_at": at(begun), "ended_at": at(ended)}


def run_of(world: World, folder: Path) -> Any:
    """A run over a world, with one acknowledged order."""
    world.function("take", "order")
    world.trigger("take", "take", {"type": ["order.placed"]}, input={"order": 1})
    given = Given()
    given.events.append(world.events.emit("order.placed", {"order": 1}))
    world.run_all()
    return SimpleNamespace(
        database=world.database,
        fault=SimpleNamespace(workload=ORDERS),
        given=given,
        marks=[],
        folder=folder,
        lines=lambda pattern: [],
    )


def change(world: World, statement: Any) -> None:
    with world.database.write() as tx:
        tx.execute(statement)


def test_a_run_that_went_well_has_lost_and_doubled_nothing(world: World, tmp_path: Path) -> None:
    counts = count(run_of(world, tmp_path))
    assert (counts.attempted, counts.executed, counts.lost, counts.doubled) == (1, 1, 0, 0)


def test_what_is_open_or_missing_is_lost(world: World, tmp_path: Path) -> None:
    chaos = run_of(world, tmp_path)
    change(world, sa.update(execution).values(state="queued"))
    assert count(chaos).lost == 1
    change(world, sa.delete(firing))
    assert count(chaos).lost == 2
    chaos.given.executions.append("0" * 36)
    counts = count(chaos)
    assert (counts.lost, counts.executed) == (3, 0)
    assert any("acknowledged and does not exist" in line for line in counts.problems)


def test_a_second_success_and_a_second_end_are_doubled(world: World, tmp_path: Path) -> None:
    chaos = run_of(world, tmp_path)
    (tried_once,) = world.rows(attempt)
    change(world, sa.insert(attempt).values(**{**tried_once, "fence": tried_once["fence"] + 1}))
    assert count(chaos).doubled == 1
    end = next(row for row in world.rows(event) if row["type"] == "execution.succeeded")
    change(world, sa.insert(event).values(**{**end, "id": world.database.new_id()}))
    assert count(chaos).doubled == 2


def test_an_end_that_was_written_outside_twice_is_reported(world: World, tmp_path: Path) -> None:
    chaos = run_of(world, tmp_path)
    file = tmp_path / "effects" / "lines"
    file.parent.mkdir()
    file.write_text("a 1 begin\na 1 end\na 2 begin\na 2 end\nb 1 begin\nb 1 end\n")
    assert count(chaos).effects_repeated == 1


def test_recovery_is_counted_from_the_harm_that_ended_the_attempt() -> None:
    attempts = [
        tried("hit", "lost", 1, 9),
        tried("hit", "succeeded", 10, 12),
        tried("hit later", "crashed", 4, 6),
        tried("hit later", "succeeded", 7, 8),
        tried("spared", "succeeded", 1, 3),
        tried("never again", "lost", 1, 9),
    ]
    assert recoveries(attempts, [at(5), at(2)]) == [3.0, 10.0]
    assert recoveries(attempts, []) == []


def test_the_table_adds_up_the_runs_of_a_fault_and_a_broker() -> None:
    line = dict.fromkeys(results_table.SUMS, 2) | {
        "fault": "none",
        "broker": "redis",
        "recovery_seconds": {"p50": 1.0, "max": 2.0},
        "violations": [],
        "complaints": [],
    }
    other = line | {"recovery_seconds": {"p50": 3.0, "max": 9.0}, "complaints": ["late"]}
    head, _, row = results_table.markdown([line, other]).splitlines()
    cells = dict(zip(head.split(" | "), row.split(" | "), strict=True))
    assert (cells["runs"], cells["lost"], cells["recovery p50, s"]) == ("2", "4", "2.0")
    assert (cells["recovery max, s"], row.split(" | ")[-1]) == ("9.0", "1 |")

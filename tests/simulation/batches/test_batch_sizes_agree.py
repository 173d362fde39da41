"""A batch is the same as its parts one by one: every scenario leaves the same rows at every batch size, and whether the
worker or the router decides about the events of executions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.batches import scenarios_executions, scenarios_flow_control, scenarios_triggers
from tests.simulation.batches.mutants import MUTANTS, BatchMutant
from tests.simulation.batches.normalised_rows import differences
from tests.simulation.batches.scenarios import SCENARIOS, Scenario
from tests.simulation.batches.stepped_engine import SteppedEngine
from tests.support.thoroughness import thorough
from tests.support.world import on_sqlite

pytest_plugins = ["tests.support.world", "tests.simulation.batches.databases"]

MODULES = (scenarios_triggers, scenarios_flow_control, scenarios_executions)
# Events of a scenario alone, in several batches, and all in one.
SIZES = (1, 7, 100) if thorough() else (1, 7)

States = list[dict[str, list[str]]]


@pytest.fixture
def play(next_url: Callable[[], str], tmp_path: Path) -> Callable[..., States]:
    """Plays a scenario at a batch size in an empty database. Returns the rows of its settled states."""

    def run(scenario: Scenario, size: int, **options: bool) -> States:
        engine = SteppedEngine(next_url(), tmp_path / "home", size, **options, **scenario.settings)
        try:
            scenario.play(engine)
            return engine.states
        finally:
            engine.close()

    return run


class Differs(AssertionError):
    """The rows of a scenario depend on the batch size."""


def check_same(one: States, other: States, what: str) -> None:
    """Fail at the first state that differs."""
    for number, (left, right) in enumerate(zip(one, other, strict=True), 1):
        found = differences(left, right)
        if found:
            raise Differs(f"state {number} {what} (+) is not that at batch size 1 (-)\n{found}")


@pytest.mark.parametrize("name", SCENARIOS)
def test_rows_do_not_depend_on_the_batch_size_and_the_last_ones_not_on_who_sends(
    play: Callable[..., States], name: str
) -> None:
    # A worker that knows no trigger leaves all events to the router.
    one = play(SCENARIOS[name], 1, decides=False)
    assert one, "a scenario compares at least one state"
    played = {size: play(SCENARIOS[name], size) for size in SIZES}
    for size, states in played.items():
        check_same(one, states, f"at batch size {size}")
    by_dispatcher = play(SCENARIOS[name], 7, direct=False)[-1:]
    check_same(by_dispatcher, played[7][-1:], "of a router that sends directly")


@pytest.mark.parametrize("name", [one.name for one in SCENARIOS.values() if one.changes])
def test_rows_do_not_depend_on_what_a_process_remembers(play: Callable[..., States], name: str) -> None:
    one = play(SCENARIOS[name], 1, fresh=True, decides=False)
    for size in SIZES:
        check_same(one, play(SCENARIOS[name], size), f"at batch size {size}, of processes with a memory,")


@on_sqlite
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.mutant.name)
def test_the_comparison_sees_a_mutant(play: Callable[..., States], mutant: BatchMutant) -> None:
    scenario = SCENARIOS[mutant.scenario]
    with mutant.mutant.applied():
        one = play(scenario, 1, fresh=mutant.remembers, decides=False)
        with pytest.raises(Differs):
            check_same(one, play(scenario, 7), "at batch size 7")

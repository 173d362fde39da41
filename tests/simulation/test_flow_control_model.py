"""Compares flow control with its plain model, for any order of the steps of routers, releases, workers and clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.simulation.flow_control_model import FLOWS, Simulation
from tests.support.world import LEASE, World

pytest_plugins = ["tests.support.world"]


def machine(world: World, flows: list[dict[str, Any]]) -> type[RuleBasedStateMachine]:
    """The state machine over one database."""

    class Machine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.simulation = Simulation(world, flows)

        @rule(k=st.text("ab", min_size=1, max_size=3), p=st.sampled_from([0, 0, 0, 300, -300]))
        def emit(self, k: str, p: int) -> None:
            for key in k:
                self.simulation.emit(key, p)

        @precondition(lambda self: self.simulation.pending())
        @rule(index=st.integers(0, 3), router=st.integers(0, 1), killed=st.sampled_from([False] * 4 + [True]))
        def route(self, index: int, router: int, killed: bool) -> None:
            waiting = self.simulation.pending()
            for one in waiting[min(index, len(waiting) - 1) :][:2]:
                self.simulation.route(one, router, killed)

        @rule(which=st.integers(0, 1), killed=st.sampled_from([False] * 4 + [True]))
        def turn(self, which: int, killed: bool) -> None:
            self.simulation.turn(which, killed)

        @rule()
        def claim(self) -> None:
            self.simulation.claim()

        @precondition(lambda self: self.simulation.running)
        @rule(
            index=st.integers(0, 3),
            outcome=st.sampled_from(["succeeded", "succeeded", "failed"]),
            killed=st.sampled_from([False] * 4 + [True]),
        )
        def finish(self, index: int, outcome: str, killed: bool) -> None:
            self.simulation.finish(index, outcome, killed)

        @rule(seconds=st.sampled_from([1, 5, 10, 20, 31]))
        def advance(self, seconds: int) -> None:
            if self.simulation.running and seconds > LEASE:
                self.simulation.lose_workers()
            self.simulation.world.advance(seconds)

        @invariant()
        def limits_hold(self) -> None:
            if hasattr(self, "simulation"):
                self.simulation.check_limits()

        def teardown(self) -> None:
            if hasattr(self, "simulation"):
                self.simulation.check_decisions()
                self.simulation.drain()
                self.simulation.check_decisions()

    return Machine


@pytest.mark.parametrize("name", FLOWS)
def test_flow_control_does_what_the_plain_model_says(memory: World, name: str) -> None:
    run_state_machine_as_test(
        machine(memory, FLOWS[name]),
        settings=settings(
            max_examples=2,
            phases=(Phase.generate, Phase.shrink),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )

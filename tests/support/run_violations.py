"""Ways to break the invariants of runs of agents, I24 and I25, by hand."""

from __future__ import annotations

from collections.abc import Mapping

from functory import step
from functory.engine.database import schema as t
from tests.support.invariant_violations import breaks, change, remove
from tests.support.runs import RunsWorld
from tests.support.world import World


def _run(world: World, *steps: object) -> RunsWorld:
    """A run that has made these steps."""
    runs = RunsWorld(world)
    runs.start()
    for one in steps:
        runs.work(lambda memo, given, one=one: one)
    return runs


@breaks("I24")
def _a_run_that_is_running_and_has_no_step(world: World, ids: Mapping[str, str]) -> None:
    _run(world, step.done())
    change(world, t.run, t.run.c.state == "succeeded", state="running", ended_at=None)


@breaks("I24")
def _a_run_that_waits_for_nothing(world: World, ids: Mapping[str, str]) -> None:
    _run(world, step.ask("May I?"))
    remove(world, t.run_wait, t.run_wait.c.kind == "approval")


@breaks("I24")
def _a_run_that_waits_for_a_question_that_was_answered(world: World, ids: Mapping[str, str]) -> None:
    _run(world, step.ask("May I?"))
    change(world, t.approval, t.approval.c.state == "pending", state="answered")


@breaks("I24")
def _a_run_that_has_ended_at_no_time(world: World, ids: Mapping[str, str]) -> None:
    _run(world, step.done())
    change(world, t.run, t.run.c.state == "succeeded", ended_at=None)


@breaks("I24")
def _a_paused_run_that_cannot_go_on(world: World, ids: Mapping[str, str]) -> None:
    _run(world, step.done())
    change(world, t.run, t.run.c.state == "succeeded", state="paused", ended_at=None)


@breaks("I25")
def _a_run_that_has_lost_a_step(world: World, ids: Mapping[str, str]) -> None:
    _run(world, step.again(), step.done())
    change(world, t.run, t.run.c.state == "succeeded", step=3)


@breaks("I25")
def _a_step_that_is_no_execution_of_its_tree(world: World, ids: Mapping[str, str]) -> None:
    _run(world, step.done())
    change(world, t.run, t.run.c.state == "succeeded", root_id=ids["plain"])

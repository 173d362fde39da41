"""What metrics show of runs: begins, ends with their reason, steps, questions, and how long a person takes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from functory import step
from functory.engine.database.schema import approval, run
from functory.engine.database.schema.agents import APPROVAL_KINDS, RUN_OPEN
from functory.engine.errors import Invalid
from functory.engine.executions.runs.transitions import STOP_REASONS
from functory.engine.maintenance import run_gauges
from functory.engine.telemetry.registry import registry
from tests.support.patience import patient
from tests.support.runs import RunsWorld
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def world(make_world: Callable[..., World]) -> RunsWorld:
    plain = make_world()
    plain.function("pay", "amount")
    return RunsWorld(plain, tools=["pay"], ask_before=["pay"], limits={"steps": 6})


class Counts:
    """How much each counter has grown since this was made."""

    def __init__(self) -> None:
        self._before = self._read()

    @staticmethod
    def _read() -> dict[tuple[str, ...], float]:
        return {
            (sample.name.removeprefix("functory_"), *sample.labels.values()): sample.value
            for family in registry.collect()
            if family.name.startswith(("functory_run", "functory_approval"))
            for sample in family.samples
            if not sample.name.endswith(("_created", "_bucket"))
        }

    def grown(self, prefix: str) -> dict[tuple[str, ...], float]:
        found = {key: value - self._before.get(key, 0) for key, value in self._read().items()}
        return {key: value for key, value in found.items() if key[0].startswith(prefix) and value}


def shown(world: RunsWorld) -> dict[str, Any]:
    with world.world.database.read() as tx:
        return dict(run_gauges.values(tx))


def asking(memo: Any, given: Any) -> Any:
    return step.ask("go on?", choices=["yes"]) if given is None else step.done(given["decision"])


def test_a_run_is_counted_when_it_begins_for_each_step_and_when_it_ends(world: RunsWorld) -> None:
    counts = Counts()
    world.start()
    assert counts.grown("runs_") == {("runs_started_total", "solve"): 1}
    world.work(lambda memo, given: step.again({"n": 1}) if "n" not in memo else step.done(1))
    world.work(lambda memo, given: step.done(1))
    assert counts.grown("runs_ended") == {("runs_ended_total", "solve", "succeeded", "none"): 1}
    assert counts.grown("run_steps") == {("run_steps_total", "start"): 1, ("run_steps_total", "again"): 1}


def test_a_stopped_run_is_counted_with_its_reason(world: RunsWorld) -> None:
    counts = Counts()
    world.start()
    while world.work(lambda memo, given: step.again({"n": memo.get("n", 0) + 1})):
        pass
    ((key, number),) = counts.grown("runs_ended").items()
    assert key[:3] == ("runs_ended_total", "solve", "stopped") and number == 1
    assert key[3] in STOP_REASONS


def test_what_is_not_committed_is_not_counted(world: RunsWorld) -> None:
    counts = Counts()
    world.start()
    with pytest.raises(Invalid):
        world.start("")
    with pytest.raises(RuntimeError), world.world.database.write() as tx:
        from functory.engine.executions.runs import begin

        begin.of_agent(tx, "solve", "a goal", world.world.settings, author="ada")
        raise RuntimeError
    assert counts.grown("runs_started") == {("runs_started_total", "solve"): 1}


def test_an_answer_is_counted_once_with_the_time_that_the_person_took(world: RunsWorld) -> None:
    counts = Counts()
    world.start()
    world.work(asking)
    assert counts.grown("approvals_") == {("approvals_requested_total", "ask"): 1}
    with world.world.database.write() as tx:
        tx.execute(sa.update(approval).values(requested_at=tx.now - timedelta(seconds=90)))
    assert shown(world)["runs"] == dict.fromkeys(RUN_OPEN, 0) | {"waiting_person": 1}
    assert shown(world)["approvals_pending"] == dict.fromkeys(APPROVAL_KINDS, 0) | {"ask": 1}
    assert 90 <= shown(world)["approval_oldest_seconds"]["ask"] < 90 + patient(30)
    (question,) = world.runs.questions()
    world.runs.answer(question["id"], "yes", author="ada")
    assert counts.grown("approvals_decided") == {("approvals_decided_total", "ask", "answered"): 1}
    seconds = counts.grown("approval_decision_seconds")
    assert seconds["approval_decision_seconds_count", "ask"] == 1
    # A difference of two sums.
    assert 89.9 < seconds["approval_decision_seconds_sum", "ask"] < 90 + patient(30)
    assert shown(world)["approvals_pending"] == dict.fromkeys(APPROVAL_KINDS, 0)
    assert shown(world)["approval_oldest_seconds"] == dict.fromkeys(APPROVAL_KINDS, 0)


@pytest.mark.parametrize("outcome", ["expired", "withdrawn"])
def test_a_question_that_no_person_has_decided_has_no_time_of_a_person(
    world: RunsWorld, outcome: str
) -> None:
    counts = Counts()
    id_ = world.start()
    world.work(asking)
    if outcome == "expired":
        with world.world.database.write() as tx:
            tx.execute(sa.update(approval).values(expires_at=tx.now))
        assert world.runs.expire_questions() == 1
    else:
        world.runs.cancel(id_, author="ada")
        assert counts.grown("runs_ended") == {("runs_ended_total", "solve", "cancelled", "none"): 1}
    assert counts.grown("approvals_decided") == {("approvals_decided_total", "ask", outcome): 1}
    assert counts.grown("approval_decision_seconds") == {}


def test_a_tool_is_a_question_of_its_own_kind(world: RunsWorld) -> None:
    counts = Counts()
    world.start()
    calls = [{"name": "pay", "arguments": {"amount": 5}}, {"name": "pay", "arguments": {"amount": 6}}]
    world.work(lambda memo, given: step.tools(calls))
    assert counts.grown("approvals_requested") == {("approvals_requested_total", "tool"): 2}
    first, second = world.runs.questions()
    world.runs.approve(first["id"], arguments={"amount": 1}, author="ada")
    world.runs.reject(second["id"], author="ada")
    assert counts.grown("approvals_decided") == {
        ("approvals_decided_total", "tool", "edited"): 1,
        ("approvals_decided_total", "tool", "rejected"): 1,
    }


def test_ended_runs_are_in_no_gauge(world: RunsWorld) -> None:
    for _ in range(2):
        world.start()
    assert shown(world)["runs"]["running"] == 2
    world.work(lambda memo, given: step.done(1))
    assert shown(world)["runs"] == dict.fromkeys(RUN_OPEN, 0)
    with world.world.database.read() as tx:
        assert tx.scalar(sa.select(sa.func.count()).select_from(run)) == 2

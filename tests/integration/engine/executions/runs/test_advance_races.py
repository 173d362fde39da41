"""What happens to a run at the same time: children that end together, people who decide together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from functory import step
from functory.engine.errors import Conflict
from functory.engine.executions.runs.service import Runs
from tests.support.patience import patient
from tests.support.runs import RunsWorld
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

AT_ONCE = 6


def together(*acts: Callable[[], Any]) -> list[Any]:
    """Run ``acts`` at the same time. Returns their results, or their errors."""
    barrier = Barrier(len(acts))

    def one(act: Callable[[], Any]) -> Any:
        barrier.wait(patient(30))
        try:
            return act()
        except Conflict as error:
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(one, acts))


@pytest.fixture
def worlds(make_world: Callable[..., World]) -> list[World]:
    """Processes with one database."""
    first = make_world()
    return [first, *(make_world(clock=first.clock) for _ in range(AT_ONCE - 1))]


def test_children_that_end_together_lead_to_one_step(worlds: list[World]) -> None:
    worlds[0].function("child")
    world = RunsWorld(worlds[0], tools=["child"])
    for _ in range(10):
        run = world.start()

        def code(memo: Any, given: Any) -> Any:
            if given is None:
                return step.children([("child", {})] * AT_ONCE)
            return step.done(len(given["results"]))

        world.work(code)
        claims = worlds[0].worker.claim_any(AT_ONCE)
        together(
            *(
                lambda one=one, claim=claim: one.finish(claim, result=1)
                for one, claim in zip(worlds, claims, strict=True)
            )
        )
        assert world.get(run)["step"] == 2
        world.work(code)
        assert world.get(run)["result"] == AT_ONCE
    world.check()


def test_one_of_six_deciders_wins_and_the_run_goes_on_once(worlds: list[World]) -> None:
    world = RunsWorld(worlds[0])
    run = world.start()

    def code(memo: Any, given: Any) -> Any:
        return step.ask("Who?") if given is None else step.done(given["answer"])

    world.work(code)
    (question,) = world.runs.questions()
    services = [Runs(one.database, one.settings) for one in worlds]
    found = together(
        *(
            lambda service=service, name=f"p{number}": service.answer(question["id"], name, author=name)
            for number, service in enumerate(services)
        )
    )
    won = [one for one in found if not isinstance(one, Conflict)]
    assert len(won) == 1 and len(found) == AT_ONCE
    assert world.get(run)["step"] == 2
    world.work(code)
    assert world.get(run)["result"] == won[0]["answer"]
    world.check()


def test_a_run_that_is_cancelled_while_its_children_end_is_cancelled_once(worlds: list[World]) -> None:
    worlds[0].function("child")
    world = RunsWorld(worlds[0], tools=["child"])
    others = [Runs(one.database, one.settings) for one in worlds]
    for number in range(10):
        run = world.start()
        world.work(lambda memo, given: step.children([("child", {})] * (AT_ONCE - 1)))
        claims = worlds[0].worker.claim_any(AT_ONCE - 1)
        place = number % AT_ONCE
        acts: list[Callable[[], Any]] = [
            lambda one=one, claim=claim: one.finish(claim, result=1)
            for one, claim in zip(worlds[1:], claims, strict=True)
        ]
        acts.insert(place, lambda run=run: others[0].cancel(run, author="ada"))
        together(*acts)
        while world.work(lambda memo, given: step.done()):
            pass
        assert world.get(run)["state"] == "cancelled"
    world.check()

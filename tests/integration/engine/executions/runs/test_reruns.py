"""Reruns: a run that has ended is repeated, with the answers that it got, and without doing again what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from functory import step
from functory.engine.agents import run_comparison
from functory.engine.errors import Conflict, Invalid
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.executions.runs.reruns import Reruns
from tests.support.runs import RunsWorld
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def world(make_world: Callable[..., World]) -> RunsWorld:
    plain = make_world()
    plain.functions.save("def pay(to):\n    return None\n", hosts=["bank.example.com"])
    plain.functions.save("def look(at):\n    return None\n")
    return RunsWorld(plain, tools=["pay", "look"])


def clerk(prompt: str = "Whom to pay?") -> Callable[[Any, Any], Any]:
    """Asks a model, pays, looks, and ends with what both have said."""

    def code(memo: Any, given: Any) -> Any:
        if given is None:
            return step.model(f"{prompt} {memo['goal']}")
        if given["kind"] == "model":
            calls = [
                {"name": "pay", "arguments": {"to": given["text"]}},
                {"name": "look", "arguments": {"at": given["text"]}},
            ]
            return step.tools(calls, memo={**memo, "who": given["text"]})
        if given["kind"] == "tools":
            return step.done([memo["who"], *[one.get("value") or one["error"] for one in given["results"]]])
        return step.fail(str(given))

    return code


def run_to_end(world: RunsWorld, run: str, code: Any, *answers: str, **tools: Any) -> dict[str, Any]:
    """Play a run until it has ended."""
    left = list(answers)
    for _ in range(20):
        world.work(code, **tools)
        if world.get(run)["state"] == "waiting_model":
            assert world.answer(left.pop(0)) == 1
        if world.get(run)["ended_at"] is not None:
            break
    assert left == []
    world.check()
    return world.get(run)


def paying(paid: list[str]) -> dict[str, Any]:
    def pay(to: str) -> str:
        paid.append(to)
        return f"paid {to}"

    return {"pay": pay, "look": lambda at: f"saw {at}"}


@pytest.fixture
def recorded(world: RunsWorld) -> str:
    run = world.start("rent")
    ended = run_to_end(world, run, clerk(), "bob", **paying([]))
    assert ended["result"] == ["bob", "paid bob", "saw bob"]
    return run


def rerun(world: RunsWorld, source: str, **options: Any) -> str:
    return Reruns(world.world.database, world.world.settings).start(source, author="ada", **options)["id"]


def test_the_same_code_asks_no_model_and_does_nothing_again(world: RunsWorld, recorded: str) -> None:
    paid: list[str] = []
    again = run_to_end(world, rerun(world, recorded, models="recorded"), clerk(), **paying(paid))
    assert (again["state"], again["result"]) == ("succeeded", ["bob", "paid bob", "saw bob"])
    assert (paid, again["spent"]["calls"], again["spent"]["usd_spent"]) == ([], 0, 0)
    assert again["id"] != recorded and again["root_id"] == again["id"]
    assert run_comparison.verdict_of(world.get(recorded), again) == "same"


def test_a_changed_prompt_is_shown_beside_the_recorded_one_and_costs_nothing(
    world: RunsWorld, recorded: str
) -> None:
    again = run_to_end(world, rerun(world, recorded, models="recorded"), clerk("Who gets money?"))
    assert again["state"] == "failed"
    differs = again["detail"]["differs"]
    assert "Who gets money? rent" in differs["asked"]
    call = world.calls.get(differs["call"])
    assert "Whom to pay? rent" in str(call["request"])
    assert run_comparison.verdict_of(world.get(recorded), again) == "broken"


def test_a_live_rerun_asks_the_model_and_uses_no_tool_that_acts_in_another_way(
    world: RunsWorld, recorded: str
) -> None:
    paid: list[str] = []
    again = run_to_end(world, rerun(world, recorded), clerk("Who gets money?"), "eve", **paying(paid))
    assert paid == []
    who, refused, seen = again["result"]
    assert (who, seen) == ("eve", "saw eve")
    assert refused["type"] == "NotRecorded"
    assert run_comparison.verdict_of(world.get(recorded), again) == "differs"
    really = run_to_end(world, rerun(world, recorded, tools="live"), clerk("Who?"), "eve", **paying(paid))
    assert (paid, really["result"][1]) == (["eve"], "paid eve")


def test_a_fork_begins_at_a_step_with_what_that_was_given(world: RunsWorld, recorded: str) -> None:
    fork = rerun(world, recorded, step=2, memo={"note": "forked"})
    paid: list[str] = []
    again = run_to_end(world, fork, clerk(), **paying(paid))
    assert (again["step"], again["result"], paid) == (2, ["bob", "paid bob", "saw bob"], [])
    assert again["memo"]["note"] == "forked"
    assert world.steps(fork) == ["model", "tools"]


def test_a_fork_may_ask_another_model(world: RunsWorld, recorded: str) -> None:
    given = {"adapter": "script", "provider_model": "y", "price_in": 1, "price_out": 2}
    world.models.add("large", given, author="ada")
    again = run_to_end(world, rerun(world, recorded, model="large"), clerk(), "cy", **paying([]))
    assert again["result"][0] == "cy"
    (call,) = world.calls.list(root_id=again["id"])
    assert call["model"] == "large"


def test_the_same_question_gets_the_answers_in_their_order_and_a_person_is_not_asked_again(
    world: RunsWorld,
) -> None:
    def code(memo: Any, given: Any) -> Any:
        said = [*memo.get("said", []), *([] if given is None else [given["answer"]])]
        if len(said) == 2:
            return step.done(said)
        return step.ask("Which one?", memo={**memo, "said": said})

    run = world.start()
    for answer in ("first", "second"):
        world.work(code)
        (question,) = world.runs.questions()
        world.runs.answer(question["id"], answer, author="bob")
    world.work(code)
    assert world.get(run)["result"] == ["first", "second"]
    again = run_to_end(world, rerun(world, run), code)
    assert again["result"] == ["first", "second"]


def test_a_rerun_that_asks_no_person_ends_at_a_new_question(world: RunsWorld, recorded: str) -> None:
    again = run_to_end(
        world, rerun(world, recorded, people="recorded"), lambda memo, given: step.ask("May I?")
    )
    assert (again["state"], world.runs.questions()) == ("failed", [])
    assert "asks a person" in again["detail"]["message"]


def test_a_failed_tool_fails_again_and_another_agent_is_not_started(world: RunsWorld) -> None:
    world.agents.update("solve", {"agents": ["solve"]}, author="ada")

    def code(memo: Any, given: Any) -> Any:
        if memo["goal"] == "below":
            return step.done("done below")
        if given is None:
            return step.tools([{"name": "pay", "arguments": {"to": "x"}}])
        if given["kind"] == "tools":
            return step.children([("agent:solve", {"goal": "below"})])
        if given["kind"] == "children":
            return step.done(given["results"][0]["value"])
        return step.fail(str(given))

    def broken(to: str) -> AttemptResult:
        return AttemptResult("failed", error={"type": "ValueError", "message": "no money"}, retryable=False)

    run = world.start("above")
    for _ in range(6):
        world.work(code, pay=broken)
    assert world.get(run)["result"] == "done below"
    before = len(world.runs.list())
    again = run_to_end(world, rerun(world, run), code)
    assert (again["result"], len(world.runs.list())) == ("done below", before + 1)


def test_only_what_has_ended_and_was_made_is_repeated(world: RunsWorld, recorded: str) -> None:
    with pytest.raises(Invalid, match="has no step 9"):
        rerun(world, recorded, step=9)
    with pytest.raises(Conflict, match="only a run that has ended"):
        rerun(world, world.start())


def test_a_summary_says_how_many_have_passed_and_what_it_cost(world: RunsWorld, recorded: str) -> None:
    again = run_to_end(world, rerun(world, recorded, models="recorded"), clerk("Who?"))
    found = run_comparison.summary([world.get(recorded), again])
    assert (found["runs"], found["passed"], found["pass_rate"], found["calls"]) == (2, 1, 0.5, 1)
    assert run_comparison.summary([])["pass_rate"] == 0.0

"""Tools that a run uses only when a person agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from functory import step
from functory.engine.errors import Conflict, Invalid
from tests.support.runs import RunsWorld
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

PAY = {"name": "pay", "arguments": {"to": "bob", "amount": 5}}
LOOK = {"name": "look", "arguments": {}}


@pytest.fixture
def world(make_world: Callable[..., World]) -> RunsWorld:
    plain = make_world()
    plain.functions.save("def pay(to, amount):\n    return None\n")
    plain.function("look")
    return RunsWorld(plain, tools=["pay", "look"], ask_before=["pay"])


def using(*calls: Any) -> Callable[[Any, Any], Any]:
    """A step function that uses these tools once, and ends with their results."""

    def code(memo: Any, given: Any) -> Any:
        return step.tools(calls) if given is None else step.done(given["results"])

    return code


def pay(to: str, amount: int) -> str:
    return f"paid {amount} to {to}"


def test_a_tool_runs_when_it_is_approved_and_the_others_at_once(world: RunsWorld) -> None:
    run = world.start()
    code = using(PAY, LOOK)
    world.work(code)
    assert world.get(run)["state"] == "waiting_person"
    assert world.work(code, look=lambda: "seen") == 1
    (question,) = world.runs.questions()
    assert (question["kind"], question["payload"]["tool"]) == ("tool", "pay")
    assert question["payload"]["arguments"] == {"to": "bob", "amount": 5}
    world.check()
    with pytest.raises(Invalid, match="approved or rejected"):
        world.runs.answer(question["id"], "yes", author="ada")
    world.runs.approve(question["id"], author="ada")
    assert world.get(run)["state"] == "waiting_children"
    world.check()
    with pytest.raises(Conflict, match="approved by ada"):
        world.runs.reject(question["id"], author="bob")
    world.work(code, pay=pay)
    world.work(code)
    assert [result["value"] for result in world.get(run)["result"]] == ["paid 5 to bob", "seen"]
    world.check()


def test_what_a_person_has_changed_is_what_runs(world: RunsWorld) -> None:
    run = world.start()
    code = using(PAY)
    world.work(code)
    (question,) = world.runs.questions()
    with pytest.raises(Invalid, match="does not fit"):
        world.runs.approve(question["id"], arguments={"to": "bob"}, author="ada")
    world.runs.approve(question["id"], arguments={"to": "bob", "amount": 1}, author="ada")
    world.work(code, pay=pay)
    world.work(code)
    assert world.get(run)["result"][0]["value"] == "paid 1 to bob"
    assert world.runs.question(question["id"])["state"] == "edited"


@pytest.mark.parametrize("how", ["rejected", "expired"])
def test_a_tool_that_is_not_allowed_has_an_error_as_its_result(world: RunsWorld, how: str) -> None:
    run = world.start()
    code = using(PAY, LOOK)
    world.work(code)
    world.work(code, look=lambda: "seen")
    (question,) = world.runs.questions()
    if how == "rejected":
        world.runs.reject(question["id"], feedback="too expensive", author="ada")
    else:
        world.world.advance(8 * 86_400)
        world.runs.expire_questions()
    assert world.work(code, pay=pay) == 1
    paid, seen = world.get(run)["result"]
    assert (paid["ok"], paid["error"]["state"], seen["ok"]) == (False, how, True)
    assert how == "expired" or paid["error"]["message"] == "too expensive"
    world.check()


def test_a_rule_holds_for_the_same_values_and_for_this_run(world: RunsWorld) -> None:
    calls = iter([PAY, PAY, {"name": "pay", "arguments": {"to": "bob", "amount": 500}}, None])

    def code(memo: Any, given: Any) -> Any:
        following = next(calls)
        return step.done() if following is None else step.tools([following])

    run = world.start()
    world.work(code)
    (question,) = world.runs.questions()
    with pytest.raises(Invalid, match="no argument 'iban'"):
        world.runs.approve(question["id"], always=["iban"], author="ada")
    world.runs.approve(question["id"], always=["to", "amount"], author="ada")
    world.work(code, pay=pay)
    world.work(code)
    assert world.runs.questions() == []
    world.work(code, pay=pay)
    world.work(code)
    (question,) = world.runs.questions()
    assert question["payload"]["arguments"]["amount"] == 500
    assert world.get(run)["state"] == "waiting_person"
    other = world.start()
    world.work(using(PAY))
    assert world.get(other)["state"] == "waiting_person"
    world.check()


def test_a_tool_with_grants_acts_and_one_without_does_not(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.functions.save("def send(to):\n    return None\n", hosts=["example.org"])
    plain.function("look")
    world = RunsWorld(plain, tools=["send", "look"], ask_before=["acts"])
    world.start()
    world.work(using({"name": "send", "arguments": {"to": "x"}}, LOOK))
    (question,) = world.runs.questions()
    assert (question["payload"]["tool"], question["payload"]["effect"]) == ("send", "acts")


def test_a_person_has_seen_the_version_that_runs(world: RunsWorld) -> None:
    world.start()
    world.work(using(PAY))
    world.world.functions.save("def pay(to, amount):\n    return 'another one'\n")
    (question,) = world.runs.questions()
    world.runs.approve(question["id"], author="ada")
    (claim,) = world.world.worker.claim_any(1)
    assert (claim.row.function, claim.row.version) == ("pay", question["payload"]["version"])


def test_a_run_that_is_cancelled_withdraws_its_questions(world: RunsWorld) -> None:
    run = world.start()
    world.work(using(PAY, LOOK))
    world.runs.cancel(run, author="ada")
    assert world.runs.questions() == []
    assert world.work(using(PAY)) == 0
    world.check()


def test_what_a_dependency_or_an_operator_adds_counts(make_world: Callable[..., World]) -> None:
    plain = make_world()
    plain.functions.save("def send(to):\n    return None\n", hosts=["example.org"])
    plain.functions.save("def wrap(to):\n    return send(to)\n", dependencies=["send"])
    plain.function("plain")
    plain.grant_approvals.allow("plain", None, "host", "example.org", reason="asked for", author="ada")
    world = RunsWorld(plain, tools=["wrap", "plain"], ask_before=["acts"])
    world.start()
    world.work(using({"name": "wrap", "arguments": {"to": "x"}}, {"name": "plain", "arguments": {}}))
    asked = {row["payload"]["tool"]: row["payload"]["effect"] for row in world.runs.questions()}
    assert asked == {"wrap": "acts", "plain": "acts"}


def test_consent_for_what_is_no_tool_is_refused_at_once(world: RunsWorld) -> None:
    with pytest.raises(Invalid, match="no tool of the agent"):
        world.agents.update("solve", {"ask_before": ["payy"]}, author="ada")

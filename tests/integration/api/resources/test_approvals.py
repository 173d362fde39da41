"""Over HTTP: what runs and proposals ask people is listed, read by those who may, and decided once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from functory import step
from functory.client.functory import Functory
from functory.engine.database import short_ids
from tests.support.api_client import ApiClient
from tests.support.runs import RunsWorld
from tests.support.two_teams import propose
from tests.support.world import names, world_beside

pytest_plugins = ["tests.support.world"]

HIDDEN = {"redacted": "payload:read"}
PAY = {"name": "pay", "arguments": {"to": "mango", "amount": 5}}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    return ApiClient(engine)


@pytest.fixture
def runs(engine: Functory) -> Iterator[RunsWorld]:
    """Runs in the engine's database that need consent for the tool ``pay``; the test plays their steps."""
    with world_beside(engine) as world:
        world.functions.save("def pay(to, amount):\n    return None\n")
        yield RunsWorld(world, tools=["pay"], ask_before=["pay"])


def code(memo: Any, given: Any) -> Any:
    """Asks a person when the goal says so, else uses the tool; ends with what comes of it."""
    if given is not None:
        return step.done(given)
    if "ask" in memo["goal"]:
        return step.ask("which mango?", choices=["red mango", "blue mango"])
    return step.tools([PAY])


def pay(to: str, amount: int) -> str:
    return f"paid {amount} to {to}"


def asked(runs: RunsWorld, goal: str = "pay it") -> tuple[str, str]:
    """Start a run that asks. Returns its id and that of its question."""
    run = runs.start(goal)
    runs.work(code)
    (question,) = runs.get(run)["questions"]
    return run, question["id"]


def test_an_operator_lets_a_run_use_a_tool_with_other_arguments(api: ApiClient, runs: RunsWorld) -> None:
    run, id_ = asked(runs)
    with api.as_("operator", name="eve", rights=["payload:read"]):
        found = api.get(f"/approvals/{id_}")
        assert (found["kind"], found["state"], found["run_id"], found["agent"]) == (
            "tool",
            "pending",
            run,
            "solve",
        )
        assert found["payload"]["arguments"] == PAY["arguments"]
        wrong: list[Any] = [
            {"arguments": {"to": "bob"}},
            {"always": ["iban"]},
        ]
        for body in wrong:
            api.post(f"/approvals/{id_}:approve", body, 400)
        api.post(f"/approvals/{id_}:approve", {"colour": 1}, 422)
        api.post(f"/approvals/{id_}:answer", {"answer": "yes"}, 400)
        body = {"arguments": {"to": "mango", "amount": 1}, "always": ["to"]}
        done = api.post(f"/approvals/{id_}:approve", body)
    assert (done["state"], done["decided_by"], done["answer"]) == ("edited", "eve", body["arguments"])
    runs.work(code, pay=pay)
    runs.work(code)
    assert runs.get(run)["result"]["results"][0]["value"] == "paid 1 to mango"
    assert runs.get(run)["allowed"] == [{"tool": "pay", "arguments": {"to": "mango"}}]
    (entry,) = api.get("/audit", action="approval.*")["items"]
    assert (entry["action"], entry["author"], entry["subject"]) == ("approval.approve", "eve", id_)


def test_a_question_is_answered_with_one_of_its_choices(api: ApiClient, runs: RunsWorld) -> None:
    run, id_ = asked(runs, "ask it")
    assert (
        "red mango, blue mango" in api.post(f"/approvals/{id_}:answer", {"answer": "a pear"}, 400)["detail"]
    )
    with api.as_("operator"):
        # Who may not read what is asked does not decide it.
        for verb in ("approve", "reject", "answer"):
            refused = api.post(f"/approvals/{id_}:{verb}", {"answer": "red mango"}, 403)
            assert refused["needs"] == "payload:read" and "mango" not in str(refused)
    with api.as_("operator", rights=["payload:read"]):
        api.post(f"/approvals/{id_}:approve", {}, 400)
        api.post(f"/approvals/{id_}:answer", {}, 422)
        done = api.post(f"/approvals/{id_}:answer", {"answer": "red mango", "feedback": "as usual"})
        assert (done["state"], done["answer"], done["feedback"]) == ("answered", "red mango", "as usual")
    runs.work(code)
    result = runs.get(run)["result"]
    assert (result["answer"], result["feedback"], result["by"]) == ("red mango", "as usual", "ada")


def test_the_second_decider_gets_who_decided_and_when(api: ApiClient, runs: RunsWorld) -> None:
    _, id_ = asked(runs)
    with api.as_("operator", name="eve", rights=["payload:read"]):
        api.post(f"/approvals/{id_}:reject", {"feedback": "too expensive"})
    found = api.get(f"/approvals/{id_}")
    for verb in ("approve", "reject"):
        problem = api.post(f"/approvals/{id_}:{verb}", {}, 409)
        assert problem["title"] == f"question {id_} is rejected by eve"
        assert (problem["decided_by"], problem["decided_at"]) == ("eve", found["decided_at"])
    assert found == api.get(f"/approvals/{id_}")


def test_of_many_deciders_one_decides(api: ApiClient, engine: Functory, runs: RunsWorld) -> None:
    run, id_ = asked(runs)
    statuses: list[int] = []

    def decide(number: int) -> None:
        client = ApiClient(engine)
        with client.as_("operator", name=f"person-{number}", rights=["payload:read"]):
            verb = "approve" if number % 2 else "reject"
            statuses.append(client.answer("POST", f"/approvals/{id_}:{verb}", {}).status_code)

    people = [threading.Thread(target=decide, args=(number,)) for number in range(6)]
    for one in people:
        one.start()
    for one in people:
        one.join()
    assert sorted(statuses) == [200, 409, 409, 409, 409, 409]
    runs.work(code, pay=pay)
    runs.work(code)
    assert runs.get(run)["state"] == "succeeded"
    runs.check()


def test_questions_of_runs_and_of_proposals_are_one_list(
    api: ApiClient, engine: Functory, runs: RunsWorld
) -> None:
    run, tool = asked(runs)
    _, question = asked(runs, "ask it")
    about = propose(engine, "fresh", "a pear")
    waiting = [tool, question, about["approval"]]
    first = api.get("/approvals", state="pending", limit=2)
    rest = api.get("/approvals", state="pending", limit=2, before=first["next"])
    # Who waits longest comes first; of all others the newest.
    assert names(first["items"] + rest["items"], "id") == waiting and rest["next"] is None
    assert names(api.get("/approvals")["items"], "id") == waiting[::-1]
    assert names(api.get("/approvals", run=run)["items"], "id") == [tool]
    for kind, id_ in zip(("tool", "ask", "proposal"), waiting, strict=True):
        assert names(api.get("/approvals", kind=kind)["items"], "id") == [id_]
    (found,) = api.get("/approvals", kind="proposal")["items"]
    assert (found["run_id"], found["proposal_id"], found["function"]) == (None, about["proposal"], "fresh")
    api.post(f"/approvals/{about['approval']}:approve", {"arguments": {"w": 1}}, 400)
    api.post(f"/approvals/{about['approval']}:answer", {"answer": 1}, 400)
    assert api.post(f"/approvals/{about['approval']}:approve")["state"] == "approved"
    assert api.get(f"/proposals/{about['proposal']}")["state"] == "active"
    assert names(api.get("/approvals", state="approved")["items"], "id") == [about["approval"]]
    for wrong in ({"state": "lost"}, {"kind": "lost"}, {"colour": "red"}, {"before": first["next"]}):
        api.get("/approvals", status=400, **wrong)
    assert api.get(f"/approvals/{short_ids.short(tool)}")["id"] == tool
    api.get(f"/approvals/{run}", status=404)


def test_goals_questions_arguments_and_answers_are_payloads(
    api: ApiClient, engine: Functory, runs: RunsWorld
) -> None:
    _, tool = asked(runs, "pay the mango")
    _, question = asked(runs, "ask for a mango")
    about = propose(engine, "fresh", "mango")
    api.post(f"/approvals/{question}:answer", {"answer": "red mango", "feedback": "mango"})
    ids = (tool, question, about["approval"])
    whole = [api.get(f"/approvals/{id_}") for id_ in ids]
    assert all("mango" in str(one) for one in whole)
    with api.as_("viewer"):
        shown = api.get(f"/approvals/{tool}")
        assert (shown["goal"], shown["payload"]["arguments"]) == (HIDDEN, HIDDEN)
        assert (shown["payload"]["tool"], shown["payload"]["effect"]) == ("pay", "none")
        for path in ("/approvals", *(f"/approvals/{id_}" for id_ in ids)):
            assert "mango" not in api.answer("GET", path).text
        for verb in ("approve", "reject", "answer"):
            assert api.post(f"/approvals/{tool}:{verb}", {"answer": 1}, 403)["needs"] == "operate"
    with api.as_("viewer", rights=["payload:read"]):
        assert [api.get(f"/approvals/{id_}") for id_ in ids] == whole


def test_questions_follow_the_labels_of_the_function_that_the_run_or_the_proposal_is_about(
    api: ApiClient, engine: Functory, runs: RunsWorld
) -> None:
    _, theirs = asked(runs)
    ours = propose(engine, "ours", "ours", labels=["team:a"])["approval"]
    propose(engine, "other", "other", labels=["team:b"])
    with api.as_("author", labels=["team:a"]):
        assert names(api.get("/approvals")["items"], "id") == [ours]
        api.get(f"/approvals/{theirs}", status=404)
        for verb in ("approve", "reject", "answer"):
            api.post(f"/approvals/{theirs}:{verb}", {"answer": 1} if verb == "answer" else {}, 404)
        assert api.post(f"/approvals/{ours}:reject", {"feedback": "no"})["state"] == "rejected"
    assert api.get(f"/approvals/{theirs}")["state"] == "pending"

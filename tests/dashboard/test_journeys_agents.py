"""Journeys through runs of agents and their questions, once with the mouse and once with the keyboard alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from pydantic import SecretStr

from tests.support.dashboard import Deployment, dashboard_server
from tests.support.dashboard_agents import add_clerk, ended, question_of, start
from tests.support.dashboard_hands import Hands
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PASSWORD = "a password that is long"
REFUND, ASK = "refund the broken teapot", "ask before the answer is sent"


@pytest.fixture(scope="module")
def server(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A server whose roles run, with an agent that asks before it pays."""
    folder = tmp_path_factory.mktemp("agents")
    with dashboard_server(folder) as deployment:
        add_clerk(deployment.functory, folder)
        yield deployment


@pytest.fixture
def hands(hands: Hands, server: Deployment) -> Iterator[Hands]:
    yield hands
    # A test that failed leaves no question to the next one.
    for run in server.functory.runs.list(state="open"):
        server.functory.runs.cancel(run["id"], author="ada")


def test_the_arguments_of_a_tool_are_edited_and_approved(server: Deployment, hands: Hands) -> None:
    screen, functory = hands.screen, server.functory
    run = start(functory, REFUND)
    question_of(functory, run)
    screen.go("/approvals").ready()
    screen.shows("May it run")
    screen.shows("acts outside")
    hands.use("E", "Edit…")
    # What does not fit the tool is said, and nothing is decided.
    hands.edit("Arguments", '{"order": "order-4711", "amount": "much"}')
    hands.push("Approve these")
    screen.shows("amount")
    screen.page.locator("dialog .fault").wait_for()
    screen.expected = ["400"]
    assert functory.runs.get(run)["state"] == "waiting_person"
    hands.edit("Arguments", json.dumps({"order": "order-4711", "amount": 5.5, "note": "half of it"}))
    hands.push("Approve these")
    screen.shows("No question waits")
    assert ended(functory, run)["result"] == "paid back 5.5 for order-4711"


def test_a_tool_is_approved_for_the_rest_of_its_run(server: Deployment, hands: Hands) -> None:
    screen, functory = hands.screen, server.functory
    run = start(functory, REFUND)
    question = question_of(functory, run)
    screen.go(f"/runs/{run}").ready()
    screen.shows("May it run")
    hands.use("A", "Approve")
    screen.shows("is not undone by itself")
    if hands.keys:
        # One of the choices is a stop of Tab; the arrows choose.
        hands.reach(screen.page.get_by_label("ask again each time"))
        screen.press("ArrowDown")
        hands.reach(screen.page.get_by_label("amount"))
        screen.press("Space")
    else:
        screen.page.get_by_label("do not ask for").check()
        screen.page.get_by_label("amount").uncheck()
    hands.push("Approve")
    ended(functory, run)
    assert functory.runs.question(question["id"])["state"] == "approved"
    (rule,) = functory.runs.get(run)["allowed"]
    assert set(rule["arguments"]) == {"order", "note"}
    screen.shows("succeeded")


def test_a_question_is_answered_with_one_of_its_choices(server: Deployment, hands: Hands) -> None:
    screen, functory = hands.screen, server.functory
    run = start(functory, ASK)
    question_of(functory, run)
    screen.go("/approvals").ready()
    screen.shows("Send this answer?")
    if hands.keys:
        screen.press("A")
        screen.page.get_by_label("yes").wait_for()
    else:
        hands.push("yes", exact=True)
    hands.write("Words with it, for the run", "and be kind")
    hands.push("Answer")
    screen.shows("No question waits")
    assert ended(functory, run)["result"] == "yes"


def test_a_question_is_rejected_with_the_reason(server: Deployment, hands: Hands) -> None:
    screen, functory = hands.screen, server.functory
    run = start(functory, REFUND)
    question_of(functory, run)
    screen.go("/approvals").ready()
    hands.use("D", "Reject…")
    screen.shows("The tool does not run")
    hands.write("Why, for the run", "the warranty is over")
    hands.push("Reject")
    screen.shows("No question waits")
    assert ended(functory, run)["result"] == "the warranty is over"
    screen.go("/approvals?tab=decided").ready()
    screen.shows("the warranty is over")


def test_a_question_that_another_person_has_decided_says_so(server: Deployment, hands: Hands) -> None:
    screen, functory = hands.screen, server.functory
    run = start(functory, REFUND)
    question = question_of(functory, run)
    screen.go("/approvals").ready()
    hands.use("A", "Approve")
    screen.shows("ask again each time")
    functory.runs.reject(question["id"], author="bob")
    hands.push("Approve")
    screen.expected = ["409"]
    screen.shows("is rejected by bob")
    # The dialog stays when its question has left the list.
    screen.page.get_by_text("No question waits").wait_for()
    screen.shows("is rejected by bob")
    hands.push("Close")
    screen.shows("No question waits")


def test_a_proposed_version_is_approved(server: Deployment, hands: Hands) -> None:
    screen, functory = hands.screen, server.functory
    name = "double_by_keys" if hands.keys else "double_by_mouse"
    source = f"def {name}(n: int) -> int:\n    return n * 2\n"
    made = functory.proposals.create(
        source, tests=[{"input": {"n": 2}, "equals": 4}], description="doubles", author="ada"
    )
    wait_for(lambda: functory.proposals.get(made["id"])["state"] == "waiting", "the checks")
    screen.go("/approvals").ready()
    screen.shows("become active?")
    screen.shows("doubles")
    hands.use("A", "Approve…")
    screen.shows("After that it becomes active")
    hands.push("Approve")
    screen.shows("No question waits")
    assert functory.proposals.get(made["id"])["state"] == "active"


def test_a_run_is_paused_goes_on_and_is_cancelled(server: Deployment, hands: Hands) -> None:
    screen, functory = hands.screen, server.functory
    run = start(functory, ASK)
    question = question_of(functory, run)
    screen.go("/runs?state=open").ready()
    screen.shows("waits for a person")
    screen.go(f"/runs/{run}").ready()
    hands.use("p", "Pause")
    screen.shows("No further step starts")
    hands.push("Pause")
    wait_for(lambda: functory.runs.get(run)["pause_requested_at"])
    screen.page.get_by_role("button", name="Resume").wait_for()
    functory.runs.answer(question["id"], "yes", author="ada")
    screen.shows("paused")
    hands.use("p", "Resume")
    screen.shows("Its next step starts")
    hands.push("Resume")
    assert ended(functory, run)["state"] == "succeeded"
    other = start(functory, ASK)
    question_of(functory, other)
    screen.go(f"/runs/{other}").ready()
    hands.use("c", "Cancel")
    screen.shows("What is done stays done")
    hands.push("Cancel the run")
    assert ended(functory, other)["state"] == "cancelled"
    screen.shows("cancelled")


def test_a_run_leads_to_its_steps_its_agent_and_its_tree(server: Deployment, hands: Hands) -> None:
    screen, functory = hands.screen, server.functory
    run = start(functory, "fail at once")
    ended(functory, run)
    screen.go(f"/runs/{run}").ready()
    screen.shows("the order system is away")
    screen.press("Enter")
    screen.page.wait_for_url(f"**/executions/{run}*")
    hands.push("a step of an agent's run", "link")
    screen.page.wait_for_url(f"**/runs?root={run}")
    screen.shows("fail at once")
    screen.go(f"/runs/{run}").ready()
    hands.push("clerk", "link")
    screen.page.wait_for_url("**/agents/clerk")
    screen.shows("Answers tickets of customers")


def test_a_viewer_sees_runs_and_questions_without_their_texts(server: Deployment, browser: Browser) -> None:
    functory = server.functory
    functory.users.create("vera", SecretStr(PASSWORD), role="viewer")
    run = start(functory, REFUND)
    question = question_of(functory, run)
    context = server.context(browser)
    screen = server.log_in_as(context, "vera", PASSWORD)
    for path in ("/approvals", f"/runs/{run}", "/runs"):
        screen.go(path).ready()
        screen.shows("«redacted»")
        assert "teapot" not in screen.text() and "order-4711" not in screen.text()
    screen.go("/approvals").ready()
    for name in ("Approve", "Edit…", "Reject…"):
        button = screen.page.get_by_role("button", name=name).first
        expect(button).to_have_attribute("aria-disabled", "true")
    functory.runs.reject(question["id"], author="ada")
    context.close()
    screen.silent()

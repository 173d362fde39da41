"""Journeys through models, their calls and what they cost, once with the mouse and once with the keyboard alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from pydantic import SecretStr

from tests.support.dashboard import Deployment, dashboard_server
from tests.support.dashboard_hands import Hands
from tests.support.model_calls import add_model, answered, ask
from tests.support.model_server import ModelServer, model_server, stream
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PASSWORD = "a password that is long"


@pytest.fixture(scope="module")
def provider() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture(scope="module")
def server(
    chromium_server: Browser, provider: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """A server whose roles run, with a model that answers."""
    with dashboard_server(tmp_path_factory.mktemp("models")) as deployment:
        functory = deployment.functory
        functory.functions.save("def report(day: str = '') -> str:\n    return day\n", author="ada")
        add_model(functory, "small", provider.url)
        yield deployment


def test_a_model_is_added_tested_changed_disabled_and_deleted(
    server: Deployment, hands: Hands, tmp_path: Path
) -> None:
    script = tmp_path / "answers.json"
    tool = {"name": "add", "arguments": {"a": 2, "b": 3}}
    rules = [{"contains": "Use the tool", "tool_calls": [tool]}, {"contains": "2 + 3", "text": "five"}]
    script.write_text(json.dumps([*rules, {"text": "ready"}]))
    name, screen, models = hands.name_for("scripted"), hands.screen, server.functory.models
    screen.go("/models").ready()
    if hands.keys:
        screen.press("n")
    else:
        hands.push("New model", "link")
    hands.write("Name*", name)
    screen.page.get_by_label("Adapter").select_option(label="script")
    hands.write("Provider's name*", str(script))
    hands.write("Price of a request*", "0.15")
    hands.push("Save")
    # What is missing is said, and nothing that was typed is lost.
    screen.shows("has no price_out")
    screen.expected = ["400"]
    hands.write("Price of an answer*", "0.6")
    hands.push("Save")
    screen.shows("Prices for a million tokens")
    assert models.get(name)["price_in"] == 150_000_000
    hands.use("r", "Test…")
    screen.shows("This costs money")
    hands.push("Test")
    screen.shows("add(a=2, b=3)")
    # A text is no answer that fits a schema.
    screen.page.locator("li", has_text="schema").locator(".tone-bad").first.wait_for()
    hands.use("e", "Edit")
    hands.write("Calls at a time", "3")
    hands.push("Save")
    screen.shows("0 of 3")
    row = models.get(name)
    assert (row["slots"], row["price_in"], row["price_out"]) == (3, 150_000_000, 600_000_000)
    hands.use("p", "Disable")
    screen.shows("disabled")
    assert models.get(name)["state"] == "disabled"
    hands.push("Delete")
    screen.page.locator("dialog input").fill(name)
    hands.push("Delete")
    wait_for(lambda: name not in [one["name"] for one in models.list()])


def test_a_call_is_read_while_its_answer_streams(
    server: Deployment, hands: Hands, provider: ModelServer
) -> None:
    name, screen = hands.name_for("streaming"), hands.screen
    add_model(server.functory, name, provider.url, capabilities={"stream": True})
    provider.script(name, stream("The first ", "words", *["." for _ in range(60)], " end", delay=0.1))
    row = ask(server.functory, "a long question", model=name)
    screen.go(f"/calls/{row['id']}").ready()
    screen.shows("a long question")
    screen.shows("Answer so far")
    screen.shows("The first words")
    assert server.functory.calls.get(row["id"])["state"] == "sent"
    screen.page.get_by_role("heading", name="Answer stop").wait_for()
    screen.shows("end")
    screen.go(f"/calls?model={name}").ready()
    screen.shows("10 + 5")
    screen.press("Enter")
    screen.page.wait_for_url(f"**/calls/{row['id']}")


def test_an_execution_shows_its_calls_and_the_budget_of_its_tree_is_raised(
    server: Deployment, hands: Hands
) -> None:
    screen, functory = hands.screen, server.functory
    execution = functory.run("report", {"day": "today"})
    whose = {"function": "report", "root": execution["root_id"], "execution": execution["id"]}
    answered(functory, "a question", agent="writer", **whose)
    screen.go(f"/executions/{execution['id']}").ready()
    if hands.keys:
        screen.press("5")
    else:
        screen.page.get_by_role("tab", name="Models").click()
    screen.shows("1 call, $0.00002")
    screen.shows("$0.00002 of $1.00")
    hands.use("b", "Raise…")
    hands.write("US dollars", "2.50")
    hands.push("Set")
    screen.shows("of $2.50")
    assert functory.budgets.tree(execution["id"])["usd_limit"] == 2_500_000_000


def test_what_was_spent_is_shown_and_a_quota_is_set_and_deleted(server: Deployment, hands: Hands) -> None:
    screen, functory = hands.screen, server.functory
    agent = hands.name_for("painter")
    answered(functory, "a question", agent=agent, function="report")
    screen.go("/spend?by=agent").ready()
    screen.page.locator("table.costs", has_text=agent).get_by_text("$0.00002").first.wait_for()
    hands.use("n", "Set a quota")
    screen.page.locator("dialog select").select_option("agent")
    hands.write("Name", agent)
    hands.write("US dollars a day", "1.25")
    hands.push("Set", exact=True)
    line = screen.page.locator(".quotas li", has_text=f"agent {agent}")
    line.get_by_text("$1.25").wait_for()
    quotas = {(row["scope"], row["name"]): row for row in functory.budgets.quotas()}
    assert quotas["agent", agent]["usd"] == 1_250_000_000
    hands.push(f"Delete the quota of agent {agent}")
    hands.push("Delete", exact=True)
    line.get_by_text("$1.25").wait_for(state="detached")
    found = {(row["scope"], row["name"]): row["usd"] for row in functory.budgets.quotas()}
    assert found["agent", agent] is None


def test_a_viewer_sees_what_was_spent_and_no_text(server: Deployment, browser: Browser) -> None:
    functory = server.functory
    functory.users.create("vera", SecretStr(PASSWORD), role="viewer")
    row = answered(functory, "which mango?")
    context = server.context(browser)
    screen = server.log_in_as(context, "vera", PASSWORD)
    screen.go(f"/calls/{row['id']}").ready()
    screen.shows("«redacted»")
    screen.shows("$0.00002")
    assert "mango" not in screen.text()
    screen.go("/models/small").ready()
    for name in ("Test…", "Disable", "Edit", "Delete"):
        button = screen.page.get_by_role("button", name=name).first
        expect(button).to_have_attribute("aria-disabled", "true")
    context.close()
    screen.silent()

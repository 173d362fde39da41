"""Agents, runs and questions for pages of the dashboard: plain ones, and ones whose texts attack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from functory.client.functory import Functory
from tests.support.dashboard_probes import ALL, DATA, SCRIPT
from tests.support.model_calls import gateway_of
from tests.support.waiting import wait_for

# Does what the goal says.
CLERK = '''
from functory import step


def answer_ticket(memo: dict, given: dict | None = None) -> dict:
    """Answers a ticket."""
    if given is not None and given["kind"] == "problem":
        return step.fail("the order system says: " + given["error"]["message"])
    goal = memo["goal"]
    if goal.startswith("refund"):
        if given is not None:
            return step.done(given["results"][0].get("value") or given["results"][0]["error"]["message"])
        return step.tools([{"name": "refund", "arguments": {"order": "order-4711", "amount": 40.5, "note": goal}}])
    if goal.startswith("ask") and given is None:
        return step.ask("Send this answer?\\nYour teapot comes on Friday.", choices=["yes", "no"])
    if goal.startswith("loop"):
        return step.tools([{"name": "find_order", "arguments": {"number": 7}}])
    if goal.startswith("fail") and given is None:
        return step.fail("the order system is away")
    if given is None:
        return step.model("Answer this ticket: " + goal, tools=["find_order"])
    if given["kind"] == "model" and given["tool_calls"]:
        return step.tools(given["tool_calls"])
    if given["kind"] == "tools":
        return step.model("The order is there. Answer the customer.")
    return step.done(given["text"] if given["kind"] == "model" else given.get("answer") or "not sent")
'''
FIND = '''
def find_order(number: int) -> str:
    """Finds an order by its number."""
    return f"order {number}: a teapot, comes on Friday"
'''
REFUND = '''
def refund(order: str, amount: float, note: str = "") -> str:
    """Pays back money for an order."""
    return f"paid back {amount} for {order}"
'''
RULES: list[dict[str, Any]] = [
    {"contains": "Answer this ticket", "tool_calls": [{"name": "find_order", "arguments": {"number": 7}}]},
    {
        "contains": "The order is there",
        "text": "Your teapot comes on Friday.",
        "tokens_in": 900,
        "tokens_out": 30,
    },
]


def furnish_agents(functory: Functory, folder: Path) -> dict[str, str]:
    """Add an agent, and runs in many states. Returns ids by what they are."""
    add_clerk(functory, folder)
    runs = functory.runs
    with gateway_of(functory):
        done = start(functory, "where is the teapot of order 7?")
        ended(functory, done)
    stopped = start(functory, "loop until it is found")
    failed = start(functory, "fail at once")
    rejected, refund = (start(functory, f"refund the broken teapot of {name}") for name in ("ada", "bob"))
    asks = start(functory, "ask before the answer is sent")
    paused = start(functory, "ask, and be paused")
    for one in (stopped, failed):
        ended(functory, one)
    for one in (rejected, refund, asks, paused):
        wait_for(lambda id_=one: runs.get(id_)["questions"], f"the question of {one}")
    runs.reject(runs.get(rejected)["questions"][0]["id"], feedback="the warranty is over", author="ada")
    ended(functory, rejected)
    runs.pause(paused, author="ada")
    return {
        "run": done,
        "run stopped": stopped,
        "run failed": failed,
        "run refund": refund,
        "run asks": asks,
        "run paused": paused,
    }


def attack_agents(functory: Functory) -> dict[str, str]:
    """Add an agent and runs with texts that attack. Returns ids by what they are."""
    functory.functions.save("def act(text: str, **more: str) -> str:\n    return text\n", author=SCRIPT)
    source = """
from functory import step


def attack(memo: dict, given: dict | None = None) -> dict:
    text = memo["goal"]
    if given is not None:
        return step.fail(text) if memo.get("fail") else step.done({"text": text, text: [text]})
    if memo.get("ask"):
        return step.ask(text, choices=["yes", text[:180]])
    return step.tools([{"name": "act", "arguments": {"text": text, "more": text}}])
"""
    functory.functions.save(source.lstrip(), author=SCRIPT)
    fields = {
        "function": "attack",
        "description": ALL,
        "tools": ["act"],
        "ask_before": ["act"],
        "memo": {"hint": DATA},
    }
    functory.agents.add("attacker", fields, author=SCRIPT)
    runs = functory.runs
    ids = {
        "run": runs.start("attacker", ALL, author=SCRIPT, user=SCRIPT)["id"],
        "run asks": runs.start("attacker", ALL, memo={"ask": True}, author=ALL[:200])["id"],
        "run failed": runs.start("attacker", ALL, memo={"fail": True}, author=SCRIPT)["id"],
    }
    for id_ in ids.values():
        wait_for(lambda id_=id_: runs.get(id_)["questions"], f"the question of {id_}")
    (question,) = runs.get(ids["run failed"])["questions"]
    runs.reject(question["id"], feedback=ALL, author=SCRIPT)
    ended(functory, ids["run failed"])
    return ids


def add_clerk(functory: Functory, folder: Path) -> None:
    """Add an agent that does what its goal says, with its tools and its model."""
    script = folder / "clerk.json"
    script.write_text(json.dumps(RULES))
    functory.models.add(
        "clerks-model",
        {"adapter": "script", "provider_model": str(script), "price_in": "0.15", "price_out": "0.6"},
        author="ada",
    )
    for source in (FIND, CLERK):
        functory.functions.save(source.lstrip(), author="ada")
    functory.functions.save(REFUND.lstrip(), author="ada", hosts=["shop.example.com"])
    fields = {
        "function": "answer_ticket",
        "description": "Answers tickets of customers, and pays back money.",
        "model": "clerks-model",
        "tools": ["find_order", "refund"],
        "ask_before": ["refund"],
        "limits": {"usd": "0.10", "steps": 20},
    }
    functory.agents.add("clerk", fields, author="ada")


def start(functory: Functory, goal: str) -> str:
    """Start a run of the clerk. Returns its id."""
    return functory.runs.start("clerk", goal, author="ada")["id"]


def ended(functory: Functory, run: str) -> dict[str, Any]:
    """Wait for the end of a run. Returns it."""
    return functory.runs.wait(run, 60)


def question_of(functory: Functory, run: str) -> dict[str, Any]:
    """Wait for the question of a run. Returns it."""
    (question,) = wait_for(lambda: functory.runs.get(run)["questions"], f"the question of {run}")
    return question

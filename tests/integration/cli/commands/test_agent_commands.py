"""``functory agent`` and ``functory approval``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.cli import session
from functory.client.functory import Functory
from tests.support.cli_shell import Shell
from tests.support.waiting import wait_for
from tests.support.world import embedded

STEP = """
from functory import step


def solve(memo: dict, given: dict | None = None) -> dict:
    if given is None:
        return step.model(memo["goal"])
    if given["kind"] == "model":
        return step.done({"said": given["text"], "of": memo.get("of")})
    return step.fail(given["error"]["message"])
"""
ASKS = """
from functory import step


def asks(memo: dict, given: dict | None = None) -> dict:
    return step.ask("May I?", choices=["yes", "no"]) if given is None else step.done(given["answer"])
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "solve.py").write_text(STEP)
    (tmp_path / "asks.py").write_text(ASKS)
    (tmp_path / "answers.json").write_text(json.dumps([{"contains": "hello", "text": "Hello!"}]))
    shell.run("function", "add", "solve.py")
    shell.run("function", "add", "asks.py")
    price = ["--price-in", "1", "--price-out", "2"]
    path = str(tmp_path / "answers.json")
    shell.run("model", "add", "small", "--adapter", "script", "--provider-model", path, *price)
    return shell


@pytest.fixture
def engine(shell: Shell) -> Iterator[Functory]:
    """One engine for all commands of a test, which each of them would otherwise start and stop."""
    with embedded(shell.folder, home=shell.folder / "home") as opened, session.sharing(opened):
        yield opened


def test_an_agent_is_added_changed_run_and_removed(shell: Shell) -> None:
    shell.run("agent", "add", "helper", "--function", "solve", "--model", "small", "--limit", "steps=9")
    shell.run("agent", "set", "helper", "--limit", "usd=0.5", "--description", "Helps.")
    row = shell.json("agent", "show", "helper")
    assert (row["version"], row["definition"]["limits"]) == (2, {"steps": 9, "usd": 0.5})
    done = shell.run("agent", "run", "helper", "say hello", "--memo", "of=7")
    assert json.loads(done.stdout) == {"said": "Hello!", "of": 7}
    assert "step 1 (start) succeeded → model" in done.stderr
    row = shell.json("agent", "runs", "show", "@last")
    assert (row["state"], row["step"], row["goal"]) == ("succeeded", 2, "say hello")
    steps = shell.json("agent", "runs", "steps", "@last")
    assert [one["kind"] for one in steps] == ["start", "model"]
    assert shell.json("agent", "runs", "cost", "@last")["calls"] == 1
    shell.run("agent", "remove", "helper", "--yes")
    assert shell.out("agent", "list", "-q") == ""
    assert shell.json("agent", "runs", "list")[0]["agent"] == "helper"


def test_a_run_is_replayed_forked_and_evaluated(shell: Shell, engine: Functory, tmp_path: Path) -> None:
    shell.run("agent", "add", "helper", "--function", "solve", "--model", "small")
    shell.run("agent", "run", "helper", "say hello")
    run = shell.json("agent", "runs", "list")[0]["id"]
    assert shell.out("agent", "runs", "replay", run) == "it ends with the same result"
    done = shell.run("agent", "runs", "fork", run, "2", "--set", "of=8")
    assert json.loads(done.stdout) == {"said": "Hello!", "of": 8}
    found = shell.json("agent", "runs", "eval", run)
    assert [one["verdict"] for one in found["cases"]] == ["same"]
    assert (found["summary"]["pass_rate"], found["summary"]["calls"]) == (1.0, 0)
    (tmp_path / "solve.py").write_text(STEP.replace('memo["goal"]', '"Please " + memo["goal"]'))
    shell.run("function", "add", "solve.py")
    shown = shell.run("agent", "runs", "replay", run, status=1).stdout
    assert "-  say hello" in shown and "+  Please say hello" in shown
    cases = shell.json("agent", "runs", "eval", "--agent", "helper", "--last", "5")
    assert cases["summary"]["passed"] == cases["summary"]["runs"] == 2
    assert shell.run("agent", "runs", "eval", run, "--recorded", status=1).stdout.endswith("$0.00\n")
    assert "there are no cases" in shell.run("agent", "runs", "eval", status=2).stderr


def test_a_run_that_does_not_succeed_has_status_1_and_says_why(shell: Shell) -> None:
    shell.run("agent", "add", "helper", "--function", "solve", "--model", "small", "--limit", "calls=0")
    done = shell.run("agent", "run", "helper", "say hello", status=1)
    assert done.stdout == ""
    assert "stopped (calls): the tree may use 0 calls" in done.stderr


def test_a_question_is_answered_once(shell: Shell, engine: Functory) -> None:
    shell.run("agent", "add", "helper", "--function", "asks")
    run = shell.out("agent", "run", "helper", "ask me", "--no-wait")
    wait_for(engine.runs.questions)
    done = shell.run("agent", "runs", "watch", run, "--timeout", "1.2", status=124)
    assert "it asks: May I?" in done.stderr
    question = shell.out("approval", "list", "-q")
    assert "the choices are yes, no" in shell.run("approval", "answer", question, "perhaps", status=2).stderr
    shell.run("approval", "answer", question, "yes")
    assert "is answered" in shell.run("approval", "answer", question, "no", status=5).stderr
    assert shell.out("agent", "runs", "watch", run) == '"yes"'


def test_a_tool_is_approved_with_other_arguments(shell: Shell, engine: Functory, tmp_path: Path) -> None:
    (tmp_path / "pay.py").write_text("def pay(amount: int) -> str:\n    return f'paid {amount}'\n")
    (tmp_path / "buys.py").write_text(
        "from functory import step\n\n\ndef buys(memo: dict, given: dict | None = None) -> dict:\n"
        "    if given is None:\n"
        "        return step.tools([{'name': 'pay', 'arguments': {'amount': 500}}])\n"
        "    return step.done(given['results'][0]['value'])\n"
    )
    shell.run("function", "add", "pay.py")
    shell.run("function", "add", "buys.py")
    shell.run("agent", "add", "buyer", "--function", "buys", "--tool", "pay", "--ask-before", "pay")
    run = shell.out("agent", "run", "buyer", "buy it", "--no-wait")
    wait_for(engine.runs.questions)
    done = shell.run("agent", "runs", "watch", run, "--timeout", "1.2", status=124)
    assert 'it asks: May it run pay with {"amount":500}?' in done.stderr
    question = shell.out("approval", "list", "-q")
    assert "approved or rejected" in shell.run("approval", "answer", question, "yes", status=2).stderr
    shell.run("approval", "approve", question, "--argument", "amount=5", "--always", "amount")
    assert shell.out("agent", "runs", "watch", run) == '"paid 5"'
    assert shell.json("approval", "show", question)["state"] == "edited"


def test_a_run_is_paused_resumed_and_cancelled(shell: Shell, engine: Functory) -> None:
    shell.run("agent", "add", "helper", "--function", "asks")
    run = shell.out("agent", "run", "helper", "ask me", "--no-wait")
    shell.run("agent", "runs", "pause", run)
    shell.run("agent", "runs", "resume", run)
    assert "is not paused" in shell.run("agent", "runs", "resume", run, status=5).stderr
    shell.run("agent", "runs", "cancel", run)
    assert shell.json("agent", "runs", "show", run)["state"] == "cancelled"
    assert shell.out("approval", "list", "-q") == ""


def test_wrong_agents_are_refused_with_what_to_do(shell: Shell, engine: Functory) -> None:
    assert "an agent needs a function" in shell.run("agent", "add", "helper", status=2).stderr
    done = shell.run("agent", "add", "helper", "--function", "solve", "--limit", "euros=1", status=2)
    assert "an agent has no limit 'euros'" in done.stderr
    done = shell.run("agent", "add", "helper", "--function", "solve", "--tool", "nothing", status=2)
    assert "names functions that are not stored" in done.stderr
    assert "agent 'other' not found" in shell.run("agent", "run", "other", "x", status=3).stderr

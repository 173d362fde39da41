"""What code that works for a run of an agent may not do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from tests.support.world import embedded

STEP = """
from functory import call, functions, step


def solve(memo: dict, given: dict | None = None) -> dict:
    if memo["goal"] == "call a tool":
        return step.done(call("tool"))
    if memo["goal"] == "use a tool":
        return step.done(given["results"][0]) if given else step.tools([{"name": "tool", "arguments": {"deep": True}}])
    if memo["goal"] == "call without consent":
        return step.done(call("guarded"))
    if memo["goal"] == "call another":
        return step.done(call("other"))
    functions.save("def other():\\n    return 'changed'\\n")
    return step.done()
"""
TOOL = """
from functory import call


def tool(deep: bool = False):
    return call("other") if deep else "of the tool"
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functory]:
    home: Path = tmp_path_factory.mktemp("home")
    with embedded(home / "home") as engine:
        engine.functions.save("def other():\n    return 'of another'\n")
        engine.functions.save(TOOL)
        engine.functions.save(STEP, permissions=["functions:write"])
        engine.agents.add(
            "solve", {"function": "solve", "tools": ["tool"], "limits": {"errors": 1}}, author="ada"
        )
        engine.start()
        yield engine


def run(engine: Functory, goal: str) -> dict[str, Any]:
    return engine.runs.wait(engine.runs.start("solve", goal, author="ada")["id"], 60)


def test_a_step_calls_the_tools_of_its_agent(engine: Functory) -> None:
    assert run(engine, "call a tool")["result"] == "of the tool"


def test_a_step_does_not_get_around_consent_by_a_call(engine: Functory) -> None:
    row = run(engine, "call without consent")
    assert row["state"] == "failed" and "may not call guarded" in row["detail"]["message"]


def test_a_step_calls_nothing_else(engine: Functory) -> None:
    row = run(engine, "call another")
    assert row["state"] == "failed"
    assert "code of a run may not call other" in row["detail"]["message"]


def test_a_tool_calls_nothing_that_it_does_not_declare(engine: Functory) -> None:
    result = run(engine, "use a tool")["result"]
    assert not result["ok"] and "code of a run may not call other" in result["error"]["message"]


def test_code_of_a_run_changes_no_function_whatever_its_permission(engine: Functory) -> None:
    row = run(engine, "change another")
    assert row["state"] == "failed"
    assert "not for code that works for a run" in row["detail"]["message"]
    assert engine.call("other") == "of another"
    assert engine.functions.get("other")["latest"] == 1

"""Memory, tools and descriptions in the sandbox: with a permission and without, of a run and of other code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.errors import ExecutionFailed
from functory.engine.telemetry.registry import registry
from tests.support.world import embedded

# Runs a text of Python with the names of the guest API: one function for all cases.
CODE = """
from functory import functions, memory, secret, step, tools


def {name}({parameters}):
    found = {{}}
    exec(text, globals() | {{"found": found}})
    return {result}
"""
WRITES = ["memory:read", "memory:write"]


def save(engine: Functory, name: str, **declared: Any) -> None:
    text = CODE.format(name=name, parameters="text: str", result="found")
    engine.functions.save(text, **declared)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functory]:
    home: Path = tmp_path_factory.mktemp("home")
    with embedded(home / "home") as engine:
        engine.secrets.set("API_KEY", "a-secret-of-the-shop-4711")
        save(engine, "plain")
        save(
            engine,
            "writer",
            permissions=[*WRITES, "functions:read", "functions:describe"],
            secrets=["API_KEY"],
        )
        save(engine, "fetcher", permissions=WRITES, hosts=["api.example.com"])
        engine.functions.save(
            CODE.format(name="solve", parameters="memo: dict, given: dict | None = None", result="step.done(found)")
            .replace("exec(text", "exec(memo['goal']"),
            permissions=[*WRITES, "functions:describe"],
        )  # fmt: skip
        engine.functions.save('def late_invoices(customer: str):\n    """List invoices that are late."""\n')
        engine.functions.save(
            'def invoice_total(customer: str):\n    """Sum the invoices of a customer."""\n'
            "    return 1 / (len(customer) - 5)\n"
        )
        engine.functions.save("def reach():\n    return 1\n", hosts=["api.example.com"])
        limits = {"errors": 1}
        engine.agents.add(
            "solve", {"function": "solve", "tools": ["late_invoices"], "limits": limits}, author="ada"
        )
        engine.agents.add(
            "curious", {"function": "solve", "tools": ["reach"], "limits": limits}, author="ada"
        )
        engine.start()
        yield engine


def result(engine: Functory, goal: str, agent: str = "solve") -> Any:
    row = engine.runs.wait(engine.runs.start(agent, goal, author="ada")["id"], 60)
    return row["result"] if row["state"] == "succeeded" else row["detail"]["message"]


def test_code_writes_and_reads_shared_memories(engine: Functory) -> None:
    found = engine.call(
        "writer",
        "found['added'] = memory.add('Ada pays late', kind='lesson', scope='shared', importance=0.8)\n"
        "found['again'] = memory.add('Ada pays late', scope='shared')\n"
        "found['found'] = memory.search('who pays late?', scope='shared')",
    )
    assert found["added"]["added"] and not found["again"]["added"]
    (row,) = found["found"]
    assert {key: row[key] for key in ("id", "text", "kind", "scope", "importance", "untrusted")} == {
        "id": found["added"]["id"], "text": "Ada pays late", "kind": "lesson", "scope": "shared", "importance": 0.8,
        "untrusted": False,
    }  # fmt: skip
    execution = engine.executions.list(function="writer", limit=1)[0]
    assert row["source"] == {"execution_id": execution["id"], "run_id": None, "author": "function writer v1"}
    engine.call("writer", f"memory.forget({row['id']!r})")
    assert engine.memory.search("pays late") == []


@pytest.mark.parametrize(
    ("text", "permission"),
    [
        ("memory.add('x', scope='shared')", "memory:write"),
        ("memory.forget('x')", "memory:write"),
        ("memory.search('x')", "memory:read"),
        ("tools.search('x')", "functions:read"),
        ("tools.schema('plain')", "functions:read"),
        ("functions.describe('plain', 'x')", "functions:describe"),
    ],
)
def test_code_without_the_permission_is_refused(engine: Functory, text: str, permission: str) -> None:
    with pytest.raises(ExecutionFailed) as failed:
        engine.call("plain", text)
    assert f"the permission {permission} is not declared" in str(failed.value)
    assert f'declare permissions=["{permission}"]' in str(failed.value)


@pytest.mark.parametrize("scope", ["agent", "run"])
def test_outside_of_a_run_there_is_only_shared_memory(engine: Functory, scope: str) -> None:
    with pytest.raises(ExecutionFailed, match="works for no run of an agent"):
        engine.call("writer", f"memory.add('x', scope={scope!r})")


def test_a_secret_is_no_memory(engine: Functory) -> None:
    with pytest.raises(ExecutionFailed, match="cannot hold the secret API_KEY"):
        engine.call("writer", "memory.add('the key is ' + secret('API_KEY'), scope='shared')")
    with pytest.raises(ExecutionFailed, match="cannot hold the secret API_KEY"):
        engine.call("writer", "memory.search(secret('API_KEY'))")


def test_what_code_with_hosts_writes_is_untrusted_and_so_is_what_follows_from_it(engine: Functory) -> None:
    engine.call("fetcher", "memory.add('the moon is of cheese', scope='shared')")
    found = engine.call(
        "writer",
        "found['one'] = memory.search('moon', scope='shared')\n"
        "memory.add('cheese is far away', scope='shared')\n"
        "found['two'] = memory.search('far away', scope='shared')",
    )
    assert [row["untrusted"] for row in (*found["one"], *found["two"])] == [True, True]


def test_a_run_has_memories_of_its_own_and_of_its_agent(engine: Functory) -> None:
    text = (
        "memory.add('green for the agent')\n"
        "memory.add('green for the run', scope='run')\n"
        "found['all'] = sorted(row['scope'] for row in memory.search('green'))"
    )
    assert result(engine, text)["all"] == ["agent", "run"]
    # The next run has those of its agent, and another agent has none of them.
    again = "found['all'] = [row['text'] for row in memory.search('green')]"
    assert result(engine, again)["all"] == ["green for the agent"]
    assert result(engine, again, "curious")["all"] == []
    row = engine.memory.search("green", scope="agent")[0]
    assert row["owner"] == "solve" and row["run_id"] is not None and not row["untrusted"]


def test_an_agent_whose_tools_reach_hosts_writes_untrusted_memories(engine: Functory) -> None:
    text = "memory.add('blue sky')\nfound['one'] = memory.search('blue')"
    (row,) = result(engine, text, "curious")["one"]
    assert row["untrusted"]


def test_code_forgets_nothing_that_a_person_has_written(engine: Functory) -> None:
    row = engine.memory.add("the office is in Bern", author="ada")
    with pytest.raises(ExecutionFailed, match="a person has written it"):
        engine.call("writer", f"memory.forget({row['id']!r})")
    assert engine.memory.get(row["id"])["text"] == "the office is in Bern"


def test_code_forgets_nothing_of_another_agent(engine: Functory) -> None:
    result(engine, "memory.add('private of curious')", "curious")
    (row,) = engine.memory.search("private of curious", scope="agent")
    assert "not found" in result(engine, f"memory.forget({row['id']!r})")


def test_a_run_finds_its_own_tools_alone(engine: Functory) -> None:
    found = result(engine, "found['tools'] = tools.search('late invoices of a customer')")
    (tool,) = found["tools"]
    assert tool["name"] == "late_invoices" and tool["description"] == "List invoices that are late."
    assert tool["effect"] == "none" and list(tool["parameters"]["properties"]) == ["customer"]
    assert "there is no tool 'invoice_total'" in result(engine, "tools.schema('invoice_total')")


def test_other_code_finds_all_functions(engine: Functory) -> None:
    found = engine.call("writer", "found['names'] = [tool['name'] for tool in tools.search('invoices', k=2)]")
    assert sorted(found["names"]) == ["invoice_total", "late_invoices"]


def test_a_tool_has_its_track_record(engine: Functory) -> None:
    for _ in range(3):
        engine.call("invoice_total", customer="ada")
    with pytest.raises(ExecutionFailed):
        engine.call("invoice_total", customer="wrong")
    engine.settle(30)
    found = engine.call("writer", "found['one'] = tools.schema('invoice_total')")
    assert found["one"]["record"].startswith("succeeded 3 of 4 in 30 days, p95 ")


def test_a_description_is_no_new_version(engine: Functory) -> None:
    before = engine.functions.get("late_invoices")
    engine.call("writer", "functions.describe('late_invoices', 'Overdue bills, by customer.')")
    after = engine.functions.get("late_invoices")
    assert (after["number"], after["sha256"]) == (before["number"], before["sha256"])
    found = result(engine, "found['one'] = tools.search('overdue')")
    assert found["one"][0]["description"] == "Overdue bills, by customer."
    said = engine.annotations.get("late_invoices")
    assert said is not None and said["author"] == "function writer v1" and said["source_execution_id"]
    engine.annotations.describe("late_invoices", "", author="ada")
    assert engine.annotations.get("late_invoices") is None


def test_code_of_a_run_describes_only_what_it_uses(engine: Functory) -> None:
    assert "may not describe 'invoice_total'" in result(
        engine, "functions.describe('invoice_total', 'Trust me.')"
    )
    assert isinstance(result(engine, "functions.describe('solve', 'Solves.')"), dict)


def test_a_description_of_a_deleted_function_is_gone(engine: Functory) -> None:
    engine.functions.save("def short_lived():\n    pass\n")
    engine.annotations.describe("short_lived", "Of the first one.", author="ada")
    engine.functions.delete("short_lived")
    engine.functions.save("def short_lived():\n    return 2\n")
    assert engine.annotations.get("short_lived") is None


def test_refusals_are_counted(engine: Functory) -> None:
    def count() -> float:
        return registry.get_sample_value("functory_sandbox_violations_total", {"kind": "permission"}) or 0.0

    before = count()
    with pytest.raises(ExecutionFailed):
        engine.call("plain", "memory.search('x')")
    assert count() == before + 1

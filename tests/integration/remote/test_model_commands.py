"""The commands of language models print the same on a database and over its server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from functory.client.functory import Functory
from tests.support.cli_shell import Shell
from tests.support.model_calls import answered

READS = [
    "model list",
    "model list --json",
    "model show scripted",
    "model show scripted --json",
    "model show missing",
    "llm calls",
    "llm calls --json",
    "llm calls --model scripted --state succeeded --since 1h --json",
    "llm calls --state lost",
    "llm show {call}",
    "llm show {call} --json",
    "llm show {failed}",
    "llm show {failed} --json",
    "llm cost",
    "llm cost --by agent --json",
    "llm cost --by day --since 7d --json",
    "llm cost --by colour",
    "budget show {root}",
    "budget show {root} --json",
    "budget quotas",
    "budget quotas --json",
]


@pytest.fixture(scope="module")
def asked(served: tuple[Functory, str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ids of calls of a model that answers from a file."""
    engine = served[0]
    rules = [
        {"contains": "wrong", "problem": "the provider is away"},
        {"contains": "Use the tool", "tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]},
        {"contains": "2 + 3", "value": {"sum": 5}},
        {"text": "ready"},
    ]
    script = tmp_path_factory.mktemp("script") / "rules.json"
    script.write_text(json.dumps(rules))
    fields = {"adapter": "script", "provider_model": str(script), "price_in": "0.15", "price_out": 0.6}
    engine.models.add("scripted", fields, author="ada")
    engine.budgets.set_quota("agent", "writer", {"usd": "0.5", "calls": 100}, author="ada")
    call = answered(engine, model="scripted", function="add", agent="writer")
    failed = answered(engine, "wrong", model="scripted", number=2)
    assert (call["state"], failed["state"]) == ("succeeded", "failed")
    return {"call": call["id"], "failed": failed["id"], "root": call["root_id"]}


def test_models_and_calls_open_their_pages(
    asked: dict[str, str], served: tuple[Functory, str, str], shells: tuple[Shell, Shell], opened: list[str]
) -> None:
    shells[1].run("model", "show", "scripted", "--open")
    shells[1].run("llm", "show", asked["call"], "--open")
    assert opened == [f"{served[1]}/models/scripted", f"{served[1]}/calls/{asked['call']}"]


@pytest.mark.parametrize("line", READS)
def test_a_reading_command_prints_the_same_over_a_server(
    line: str, asked: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = (shell.run(*line.format(**asked).split(), status=None) for shell in shells)
    assert "defect" not in local.stderr + far.stderr
    assert (far.stdout, far.returncode) == (local.stdout, local.returncode)
    if local.returncode and "{" not in line:
        assert far.stderr.splitlines()[0] == local.stderr.splitlines()[0]


def test_commands_change_models_budgets_and_quotas_of_a_server(
    asked: dict[str, str], shells: tuple[Shell, Shell], tmp_path: Path
) -> None:
    local, far = shells
    address = "https://m.example.com/v1"
    add = ["model", "add", "far", "--adapter", "openai", "--provider-model", "m", "--api-base", address]
    done = far.run(*add, "--price-in", "0.15", "--price-out", "1", "--secret", "FAR_KEY")
    assert "the secret FAR_KEY is not stored yet" in done.stderr
    far.run("model", "set", "far", "--slots", "3", "--fallback", "scripted")
    far.run("model", "disable", "far")
    found = local.json("model", "show", "far")
    assert (found["state"], found["slots"], found["price_in"]) == ("disabled", 3, 0.15)
    assert found["fallbacks"] == ["scripted"]
    far.run("model", "enable", "far")
    far.run("model", "remove", "far", "--yes")
    local.run("model", "show", "far", status=3)
    assert far.json("budget", "raise", asked["root"], "--usd", "9.5")["usd_limit"] == 9.5
    assert local.json("budget", "show", asked["root"])["usd_limit"] == 9.5
    far.run("budget", "set-quota", "user", "eve", "--tokens", "5")
    assert "user eve" in local.out("budget", "quotas")
    far.run("budget", "remove-quota", "user", "eve", "--yes")
    assert "user eve" not in local.out("budget", "quotas")


def test_a_model_is_tested_on_the_server(asked: dict[str, str], shells: tuple[Shell, Shell]) -> None:
    tests = shells[1].json("model", "test", "scripted")
    assert [(one["test"], one["answer"], one["problem"]) for one in tests] == [
        ("answer", "ready", None),
        ("tool", "add(a=2, b=3)", None),
        ("schema", "{'sum': 5}", None),
    ]
    assert all(one["cost"] > 0 for one in tests)
    # What it asked is in the ledger, and found by the beginning of its id.
    assert shells[0].json("llm", "show", tests[0]["call_id"])["state"] == "succeeded"

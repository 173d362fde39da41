"""The commands of canaries print the same on a database and over its server."""

from __future__ import annotations

import pytest

from functory.client.functory import Functory
from tests.support.cli_shell import Shell

READS = [
    "canary list",
    "canary list --json",
    "canary list --open -q",
    "canary list --function shared_out --json",
    "canary list --limit 1",
    "canary show shared_out",
    "canary show shared_out --json",
    "canary show ended_one",
    "canary show ended_one --json",
    "canary show missing",
    "canary start shared_out@9",
    "canary start shared_out@2",
    "canary advance shared_out --share 1%",
    "canary hold ended_one",
]


@pytest.fixture(scope="module")
def canaries(served: tuple[Functory, str, str]) -> Functory:
    """An engine with a canary that is open and one that was rolled back."""
    engine = served[0]
    for name in ("shared_out", "ended_one", "far_one"):
        for number in (1, 2):
            source = f"def {name}(n: int = 1) -> int:\n    return {number}\n"
            engine.functions.save(source, activate=number == 1)
    engine.canaries.start("shared_out", 2, share=0.25, author="ada")
    engine.canaries.start("ended_one", 2, author="ada")
    engine.canaries.roll_back("ended_one", reason="wrong totals", author="eve")
    return engine


@pytest.mark.parametrize("line", READS)
def test_a_command_prints_the_same_over_a_server(
    line: str, canaries: Functory, shells: tuple[Shell, Shell]
) -> None:
    local, far = (shell.run(*line.split(), status=None) for shell in shells)
    assert "defect" not in local.stderr + far.stderr
    assert (far.stdout, far.returncode) == (local.stdout, local.returncode)
    if local.returncode:
        assert far.stderr.splitlines()[0] == local.stderr.splitlines()[0]


def test_a_canary_of_a_server_is_started_and_ended(canaries: Functory, shells: tuple[Shell, Shell]) -> None:
    local, far = shells
    said = far.out("canary", "start", "far_one@2", "--share", "10%", "--unit", "subject", "--hours", "5")
    assert said == "far_one v2 gets 10% of the executions"
    row = local.json("canary", "show", "far_one")
    assert (row["unit"], row["author"], row["share"]) == ("subject", "ada", 0.1)
    assert far.out("canary", "hold", "far_one", "--reason", "until Monday") == "the canary of far_one is held"
    assert far.json("canary", "advance", "far_one", "--share", "50%")["state"] == "open"
    assert far.out("canary", "promote", "far_one") == "far_one v2 is active"
    assert canaries.functions.get("far_one")["number"] == 2
    source = "def far_one(n: int = 1) -> int:\n    return 3\n"
    canaries.functions.save(source, activate=False)
    for verb, said in (("stop", "the canary of far_one is stopped"), ("rollback", "marked bad")):
        far.run("canary", "start", "far_one@3")
        assert said in far.out("canary", verb, "far_one", "--reason", "enough")
    assert local.json("canary", "show", "far_one")["reason"] == "enough"

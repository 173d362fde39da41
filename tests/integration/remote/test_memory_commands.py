"""The commands of memories and descriptions print the same on a database and over its server."""

from __future__ import annotations

import pytest

from functory.cli.remote.engine import RemoteEngine
from functory.client.functory import Functory
from functory.remote.client import RemoteFunctory
from tests.support.cli_shell import Shell

READS = [
    "memory list",
    "memory list --json",
    "memory list --shared -q",
    "memory list --agent reminder --kind lesson --json",
    "memory list --run {run}",
    "memory list --agent reminder --shared",
    "memory search invoices",
    "memory search invoices --agent reminder --json",
    "memory search invoices -k 0",
    "memory show {memory}",
    "memory show {short} --json",
    "memory show 00000000",
    "memory show 01998c5e-0000-7000-8000-000000000000",
    "memory forget",
    "function search overdue --json",
    "function search overdue",
    "function search zebra",
    "function show overdue_bills",
    "function show overdue_bills --json",
    "function describe missing text",
]


@pytest.fixture(scope="module")
def remembered(served: tuple[Functory, str, str]) -> dict[str, str]:
    """Ids of a memory, and of the run whose memory there is."""
    engine = served[0]
    engine.functions.save("def keep(memo, given=None):\n    return {'functory.step': {'do': 'done'}}\n")
    engine.functions.save("def overdue_bills(customer: str):\n    return 1\n")
    engine.annotations.describe("overdue_bills", "Finds overdue bills.", author="eve")
    engine.agents.add("reminder", {"function": "keep"}, author="ada")
    run = engine.runs.start("reminder", "a goal", author="ada")["id"]
    engine.memory.add("of the run", scope="run", owner=run, author="ada")
    engine.memory.add("Tea is hot", days=2, author="ada")
    row = engine.memory.add(
        "Invoices go out on Mondays\nand never later",
        kind="lesson",
        scope="agent",
        owner="reminder",
        author="ada",
    )
    return {"memory": row["id"], "short": row["id"][:13], "run": run}


@pytest.mark.parametrize("line", READS)
def test_a_command_prints_the_same_over_a_server(
    line: str, remembered: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = (shell.run(*line.format(**remembered).split(), status=None) for shell in shells)
    assert "defect" not in local.stderr + far.stderr
    assert (far.stdout, far.returncode) == (local.stdout, local.returncode)
    if local.returncode:
        assert far.stderr.splitlines()[0] == local.stderr.splitlines()[0]


def test_memories_of_a_server_are_stored_and_forgotten(
    remembered: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    local, far = shells
    given = ("Cranes fly south", "--agent", "reminder", "--kind", "episode", "--importance", "0.9")
    id_ = far.out("memory", "add", *given, "-q")
    row = local.json("memory", "show", id_)
    assert (row["owner"], row["kind"], row["importance"], row["author"]) == (
        "reminder",
        "episode",
        0.9,
        "ada",
    )
    assert "is known; its importance is 0.91 now" in far.out("memory", "add", *given)
    assert far.out("memory", "forget", id_[:13], "--yes") == "1 memory deleted"
    local.run("memory", "show", id_, status=3)
    assert far.out("memory", "forget", "--run", remembered["run"], "--yes") == "0 memories deleted"
    far.run("memory", "add", "for this run", "--run", remembered["run"])
    (row,) = [one for one in local.json("memory", "list") if one["text"] == "for this run"]
    assert (row["scope"], row["owner"]) == ("run", remembered["run"])
    far.run("memory", "forget", row["id"], "--yes")


def test_a_function_of_a_server_is_described(
    served: tuple[Functory, str, str], remembered: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    engine, far = served[0], shells[1]
    engine.functions.save("def far_described(n: int):\n    return n\n")
    assert far.out("function", "describe", "far_described", "Counts cranes.") == "far_described is described"
    found = engine.annotations.get("far_described")
    assert found is not None and (found["value"], found["author"]) == ("Counts cranes.", "ada")
    assert [row["name"] for row in far.json("function", "search", "cranes")] == ["far_described"]
    said = far.out("function", "describe", "far_described", "")
    assert said == "far_described has no description of its own"
    assert engine.annotations.get("far_described") is None


def test_who_may_not_read_payloads_sees_memories_without_their_texts(
    served: tuple[Functory, str, str], remembered: dict[str, str], shells: tuple[Shell, Shell]
) -> None:
    engine, url, _ = served
    far = shells[1]
    token = engine.tokens.create("ada", "forgetful", role="viewer")["token"]
    with RemoteEngine(RemoteFunctory(url, token=token)) as viewer:
        row = viewer.memory.get(remembered["memory"])
    assert row["text"] == "(hidden: it needs the right payload:read)"
    far.environment |= {"FUNCTORY_TOKEN": token}
    for line in ("memory list", "memory list --json", f"memory show {remembered['memory']}"):
        assert "Mondays" not in far.run(*line.split()).stdout
    assert "payload:read" in far.run("memory", "search", "Mondays", status=4).stderr

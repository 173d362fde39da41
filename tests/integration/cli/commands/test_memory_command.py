"""``functory memory``, ``functory function describe`` and ``search``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_shell import Shell

SOLVE = "from functory import step\n\n\ndef solve(memo: dict, given: dict | None = None):\n    return step.done()\n"

LEARN = """
from functory import memory


def learn():
    for text in ("one", "two"):
        memory.add(text, scope="shared")
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "solve.py").write_text(SOLVE)
    (tmp_path / "late.py").write_text(
        'def late(customer: str):\n    """List late invoices."""\n    return 1\n'
    )
    shell.run("function", "add", "solve.py")
    shell.run("function", "add", "late.py")
    shell.run("agent", "add", "clerk", "--function", "solve")
    return shell


def test_a_memory_is_added_found_shown_and_forgotten(shell: Shell) -> None:
    said = shell.out("memory", "add", "Invoices go out on Mondays", "--agent", "clerk", "--kind", "lesson")
    assert said.startswith("memory ") and said.rstrip().endswith(" is stored")
    assert "its importance is 0.55 now" in shell.out(
        "memory", "add", "Invoices go out on Mondays", "--agent", "clerk"
    )
    shell.run("memory", "add", "Tea is hot", "--days", "2", "--importance", "0.1")
    (row,) = shell.json("memory", "search", "when do the invoices go?")
    assert (row["scope"], row["owner"], row["kind"], row["text"]) == (
        "agent", "clerk", "lesson", "Invoices go out on Mondays",
    )  # fmt: skip
    assert "Tea is hot" in shell.out("memory", "list", "--shared")
    assert "Tea" not in shell.out("memory", "list", "--agent", "clerk")
    shown = shell.out("memory", "show", row["id"][:13])
    assert "agent clerk" in shown and "Invoices go out on Mondays" in shown
    assert shell.out("memory", "forget", row["id"], "--yes") == "1 memory deleted"
    assert shell.json("memory", "list", "--agent", "clerk") == []


def test_all_memories_of_a_source_are_forgotten(shell: Shell) -> None:
    (shell.folder / "learn.py").write_text(LEARN)
    shell.run("function", "add", "learn.py", "--permission", "memory:write")
    shell.run("run", "learn")
    shell.run("memory", "add", "good")
    assert shell.out("memory", "forget", "--execution", "@last", "--yes") == "2 memories deleted"
    assert [row["text"] for row in shell.json("memory", "list")] == ["good"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "x", "--agent", "clerk", "--run", "y"), "name one of them"),
        (("add", "x", "--agent", "missing"), "functory agent list"),
        (("forget",), "what shall be forgotten?"),
        (("show", "01998c5e-0000-7000-8000-000000000000"), "functory memory list"),
        (("search", "x", "-k", "0"), "greater than or equal to 1"),
    ],
)
def test_wrong_commands_say_what_to_do(shell: Shell, words: tuple[str, ...], said: str) -> None:
    done = shell.run("memory", *words, status=None)
    assert done.returncode != 0 and said in done.stderr


def test_a_function_is_described_and_found(shell: Shell) -> None:
    assert [row["name"] for row in shell.json("function", "search", "late invoices")] == ["late"]
    assert shell.out("function", "describe", "late", "Overdue bills.") == "late is described"
    assert "Overdue bills. (by " in shell.out("function", "show", "late")
    assert [row["description"] for row in shell.json("function", "search", "overdue")] == ["Overdue bills."]
    assert shell.out("function", "describe", "late", "") == "late has no description of its own"
    assert shell.json("function", "show", "late")["description"] is None


def test_a_function_shows_its_track_record(shell: Shell) -> None:
    assert "succeeded" not in shell.out("function", "show", "late")
    shell.run("run", "late", "--input", "customer=ada")
    assert "succeeded 1 of 1 in 30 days, p95 " in shell.out("function", "show", "late")

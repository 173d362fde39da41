"""An execution as `functory execution show` prints it."""

from __future__ import annotations

import pytest

from functory.cli.output import execution_detail
from functory.engine.executions.lineage import Node
from functory.terminal import causal_tree
from functory.terminal.console import CommandOutput
from tests.unit.terminal.test_causal_tree_and_explanations import NOW, asked, execution, explain


def shown(capsys: pytest.CaptureFixture[str], **fields: object) -> dict[str, str]:
    """The lines of an execution by their names."""
    row = execution(
        "f", input={}, result=None, versions=[], result_kind="json", warnings=[], resolved_by=None
    )
    found = asked(row | {"cancelled_by": None} | fields) | {
        "parent": None,
        "undoes": None,
        "plan": [],
        "events": [],
    }
    execution_detail.draw(CommandOutput(), found, places=(), attempts=(), calls=0, log_lines=1)
    lines = capsys.readouterr().out.splitlines()[1:]
    return {name: rest.strip() for name, _, rest in (line.partition("  ") for line in lines)}


def test_the_attempts_of_a_function_without_retries_do_not_promise_three(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = shown(capsys)["attempts"]
    assert said == "1 (at most 1 when it fails, 3 when its workers are lost)"
    assert shown(capsys, retries=2)["attempts"] == "1 of at most 3"
    assert shown(capsys, retries=5, max_attempts=4)["attempts"] == "1 of at most 4"


def test_who_cancelled_an_execution_is_named_as_a_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, cancelled_by="root")["cancelled by"] == "the user root"
    assert shown(capsys, cancelled_by="execution e1")["cancelled by"] == "execution e1"
    running = execution("f", state="running", cancelled_by="root", cancel_requested_at=NOW)
    assert explain(asked(running))[-1] == "Its worker has been asked to stop it by the user root."
    node = Node("execution", "e", running | {"resolved_by": None})
    assert "is being cancelled by the user root" in "".join(text for text, _ in causal_tree.label(node))


def test_one_line_of_a_log_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys)["log"].startswith("1 line: ")

"""What a command says below the result of an execution: matches that failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_shell import Shell

pytest_plugins = ["tests.support.world"]

OF_LOAD = json.dumps({"type": ["execution.succeeded"], "subject": ["load"]})
OF_REPORT = json.dumps({"type": ["execution.succeeded"], "subject": ["report"]})


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    """A command line whose function ``report`` takes a number, which the output of ``load`` is not."""
    shell = Shell(tmp_path, database=migrated_file)
    (tmp_path / "load.py").write_text("def load():\n    return 'a'\n")
    (tmp_path / "report.py").write_text("def report(number: int = 0):\n    return number\n")
    shell.run("function", "add", "load.py", "report.py")
    return shell


def test_a_run_warns_of_a_match_whose_input_does_not_fit(shell: Shell) -> None:
    given = '{"number": "{{ data.output }}"}'
    shell.run("trigger", "add", "on-load", "--on", OF_LOAD, "--function", "report", "--input", given)
    done = shell.run("run", "load")
    (id_,) = (row["id"] for row in shell.json("execution", "list"))
    assert "warning: the trigger on-load has not fired: input_error: " in done.stderr
    assert f"what to do: functory execution why {id_}" in done.stderr
    assert "warning" not in shell.run("run", "load", "--quiet").stderr
    assert "change the parameters of its function" in shell.out("execution", "why", id_)


def test_a_run_warns_of_failed_matches_of_all_that_it_caused_and_counts_the_further_ones(
    shell: Shell,
) -> None:
    shell.run(
        "trigger", "add", "on-load", "--on", OF_LOAD, "--function", "report", "--input", '{"number": 1}'
    )
    for number in range(7):
        shell.run("trigger", "add", f"on-report-{number}", "--on", OF_REPORT, "--function", "missing")
    done = shell.run("run", "load")
    report, load = (row["id"] for row in shell.json("execution", "list"))
    assert done.stderr.count("has not fired: function_unavailable") == 5
    assert f"functory execution why {report}" in done.stderr
    assert f"2 more matches were suppressed: functory execution tree {load}" in done.stderr

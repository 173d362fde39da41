"""``functory pack import``: what it reports of each action, and what it stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_shell import Shell

pytest_plugins = ["tests.support.world"]

DATA = Path(__file__).parents[3] / "data"
SUMS = str(DATA / "packs" / "sums")


@pytest.fixture
def empty(tmp_path: Path) -> Shell:
    """The command line in an empty folder, without any setting."""
    shell = Shell(tmp_path)
    del shell.environment["FUNCTORY_HOME"]
    return shell


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    return Shell(tmp_path, database=migrated_file)


@pytest.fixture
def without_index(shell: Shell) -> Shell:
    """The command line with an index of packages that has none."""
    (shell.folder / "index").mkdir()
    shell.environment["FUNCTORY_PACKAGE_INDEX"] = (shell.folder / "index").as_uri()
    return shell


def imported(shell: Shell, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report, and its entries by name."""
    report = shell.json("pack", "import", "stackstorm", SUMS, *options)
    return report, {entry["name"]: entry for entry in report["entries"]}


def states(entries: dict[str, Any]) -> dict[str, Any]:
    """The outcome of each action, with what it needs."""
    return {
        name: (entry["outcome"], {need["kind"] for need in entry["needs"]})
        for name, entry in entries.items()
        if entry["kind"] == "action"
    }


def test_a_dry_run_creates_no_database(empty: Shell) -> None:
    empty.run("pack", "import", "stackstorm", str(DATA / "st2_pack"), "--dry-run")
    assert list(empty.folder.iterdir()) == []


STATES: dict[str, Any] = {
    "add": ("runs", set()),
    "with_unit": ("needs", {"config"}),
    "with_six": ("needs", {"packages"}),
    "absent_package": ("needs", {"package"}),
    "address": ("needs", {"package"}),
    "fetch": ("needs", {"host"}),
    "program": ("needs", {"subprocess"}),
    "old_names": ("cannot", set()),
    "broken": ("cannot", set()),
    "platform_user": ("cannot", set()),
}


def test_every_action_runs_or_needs_something_or_cannot(without_index: Shell) -> None:
    report, entries = imported(without_index)
    assert states(entries) == STATES
    assert report["actions"] == {"runs": 1, "needs": 6, "cannot": 3}
    assert entries["old_names"]["why"] == "it is for Python 2: it imports urllib2"
    assert "KeyError: 'limit'" in entries["broken"]["why"]
    assert "requirements.txt has git+https" in entries["address"]["needs"][0]["what"]
    assert "no line of requirements.txt brings" in entries["absent_package"]["needs"][0]["what"]
    stored = {row["name"] for row in without_index.json("function", "list")}
    assert stored == {f"sums_{name}" for name, (outcome, _) in STATES.items() if outcome != "cannot"}


def test_a_dry_run_knows_the_same(empty: Shell) -> None:
    assert states(imported(empty, "--dry-run")[1]) == STATES


def test_an_action_that_runs_really_runs_with_its_modules(without_index: Shell) -> None:
    imported(without_index)
    assert without_index.out("run", "sums_add", "--input", "values=[1, 2.5]").split()[0] == "4"


def test_what_an_action_needs_can_be_given(without_index: Shell) -> None:
    shell = without_index
    (shell.folder / "sums.yaml").write_text("unit: kg\n")
    options = ("--config", str(shell.folder / "sums.yaml"), "--host", "api.example.com")
    _, entries = imported(shell, *options)
    assert {name: entries[name]["outcome"] for name in ("with_unit", "fetch")} == {
        "with_unit": "runs",
        "fetch": "runs",
    }
    assert shell.out("run", "sums_with_unit", "--input", "values=[1]").startswith('"1 kg"')
    shell.run("grant", "allow", "sums_program", "subprocess", "--reason", "it lists files")
    assert imported(shell, *options)[1]["program"]["outcome"] == "runs"


def test_lines_of_requirements_that_are_not_taken_are_named(empty: Shell) -> None:
    report, _ = imported(empty, "--dry-run")
    (notes,) = [entry["notes"] for entry in report["entries"] if entry["kind"] == "requirements"]
    assert [("index is chosen" in note, "not from an address" in note) for note in notes] == [
        (True, False),
        (False, True),
    ]


def test_timers_become_schedules_and_webhooks_sources(without_index: Shell) -> None:
    report, _ = imported(without_index)
    assert report["rules"] == {"imported": 2, "paused": 0, "left out": 0}
    assert without_index.json("schedule", "show", "sums.hourly")["config"]["every"] == "1h"
    webhook = without_index.json("webhook", "show", "sums-measured")["config"]
    assert (webhook["auth"]["header"], webhook["headers"]) == ("st2-api-key", ["x-kind"])
    again, _ = imported(without_index)
    assert again["rules"] == report["rules"]

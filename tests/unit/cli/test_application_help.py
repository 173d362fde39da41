"""Help: every command has it, and the first page costs no library."""

import json
import subprocess
import sys
from typing import Any

import pytest
import typer

from functory.cli import application, command_index
from functory.cli.main import main

# What must not be loaded before a command is run.
HEAVY = (
    "functory.engine.database.connection",
    "functory.client.functory",
    "sqlalchemy",
    "celery",
    "kombu",
    "pydantic",
    "rich",
    "structlog",
    "fastapi",
    "alembic",
    "cryptography",
)


def every_command() -> list[list[str]]:
    found: list[list[str]] = []
    for entry in command_index.entries():
        command: Any = application.load_command(entry)
        found.append([entry.name])
        found += _below([entry.name], command)
    return found


def _below(words: list[str], command: Any) -> list[list[str]]:
    found: list[list[str]] = []
    for verb, own in getattr(command, "commands", {}).items():
        found += [[*words, verb], *_below([*words, verb], own)]
    return found


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_every_command_has_help_and_an_example_of_its_own(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Usage: functory")
    if len(command) > 1 and "COMMAND [ARGS]" not in said:
        assert f"Example: {'EDITOR=nano ' if command[1] == 'edit' else ''}functory {command[0]}" in said


def test_aliases_are_the_nouns(capsys: pytest.CaptureFixture[str]) -> None:
    for alias in ("fn", "tr", "ev", "exec", "ex"):
        assert main([alias, "--help"]) == 0
        assert f"Usage: functory {alias}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], [], ["--version"]], ids=str)
def test_the_first_page_loads_no_library(arguments: list[str]) -> None:
    assert loaded(arguments, "typer", *HEAVY) == []


@pytest.mark.parametrize("arguments", [["function", "--help"], ["run", "--help"], ["execution"]], ids=str)
def test_the_help_of_a_noun_loads_no_engine(arguments: list[str]) -> None:
    # Typer itself takes pydantic to read options.
    assert loaded(arguments, *(name for name in HEAVY if name != "pydantic")) == []


def loaded(arguments: list[str], *names: str) -> list[str]:
    """Which of the modules a command line has imported, in a process of its own."""
    program = (
        "import json, sys\n"
        "from functory.cli.main import main\n"
        f"status = main({arguments!r})\n"
        f"json.dump([name for name in {names!r} if name in sys.modules], sys.stderr)\n"
        "raise SystemExit(status)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout
    return json.loads(done.stderr)


def test_a_misspelt_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["functoin", "list"]) == 2
    assert "did you mean function?" in capsys.readouterr().err


def test_wrong_options_are_usage_errors_in_the_house_style(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["function", "add"],
        ["function", "list", "--nope"],
        ["event", "list", "-n", "0"],
        ["fn", "nope"],
    ):
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert said.err.startswith("error: ") and "\n  try: functory " in said.err and not said.out


def test_the_completion_offers_nouns_and_verbs() -> None:
    command = typer.main.get_command(application.app)
    with command.make_context("functory", [], resilient_parsing=True) as context:
        assert {"function", "run", "doctor"} <= {item.value for item in command.shell_complete(context, "")}


def test_a_defect_shows_its_traceback_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(entry: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(application, "load_command", broken)
    assert main(["status"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" in said and "error: ZeroDivisionError: inside" in said


def test_ctrl_c_ends_with_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(entry: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(application, "load_command", interrupted)
    assert main(["status"]) == 130

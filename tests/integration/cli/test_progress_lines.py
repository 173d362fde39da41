"""Commands that take long show how far they are on a terminal, and nothing of it gets into their output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from functory.cli.main import main
from functory.client.functory import Functory
from functory.engine.maintenance.invariants import CODES
from functory.engine.settings import Settings
from functory.terminal import progress

PACK = Path(__file__).parents[2] / "data" / "packs" / "sums"

COMMANDS = [
    (["verify", "--deep", "--since", "1h"], f"0/{len(CODES)} invariants"),
    (["verify", "--only", "I1"], "0/1 invariants"),
    (["pack", "import", "stackstorm", str(PACK), "--dry-run"], "entries"),
    (["db", "prune", "--older", "1ms"], "rows are deleted"),
    (["db", "backup", "made.backup"], "copying"),
    (["execution", "retry", "--all", "--yes"], "0/2 executions"),
    (["execution", "cancel", "--all", "--yes"], "0/1 executions"),
    (["event", "emit", "--file", "events.jsonl"], "3/3 events"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two failed executions and a queued one, that no process works on."""
    monkeypatch.setenv("FUNCTORY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FUNCTORY_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events.jsonl").write_text('{"type": "seen"}\n' * 3)
    with Functory(Settings(home=tmp_path / "home")) as engine:
        engine.functions.save("def fail() -> None:\n    raise ValueError('no')\n")
        for _ in range(2):
            engine.run("fail", {})
    with Functory(Settings(home=tmp_path / "home")) as engine:
        engine.executions.start("fail", {}, cause="manual", author="ada")
    return tmp_path


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[" ".join(one[:3]) for one, _ in COMMANDS])
def test_a_long_command_shows_how_far_it_is(
    command: list[str],
    shown: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*command, "--json"]) == 0
    said = capsys.readouterr()
    assert shown in said.err
    json.loads(said.out)

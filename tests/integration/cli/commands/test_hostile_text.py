"""Text from outside on the terminal: no command prints what a terminal would obey, and no line of it can be forged."""

import json
import re

import pytest
from typer.testing import CliRunner

from functory.cli import session
from functory.cli.application import app
from functory.client import Functory
from functory.engine.serialization.control_characters import CONTINUATION
from functory.terminal import console

pytest_plugins = ["tests.support.world"]

EVIL = "a\x1b[2Jb\x9bc\u202ed\u2066e\u200bf\ufeffg"
FORGED = "+0.001 stderr forged"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("terminal", [False, True])
def test_no_command_prints_what_a_terminal_obeys(
    engine: Functory, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = f"{EVIL}\n{FORGED}\n"
    engine.functions.save("def helper(x):\n    return x\n")
    engine.functions.save(
        f"def hostile(x):\n    '''{EVIL}'''\n    import sys\n    from functory import log\n"
        f"    log({evil!r})\n    print({EVIL!r})\n    helper({evil!r})\n    raise ValueError({evil!r})\n",
        name="hostile",
        metadata={"note": evil},
        dependencies=["helper"],
    )
    engine.start()
    engine.register_trigger(
        "on-hostile", on={"type": ["hostile"]}, function="hostile", input={"x": "{{ event.data.value }}"}
    )
    id_ = engine.emit("hostile", {"value": evil}, subject=evil.replace("\x1b", "").replace("\x9b", ""))
    engine.settle(60)
    (row,) = engine.executions.list(function="hostile")
    plain = console.CommandOutput.__init__

    def made(out: console.CommandOutput, **given: bool) -> None:
        plain(out, **given)
        out.is_terminal = terminal

    monkeypatch.setattr(console.CommandOutput, "__init__", made)
    commands = [
        ["event", "list"], ["event", "show", id_], ["event", "show", id_, "--json"], ["execution", "list"],
        ["execution", "show", row["id"]], ["execution", "logs", row["id"]], ["execution", "spans", row["id"]],
        ["execution", "tree", row["id"]], ["execution", "why", row["id"]], ["function", "list"],
        ["function", "show", "hostile"], ["function", "versions", "hostile"], ["trigger", "list"],
        ["trigger", "show", "on-hostile"], ["trigger", "graph"], ["status"],
    ]  # fmt: skip
    for command in commands:
        with session.sharing(engine):
            done = CliRunner().invoke(app, command)
        if "--json" in command and not terminal:
            assert json.loads(done.output)["data"]["value"] == evil
            continue
        shown = COLOURS.sub("", done.output)
        assert not HARMFUL.search(shown), (command, HARMFUL.findall(shown))
        for line in shown.split("\n"):
            assert not line.startswith(FORGED), (command, line)
    with session.sharing(engine):
        logs = CliRunner().invoke(app, ["execution", "logs", row["id"]]).output
    assert CONTINUATION + FORGED in COLOURS.sub("", logs)

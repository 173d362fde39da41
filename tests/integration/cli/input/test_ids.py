"""Short ids and words for the newest on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from functory.cli import application, command_index, session
from functory.cli.main import main
from functory.client.functory import Functory
from functory.engine.database import short_ids
from functory.engine.errors import NotFound
from tests.support.cli_shell import Shell

pytest_plugins = ["tests.support.world"]

ID = "{}"
# By command and parameter: what its ids are of, and a command line with the id in its place.
TAKES_AN_ID: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("agent runs cancel", "run"): (("execution",), "agent runs cancel {}"),
    ("agent runs cost", "run"): (("execution",), "agent runs cost {}"),
    ("agent runs eval", "run"): (("execution",), "agent runs eval {}"),
    ("agent runs fork", "run"): (("execution",), "agent runs fork {} 1"),
    ("agent runs pause", "run"): (("execution",), "agent runs pause {}"),
    ("agent runs replay", "run"): (("execution",), "agent runs replay {}"),
    ("agent runs resume", "run"): (("execution",), "agent runs resume {}"),
    ("agent runs show", "run"): (("execution",), "agent runs show {}"),
    ("agent runs steps", "run"): (("execution",), "agent runs steps {}"),
    ("agent runs watch", "run"): (("execution",), "agent runs watch {}"),
    ("approval answer", "question"): (("approval",), "approval answer {} yes"),
    ("approval approve", "question"): (("approval",), "approval approve {}"),
    ("approval reject", "question"): (("approval",), "approval reject {}"),
    ("approval show", "question"): (("approval",), "approval show {}"),
    ("budget raise", "root"): (("execution",), "budget raise {} --usd 1"),
    ("budget show", "root"): (("execution",), "budget show {}"),
    ("event list", "--before"): (("event",), "event list --before {}"),
    ("event list", "--root"): (("execution", "event"), "event list --root {}"),
    ("event release", "id_"): (("event",), "event release {}"),
    ("event show", "id_"): (("event",), "event show {}"),
    ("event why", "id_"): (("event",), "event why {}"),
    ("execution cancel", "id_"): (("execution",), "execution cancel {}"),
    ("execution compensate", "id_"): (("execution",), "execution compensate {} --skip --reason x"),
    ("execution list", "--before"): (("execution",), "execution list --before {}"),
    ("execution list", "--root"): (("execution", "event"), "execution list --root {}"),
    ("execution logs", "id_"): (("execution",), "execution logs {}"),
    ("execution replay", "id_"): (("execution",), "execution replay {}"),
    ("execution retry", "id_"): (("execution",), "execution retry {}"),
    ("execution show", "id_"): (("execution",), "execution show {}"),
    ("execution spans", "id_"): (("execution",), "execution spans {}"),
    ("execution tree", "id_"): (("execution", "event"), "execution tree {}"),
    ("execution wait", "id_"): (("execution",), "execution wait {}"),
    ("execution why", "id_"): (("execution",), "execution why {}"),
    ("llm calls", "--execution"): (("execution",), "llm calls --execution {}"),
    ("llm calls", "--root"): (("execution",), "llm calls --root {}"),
    ("llm show", "call"): (("call",), "llm show {}"),
    ("login end", "id"): (("login",), "login end {}"),
    ("memory add", "--run"): (("execution",), "memory add text --run {}"),
    ("memory forget", "--execution"): (("execution",), "memory forget --execution {} --yes"),
    ("memory forget", "--run"): (("execution",), "memory forget --run {} --yes"),
    ("memory forget", "memory"): (("memory",), "memory forget {} --yes"),
    ("memory list", "--run"): (("execution",), "memory list --run {}"),
    ("memory search", "--run"): (("execution",), "memory search word --run {}"),
    ("memory show", "memory"): (("memory",), "memory show {}"),
    ("proposal approve", "proposal"): (("proposal",), "proposal approve {}"),
    ("proposal diff", "proposal"): (("proposal",), "proposal diff {}"),
    ("proposal reject", "proposal"): (("proposal",), "proposal reject {} --feedback x"),
    ("proposal show", "proposal"): (("proposal",), "proposal show {}"),
    ("proposal withdraw", "proposal"): (("proposal",), "proposal withdraw {}"),
    ("token revoke", "token"): (("token",), "token revoke {} --yes"),
    ("trigger budget", "root"): (("execution", "event"), "trigger budget {} 5"),
    ("trigger replay", "event"): (("event",), "trigger replay on-order {}"),
    ("trigger resume-suppressed", "--root"): (("execution", "event"), "trigger resume-suppressed --root {}"),
    ("trigger test", "--event"): (("event",), "trigger test on-order --event {}"),
}
# Parameters with such a name or help that take no id of ours.
OTHERS = {
    ("oidc", "--client-id"),
    ("watch table", "--columns"),
    ("webhook add", "--delivery"),
}
NAMES = {"id", "id_", "event", "root", "run", "call", "question", "memory", "proposal", "token", "execution"}


@pytest.fixture
def shop(engine: Functory) -> Functory:
    engine.functions.save("def work(**named):\n    return None\n")
    return engine


def run(shop: Functory, *words: str) -> int:
    with session.sharing(shop):
        return main(list(words))


def parameters() -> Iterator[tuple[str, str, str]]:
    """Every command with its parameters that take values, and their helps."""
    for entry in command_index.entries():
        for command, made in _below(entry.name, application.load_command(entry)):
            for one in made.params:
                annotation = getattr(getattr(one, "type_descriptor", None), "annotation", None)
                if not getattr(one, "is_flag", False) and annotation not in (bool, int, float):
                    yield command, one.opts[0], getattr(one, "help", None) or ""


def _below(command: str, made: Any) -> Iterator[tuple[str, Any]]:
    verbs = getattr(made, "commands", None)
    if not verbs:
        yield command, made
    for verb, own in (verbs or {}).items():
        yield from _below(f"{command} {verb}", own)


def test_every_parameter_that_takes_an_id_is_known() -> None:
    found = {
        (command, name)
        for command, name, said in parameters()
        if re.search(r"\bids?\b", said, re.IGNORECASE)
        or name in NAMES
        or name in ("--root", "--run", "--execution", "--before")
    }
    assert found - OTHERS == set(TAKES_AN_ID), (
        "put each into TAKES_AN_ID, with ids.py or find_id in the command"
    )


@pytest.mark.parametrize("parameter", TAKES_AN_ID, ids=" ".join)
def test_every_command_looks_for_the_beginning_of_an_id(
    parameter: tuple[str, str],
    shop: Functory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds, line = TAKES_AN_ID[parameter]
    asked: list[tuple[str, ...]] = []

    def find_id(text: str, *kinds: str) -> str:
        asked.append((text, *kinds))
        raise NotFound(f"looked for {text}")

    if kinds[0] not in ("token", "login"):
        monkeypatch.setattr(shop, "find_id", find_id)
    assert run(shop, *(word.replace(ID, "h0d1cef8h6") for word in line.split())) == 3
    said = capsys.readouterr().err
    if asked:
        assert "looked for h0d1cef8h6" in said
        assert [set(one) for one in asked] == [{"h0d1cef8h6", *kinds}]
    else:
        assert f"no {kinds[0]} 'h0d1cef8h6'" in said and f"functory {kinds[0]} list" in said
        assert run(shop, *(word.replace(ID, "h0") for word in line.split())) == 3
        assert "an id has 10 letters and digits" in capsys.readouterr().err


def test_tokens_and_logins_have_short_ids(shop: Functory, capsys: pytest.CaptureFixture[str]) -> None:
    shop.users.create("ada", role="admin", password=SecretStr("correct horse battery"))
    made = [shop.tokens.create("ada", name) for name in ("ci", "cd")]
    assert run(shop, "token", "revoke", short_ids.short(made[0]["id"])[:4], "--yes") == 3
    assert "several ids begin with" in (said := capsys.readouterr().err) and "ada/ci" in said
    assert run(shop, "token", "revoke", short_ids.short(made[0]["id"]).upper(), "--yes") == 0
    assert run(shop, "token", "revoke", "cd", "--yes") == 0


def test_every_command_about_one_execution_takes_a_short_id(
    shop: Functory, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = shop.executions.start("work", {"n": 1})["id"]
    short = short_ids.short(id_)
    for words in (
        ["show", short, "--json"],
        ["logs", short],
        ["spans", short],
        ["tree", short],
        ["why", short],
    ):
        assert run(shop, "execution", *words) == 0, words
    capsys.readouterr()
    assert run(shop, "execution", "show", short[:9], "--json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == id_
    assert run(shop, "execution", "list", "--root", short, "--json") == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == [id_]
    assert run(shop, "execution", "cancel", short) == 0
    assert shop.executions.get(id_)["state"] == "cancelled"
    assert run(shop, "execution", "replay", short, "--no-wait") == 0


def test_words_stand_for_the_newest_execution(shop: Functory, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shop, "execution", "show", "@last") == 3
    assert "no execution for @last" in capsys.readouterr().err
    shop.executions.start("work", {"n": 1})
    newest = shop.executions.start("work", {"n": 2})["id"]
    assert run(shop, "execution", "show", "@last", "--json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == newest
    assert run(shop, "execution", "show", "@failed") == 3
    assert run(shop, "execution", "show", "@first") == 2
    assert "@last, @failed, @running" in capsys.readouterr().err


def test_an_event_is_shown_by_its_short_id(shop: Functory, capsys: pytest.CaptureFixture[str]) -> None:
    id_ = shop.events.emit("order.created", {"n": 1})
    for words in (["show"], ["why"], ["why", "--times"]):
        assert run(shop, "event", words[0], short_ids.short(id_), *words[1:]) == 0
    assert id_ in capsys.readouterr().out
    assert run(shop, "event", "show", "@last") == 2


def test_several_ids_with_one_beginning_are_listed(
    shop: Functory, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [shop.executions.start("work", {"n": n})["id"] for n in range(2)]
    assert run(shop, "execution", "show", short_ids.short(ids[0])[:4]) == 3
    said = capsys.readouterr().err
    assert "several ids begin with" in said and all(id_ in said and "work" in said for id_ in ids)


def test_a_pipe_gets_whole_ids_and_a_terminal_short_ones(
    shop: Functory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = shop.executions.start("work", {"n": 1})["id"]
    assert run(shop, "execution", "list") == 0
    assert id_ in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(shop, "execution", "list") == 0
    said = capsys.readouterr().out
    assert short_ids.short(id_) in said and id_ not in said


def test_the_beginning_of_an_id_that_nothing_has_says_how_long_one_is(
    tmp_path: Path, migrated_file: Path
) -> None:
    shell = Shell(tmp_path, database=migrated_file)
    said = shell.run("execution", "show", "01a2", status=3).stderr
    assert "a short id has 10 characters, of which the first 4 or more are given" in said
    assert "of a whole id the first 9 or more, with its dash" in said
    assert "its first 4 are enough" in shell.run("execution", "show", "01a", status=3).stderr

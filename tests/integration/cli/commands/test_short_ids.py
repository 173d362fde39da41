"""Short ids and words for the newest on the command line."""

from __future__ import annotations

import json

import pytest

from functory.cli import session
from functory.cli.main import main
from functory.client import Functory
from functory.engine.database import short_ids

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def shop(engine: Functory) -> Functory:
    engine.functions.save("def work(**named):\n    return None\n")
    return engine


def run(shop: Functory, *words: str) -> int:
    with session.sharing(shop):
        return main(list(words))


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

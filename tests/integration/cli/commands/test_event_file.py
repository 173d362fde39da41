"""``functory event emit --file``: many events from a file or stdin."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from functory.cli.input import event_lines
from functory.cli.main import main
from functory.engine.database import schema
from functory.engine.errors import Unavailable
from functory.engine.events import emit_many
from tests.support.world import World, on_sqlite

pytest_plugins = ["tests.support.world"]
pytestmark = on_sqlite


@pytest.fixture(autouse=True)
def settings(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNCTORY_DATABASE_URL", world.url)
    monkeypatch.setenv("FUNCTORY_BROKER_URL", "none://")
    monkeypatch.setenv("FUNCTORY_HOME", str(world.home))
    monkeypatch.setattr(event_lines, "BATCH", 4)


def write(folder: Path, *lines: str) -> str:
    file = folder / "events.ndjson"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def events(count: int) -> list[str]:
    return [json.dumps({"type": "order.created", "subject": f"s{n}", "data": {"n": n}}) for n in range(count)]


def test_each_line_is_an_event(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not main(["event", "emit", "--file", write(tmp_path, *events(5), "", *events(4))])
    assert capsys.readouterr().out == "wrote 9 events\n"
    rows = world.rows(schema.event)
    assert sorted(row["data"]["n"] for row in rows) == sorted([*range(5), *range(4)])
    assert {row["source"] for row in rows} == {"/functory/cli"}


def test_stdin_is_read_like_a_file(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = io.TextIOWrapper(io.BytesIO("\n".join(events(6)).encode()))
    monkeypatch.setattr("sys.stdin", given)
    assert not main(["event", "emit", "--file", "-", "--json"])
    assert json.loads(capsys.readouterr().out) == {"written": 6}
    assert len(world.rows(schema.event)) == 6


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(b'\xef\xbb\xbf{"type": "order.created"}\n{"type": "order.\xff"}\n')
    assert main(["event", "emit", "--file", str(file)]) == 2
    assert "line 2 is not UTF-8 text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "line 7 is not JSON"),
        ('{"type": "order created"}', "line 7: wrong event type"),
        ('["order.created"]', "line 7: this is no event"),
    ],
)
def test_a_file_with_a_wrong_line_writes_nothing(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, error: str
) -> None:
    assert main(["event", "emit", "--file", write(tmp_path, *events(6), line, *events(2))]) == 2
    assert error in capsys.readouterr().err
    assert world.rows(schema.event) == []


def test_an_interrupted_file_says_how_to_go_on(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, *events(10))
    write_events, calls = emit_many.write, []

    def fail_at_the_second_batch(*args: object, **options: object) -> list[str]:
        calls.append(1)
        if len(calls) == 2:
            raise Unavailable("the database cannot be used")
        return write_events(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(emit_many, "write", fail_at_the_second_batch)
    assert main(["event", "emit", "--file", file]) != 0
    assert "4 events were written before this; to go on: --skip 4" in capsys.readouterr().err
    assert not main(["event", "emit", "--file", file, "--skip", "4"])
    assert sorted(row["data"]["n"] for row in world.rows(schema.event)) == [*range(10)]


def test_where_nothing_was_written_nothing_is_to_be_skipped(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{")))
    assert main(["event", "emit", "--file", "-"]) == 2
    assert "--skip" not in capsys.readouterr().err


def test_a_skip_of_more_events_than_there_are_is_refused(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, *events(3))
    assert main(["event", "emit", "--file", file, "--skip", "4"]) == 2
    assert "there are 3 events" in capsys.readouterr().err
    assert main(["event", "emit", "--file", file, "--skip", "3"]) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "the event has no type"),
        (["order.created", "--file", "x"], "--file takes no other event"),
        (["--file", "missing.ndjson"], "missing.ndjson cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["event", "emit", *arguments]) == 2
    assert error in capsys.readouterr().err

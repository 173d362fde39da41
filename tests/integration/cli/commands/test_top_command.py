"""``functory top``: what runs now, in a pipe, as JSON, and on a screen that is drawn anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pytest

from functory.cli.commands import top
from functory.cli.main import main
from functory.cli.output import activity
from functory.cli.session import sharing
from functory.client.functory import Functory
from functory.engine.errors import Unavailable
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.terminal import screen
from functory.terminal.console import CommandOutput

pytest_plugins = ["tests.support.world"]

LINES = 20


@pytest.fixture
def busy(engine: Functory) -> Iterator[Functory]:
    """30 executions of `work` run, and one of `other` has failed."""
    for name in ("work", "other"):
        engine.functions.save(f"def {name}(**named: object) -> None:\n    return None\n")
    worker = Attempts(engine.database, "worker-1", lease_seconds=30)
    (claim,) = worker.claim([engine.executions.start("other", {})["id"]])
    worker.finish(claim, AttemptResult("failed", error={"type": "ValueError", "message": "no"}))
    worker.claim([engine.executions.start("work", {})["id"] for _ in range(30)])
    with sharing(engine):
        yield engine


def test_a_pipe_gets_one_look(busy: Functory, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "-n", "3"]) == 0
    said = capsys.readouterr().out
    assert "30 running, 0 queued" in said and "1 failed" in said and "no worker is alive" in said
    lines = said.splitlines()
    assert re.fullmatch(r"work\t30\t0\t0\t\t", lines[lines.index("functions, 5 minutes") + 1])
    assert len([line for line in lines if "\twork@1\t" in line]) == 3
    assert lines[-1] == "and 27 more"


class FakeScreen:
    """A screen of 20 lines that is looked at three times."""

    height = LINES

    def __init__(self) -> None:
        self.looks = 0

    def __enter__(self) -> FakeScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def draw(self, show: Any) -> None:
        print("<<")
        show()
        print(">>")

    def wait(self, seconds: float) -> bool:
        self.looks += 1
        return self.looks < 3


def test_a_screen_fits_and_keeps_what_was_seen_while_the_database_is_away(
    busy: Functory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, read = [], busy.inspections.activity

    def look(**given: Any) -> Any:
        looks.append(given)
        if len(looks) == 2:
            raise Unavailable("the database does not answer")
        return read(**given)

    monkeypatch.setattr(busy.inspections, "activity", look)
    monkeypatch.setattr(screen, "Screen", FakeScreen)
    monkeypatch.setattr(CommandOutput, "is_terminal", True, raising=False)
    with sharing(busy):
        top._follow(busy, CommandOutput(), 5, 100, 1.0)
    frames = re.findall(r"<<\n(.*?)>>\n", capsys.readouterr().out, re.S)
    assert len(frames) == len(looks) == 3
    assert ["not newer: the database does not answer" in frame for frame in frames] == [False, True, False]
    assert all("30 running" in frame for frame in frames)
    assert all(len(frame.splitlines()) < LINES for frame in frames)
    assert "more" in frames[0]


def test_the_first_look_says_that_the_database_is_away(
    busy: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(**given: Any) -> Any:
        raise Unavailable("the database does not answer")

    monkeypatch.setattr(busy.inspections, "activity", look)
    assert main(["top", "--once"]) == Unavailable.code


@pytest.mark.parametrize(("functions", "executions"), [(0, 0), (50, 50), (1, 50), (50, 0), (3, 2)])
def test_rows_share_the_lines_that_there_are(functions: int, executions: int) -> None:
    first, second = activity._fitting(range(functions), range(executions), 10)
    assert len(first) + len(second) <= max(10, 1)
    assert len(first) == min(functions, 10 - min(executions, 5) if functions > 5 else functions)
    assert len(second) == min(executions, 10 - len(first))

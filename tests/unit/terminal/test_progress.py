"""The line that shows how far a long command is."""

from __future__ import annotations

import re
import sys

import pytest

from functory.terminal import progress as module
from functory.terminal.progress import Tell, progress


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make stderr a terminal, and all work long."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    """What the terminal has shown, without its escapes."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)


def test_a_terminal_shows_what_is_done_of_how_much_and_the_rest_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    with progress(2000, "events") as tell:
        for done in range(0, 2000, 400):
            tell(done)
    said = shown(capsys)
    assert "1,600/2,000 events" in said
    assert re.search(r"events (--:--|\d\d:\d\d)", said)


def test_the_line_is_gone_at_the_end_also_of_work_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), progress(3, "events") as tell:
        tell(1)
        raise ZeroDivisionError
    # The line is erased, and the cursor is shown again.
    assert capsys.readouterr().err.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


def test_what_is_printed_on_stdout_meanwhile_stays_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    with progress(3, "events") as tell:
        tell(1)
        sys.stdout.write('{"id": 1}\n')
    assert capsys.readouterr().out == '{"id": 1}\n'


def test_a_total_may_become_known_and_steps_have_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)

    def work(tell: Tell) -> None:
        tell(0, what="checking")
        tell(512, 1024, what="copying")
        tell(7, what="settling")

    with progress() as tell:
        work(tell)
    said = shown(capsys)
    assert "checking" in said and "copying 50 %" in said and "settling 7" in said


def test_quick_work_draws_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress(3, "events") as tell:
        tell(1)
        tell(3)
    assert capsys.readouterr().err == ""


def test_without_a_terminal_nothing_is_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.0)
    with progress(3, "events") as tell:
        tell(1)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")

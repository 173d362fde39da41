"""What code prints is on the terminal while the execution runs: of `functory run` and `execution logs --follow`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.support.cli_shell import Shell
from tests.support.console_script import PROGRAM, ConsoleScript

# It ends only after the test.
TALK = """
import time

def talk() -> str:
    print("first line", flush=True)
    time.sleep(600)
    return "the end"
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    (tmp_path / "talk.py").write_text(TALK)
    made.run("function", "add", "talk.py")
    return made


@pytest.mark.timeout(120)
def test_run_shows_a_line_before_the_function_ends(shell: Shell) -> None:
    with _started(shell, "run", "talk") as process:
        _read_until(process, process.stderr, "first line")


@pytest.mark.timeout(120)
def test_a_log_that_is_followed_shows_a_line_before_the_function_ends(shell: Shell) -> None:
    id_ = shell.out("run", "talk", "--no-wait")
    with _started(shell, "execution", "logs", id_, "--follow") as process:
        _read_until(process, process.stdout, "first line")


def _started(shell: Shell, *arguments: str) -> _Ended:
    return _Ended(
        ConsoleScript(
            [PROGRAM, *arguments],
            cwd=shell.folder,
            env=shell.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


class _Ended:
    """A process that is killed at the end of a block."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __enter__(self) -> subprocess.Popen[str]:
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()


def _read_until(process: subprocess.Popen[str], pipe: IO[str] | None, text: str) -> None:
    assert pipe is not None
    lines: Iterator[str] = iter(pipe)
    assert any(text in line for line in lines), f"{process.args} has ended without {text!r}"
    assert process.poll() is None

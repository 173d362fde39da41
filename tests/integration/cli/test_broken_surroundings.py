"""What a machine, a shell or a limit takes from a command is named, and what the command can do without it works."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.cli_shell import Shell
from tests.support.console_script import PROGRAM
from tests.support.patience import patient

RUN = "exec {functory} run hello --input name=ada"
LIST = "exec {functory} function list --quiet"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    made = Shell(tmp_path_factory.mktemp("surroundings"))
    (made.folder / "hello.py").write_text('def hello(name: str) -> str:\n    return "hi " + name\n')
    made.run("function", "add", "hello.py")
    return made


def started(shell: Shell, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the shell in a process of its own: a fork of a server has none of this."""
    return subprocess.run(
        ["sh", "-c", script.replace("{functory}", shlex.quote(str(PROGRAM)))],
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patient(60),
    )


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        pytest.param(f"ulimit -n 5; {LIST}", 6, "(ulimit -n)", id="no file more"),
        pytest.param(f"ulimit -n 20; {RUN}", 6, "a sandbox needs 64", id="few files"),
        pytest.param(f"{LIST} >&-", 2, "a stream that is needed is closed", id="no stdout"),
        pytest.param(f"{LIST} >/dev/full", 6, "No space left on device", id="full stdout"),
        pytest.param(f"mkdir gone; cd gone; rmdir ../gone; {LIST}", 2, "folder is gone", id="no folder"),
    ],
)
def test_what_is_missing_is_named(shell: Shell, script: str, status: int, said: str) -> None:
    done = started(shell, script)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr and "try: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("script", "output"),
    [
        pytest.param(f"umask 0777; {RUN}", '"hi ada"\n', id="no rights for new files"),
        pytest.param(f"{RUN} <&-", '"hi ada"\n', id="no stdin"),
        pytest.param(f"{RUN} 2>&-", '"hi ada"\n', id="no stderr"),
        pytest.param(f"unset HOME USER LOGNAME LANG PATH; {RUN}", '"hi ada"\n', id="no variables"),
        pytest.param(f"LC_ALL=C PYTHONIOENCODING=ascii {RUN}", '"hi ada"\n', id="ascii only"),
    ],
)
def test_what_is_not_needed_may_be_missing(shell: Shell, script: str, output: str) -> None:
    done = started(shell, script)
    assert (done.returncode, done.stdout) == (0, output), done.stderr
    assert Path(shell.environment["FUNCTORY_HOME"], "functory.db").stat().st_mode & 0o600 == 0o600

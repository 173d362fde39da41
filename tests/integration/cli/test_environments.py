"""Commands in the environments that a user's machine may have: folders, encodings, users."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from functory.engine.host_name import host_name
from functory.os_user import os_user
from tests.support.console_script import PROGRAM
from tests.support.patience import patient

pytestmark = pytest.mark.timeout(patient(300))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a function, and an environment without settings."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "add_one.py").write_text("def add_one(x: int) -> int:\n    return x + 1\n")
    assert run("function", "add", "add_one.py", cwd=folder, env=plain()).returncode == 0
    return folder


def run(*arguments: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    # A start of its own: Python reads what these tests set at its start.
    return subprocess.run(
        [PROGRAM, *arguments], cwd=cwd, env=env, capture_output=True, encoding="utf-8", errors="replace",
        stdin=subprocess.DEVNULL, timeout=patient(100), check=False,
    )  # fmt: skip


def plain(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("FUNCTORY_")} | more


@pytest.mark.parametrize("length", [75, 95, 200])
def test_functions_run_with_a_long_folder_for_temporary_files(project: Path, tmp_path: Path, length: int):
    folder = tmp_path / ("t" * length)
    folder.mkdir()
    done = run("run", "add_one", "--input", "x=1", cwd=project, env=plain(TMPDIR=str(folder)))
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["a b", "a'\"$(x)", "a%41?#:;", "-x", "é"])
def test_functions_run_whatever_the_folder_for_temporary_files_is_called(
    project: Path, tmp_path: Path, name: str
):
    folder = tmp_path / name
    folder.mkdir()
    done = run("run", "add_one", "--input", "x=1", cwd=project, env=plain(TMPDIR=str(folder)))
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_a_folder_for_temporary_files_that_is_no_text_is_refused_by_name(project: Path, tmp_path: Path):
    folder = tmp_path / "a\udcff"
    folder.mkdir()
    done = run("run", "add_one", "--input", "x=1", cwd=project, env=plain(TMPDIR=str(folder)))
    assert done.returncode != 0
    assert "the folder for temporary files (TMPDIR) is not UTF-8" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii:strict"},
    ],
    ids=lambda environment: next(iter(environment.items()))[1],
)
def test_output_never_fails_for_an_encoding(project: Path, environment: dict[str, str]):
    event = '{"text": "grüße €𝄞"}'
    sent = run("event", "emit", "note.written", "--data", event, cwd=project, env=plain())
    assert sent.returncode == 0, sent.stderr
    for command in (("event", "show", sent.stdout.strip()), ("run", "grüße")):
        done = run(*command, cwd=project, env=plain(**environment))
        assert "UnicodeEncodeError" not in done.stdout + done.stderr, command
        assert done.stdout or done.stderr
    shown = run("event", "show", sent.stdout.strip(), "--json", cwd=project, env=plain(**environment))
    if "latin-1" not in environment.values():
        assert json.loads(shown.stdout)["data"] == json.loads(event)


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ('"$0" --version >/dev/full', "No space left on device"),
        ('ulimit -f 100; "$0" db backup copy.backup', "copy.backup"),
    ],
    ids=["a full disk", "a limit of file sizes"],
)
def test_a_limit_of_the_system_is_an_error_in_three_parts(project: Path, shell: str, said: str):
    done = subprocess.run(
        ["sh", "-c", shell, PROGRAM], cwd=project, env=plain(), capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=patient(100), check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.count("error: ") == 1 and "\n  try: " in done.stderr and said in done.stderr
    assert "Traceback" not in done.stderr and "defect" not in done.stderr


def test_a_host_name_is_always_a_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "a b\udcff\x1b")
    assert host_name() == "a b??"


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to become a user without an entry")
def test_a_user_without_an_entry_in_the_password_file_has_a_number():
    code = "import os; os.setuid(54321); from functory.os_user import os_user; print(os_user())"
    environment = {name: value for name, value in os.environ.items() if name not in ("USER", "LOGNAME")}
    done = subprocess.run(
        [sys.executable, "-c", "import functory.os_user\n" + code],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "54321\n", done.stderr


def test_a_user_is_called_by_the_name_of_the_session(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("USER", "ada")
    assert os_user() == "ada"

"""What fails beside other tests runs again alone: planted tests in a folder of their own, run as `make test` does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.second_look import MOST

ROOT = Path(__file__).parents[3]

ONCE = """
import pathlib
BEEN = pathlib.Path({been!r})

def test_fails_once():
    if not BEEN.exists():
        BEEN.touch()
        raise AssertionError("the machine was busy")
"""

ALWAYS = """
def test_fails_always():
    assert 1 == 2, "the product is broken"
"""

HANGS = """
import threading

import pytest

@pytest.mark.timeout(1)
def test_hangs():
    threading.Event().wait(60)
"""

# Its set-up fails once: pytest counts that as an error.
BROKEN_SETUP = """
import pathlib, pytest
BEEN = pathlib.Path({been!r})

@pytest.fixture
def server():
    if not BEEN.exists():
        BEEN.touch()
        raise OSError("no port was free")

def test_with_a_server(server):
    pass
"""

DIES_ONCE = """
import os, pathlib
BEEN = pathlib.Path({been!r})

def test_dies_once():
    if not BEEN.exists():
        BEEN.touch()
        os._exit(7)
"""

SKIPPED_LATER = """
import pathlib, pytest
BEEN = pathlib.Path({been!r})

def test_is_skipped_later():
    if BEEN.exists():
        pytest.skip("no server")
    BEEN.touch()
    assert False
"""

# Of all that are installed only those that are used: each of dozens of processes would load the others.
PLUGINS = ("xdist", "timeout", "hypothesispytest", "tests.support.second_look")

GOOD = "def test_passes():\n    pass\n"


class Planted:
    """A folder with planted tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "planted"
        self.folder.mkdir()
        plugins = " ".join(f"-p {name}" for name in PLUGINS)
        (self.folder / "pytest.ini").write_text(f"[pytest]\naddopts = -q {plugins}\n")

    def add(self, name: str, text: str) -> None:
        """Add a file of tests."""
        been = self.folder.parent / f"{name}-has-run"
        (self.folder / f"test_{name}.py").write_text(text.replace("{been!r}", repr(str(been))))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run all of them, two at a time."""
        argv = [sys.executable, "-m", "pytest", "--second-look", "--hypothesis-seed=7", "-n", "2", *arguments]
        environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        return subprocess.run(
            argv, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


def closing(done: subprocess.CompletedProcess[str]) -> str:
    """The closing line of pytest, without its time."""
    return re.sub(r" in [0-9].*", "", done.stdout.strip().splitlines()[-1])


def test_what_passes_alone_is_named_and_the_run_is_green(planted: Planted) -> None:
    planted.add("once", ONCE)
    planted.add("setup", BROKEN_SETUP)
    planted.add("dies", DIES_ONCE)
    planted.add("good", GOOD)
    done = planted.run()
    assert done.returncode == 0, done.stdout
    section = done.stdout.partition("PASSED ALONE")[2]
    for test, first in (
        ("test_once.py::test_fails_once", "test_once.py:8: AssertionError: the machine was busy"),
        ("test_setup.py::test_with_a_server", "test_setup.py:9: OSError: no port was free"),
        ("test_dies.py::test_dies_once", "worker 'gw"),
    ):
        named = section.partition(f"{test}\n")[2].splitlines()
        assert named[0].strip().startswith(first)
        assert named[1].strip() == f'make test ARGS="-n 0 --hypothesis-seed=7 {test}"'
    assert closing(done) == "1 passed, 3 passed alone"


def test_what_fails_or_hangs_alone_makes_the_run_red(planted: Planted) -> None:
    for name, text in {"once": ONCE, "always": ALWAYS, "hangs": HANGS, "skipped": SKIPPED_LATER}.items():
        planted.add(name, text)
    done = planted.run()
    assert done.returncode == 1, done.stdout
    looked = done.stdout.partition("A SECOND LOOK")[2]
    assert "the product is broken" in looked
    assert set(re.findall(r"(passed|FAILED) alone in [0-9.]+ s: (\S+)", looked)) == {
        ("passed", "test_once.py::test_fails_once"),
        ("FAILED", "test_always.py::test_fails_always"),
        ("FAILED", "test_hangs.py::test_hangs"),
        ("FAILED", "test_skipped.py::test_is_skipped_later"),
    }
    assert closing(done) == "3 failed, 1 passed alone"


@pytest.mark.parametrize(
    ("arguments", "status", "files"),
    [
        ((), 1, {"import": "import no_such_module\n", "once": ONCE}),
        ((), 1, {"many": "\n".join(f"def test_{n}(): assert 0" for n in range(MOST + 1)), "once": ONCE}),
        # The run was ended early: what has not run has not passed.
        (("-x",), 2, {"once": ONCE}),
        (("-x", "-n", "0"), 1, {"once": ONCE}),
    ],
    ids=["broken import", "too many", "first failure ends it", "first failure ends it in one process"],
)
def test_a_run_that_a_busy_machine_does_not_explain_is_red_at_once(
    planted: Planted, arguments: tuple[str, ...], status: int, files: dict[str, str]
) -> None:
    for name, text in files.items():
        planted.add(name, text)
    done = planted.run(*arguments)
    assert done.returncode == status, done.stdout
    assert "A SECOND LOOK" not in done.stdout
    assert "PASSED ALONE" not in done.stdout


def test_a_run_without_failures_looks_as_ever(planted: Planted) -> None:
    planted.add("good", GOOD)
    done = planted.run()
    assert (done.returncode, closing(done)) == (0, "1 passed")
    assert "SECOND LOOK" not in done.stdout


def test_the_test_commands_look_twice() -> None:
    makefile = (ROOT / "Makefile").read_text()
    ran = [line for line in makefile.splitlines() if "-m pytest" in line]
    assert len(ran) == 3
    assert all("--second-look" in line for line in ran)

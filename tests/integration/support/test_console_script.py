"""A quick start of ``functory``: what a test sees of the process is what it sees of one of the console script."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from functory.workers.sandbox.confinement.seccomp.syscall_numbers import NUMBERS
from tests.support.console_script import PROGRAM, ConsoleScript, run, shell_folder
from tests.support.patience import patient
from tests.support.waiting import wait_for

PIPES: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
# Reads its input to the end.
READS = ("function", "add", "-")


def environment(folder: Path, **more: str) -> dict[str, str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("FUNCTORY_")}
    return outside | {"FUNCTORY_HOME": str(folder / "home"), **more}


def wait_until_reading(pid: int) -> None:
    """Wait until the process reads its standard input."""
    read = f"{NUMBERS[platform.machine()]['read']} 0x0 "
    wait_for(lambda: Path(f"/proc/{pid}/syscall").read_text().startswith(read), "it reads")


def facts(process: subprocess.Popen[Any]) -> dict[str, Any]:
    """What the kernel says about a process."""
    place = Path(f"/proc/{process.pid}")
    status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines())
    names = ("PPid", "Umask", "Threads", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs")
    return {name: status[name].strip() for name in names} | {
        "files": sorted(
            (int(file.name), str(file.readlink()).partition(":")[0]) for file in (place / "fd").iterdir()
        ),
        "folder": str((place / "cwd").readlink()),
        "group": os.getpgid(process.pid) == process.pid,
        "session": os.getsid(process.pid) == process.pid,
        "limits": (place / "limits").read_text(),
    }


def test_the_kernel_says_the_same_of_a_fork_as_of_the_console_script(tmp_path: Path) -> None:
    options = {"cwd": tmp_path, "env": environment(tmp_path), "start_new_session": True, **PIPES}
    with (
        ConsoleScript([PROGRAM, *READS], **options) as fork,
        subprocess.Popen([PROGRAM, *READS], **options) as real,
    ):
        for process in (fork, real):
            wait_until_reading(process.pid)
        assert facts(fork) == facts(real)
        assert facts(fork)["PPid"] == str(os.getpid())
        assert Path(f"/proc/{fork.pid}/comm").read_text() == "functory-functi\n"
        ends = [process.communicate(b"x = 1\n") for process in (fork, real)]
        assert all(said == b"" and b"error: the source holds no function" in error for said, error in ends)
        assert fork.returncode == real.returncode == 2


def test_a_fork_has_its_arguments_environment_folder_outputs_and_exit_status(tmp_path: Path) -> None:
    (tmp_path / "functory.toml").write_text('namespace = "of-the-folder"\n')
    answers = run("config", "--json", cwd=tmp_path, env=environment(tmp_path, FUNCTORY_MAX_DEPTH="7"))
    assert (answers.returncode, answers.stderr) == (0, "")
    values = {row["name"]: row["value"] for row in json.loads(answers.stdout)}
    assert (values["namespace"], values["max_depth"]) == ("of-the-folder", 7)
    refused = run("function", "show", "missing", cwd=tmp_path, env=environment(tmp_path))
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "error: there is no database yet" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_a_fork_and_its_parent_sees_which(tmp_path: Path, number: int) -> None:
    with ConsoleScript([PROGRAM, *READS], cwd=tmp_path, env=environment(tmp_path), **PIPES) as fork:
        assert fork.poll() is None
        assert os.getpgid(fork.pid) == os.getpgid(0)
        fork.send_signal(number)
        assert fork.wait(patient(10)) == -number


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_PRELOAD", "LC_ALL"])
def test_what_a_process_reads_at_its_start_makes_it_start_anew(tmp_path: Path, name: str) -> None:
    value = {"LC_ALL": "C"}.get(name, "")
    with ConsoleScript([PROGRAM, *READS], env=environment(tmp_path, **{name: value}), **PIPES) as process:
        words = Path(f"/proc/{process.pid}/cmdline")
        # Of a fork they would be those of its server for ever.
        wait_for(lambda: str(PROGRAM) in words.read_text().split("\0"), "the console script", seconds=10)
        process.kill()


@pytest.fixture
def shells(tmp_path: Path) -> dict[str, Any]:
    """The options of a shell that finds a quick ``functory``."""
    path = f"{shell_folder()}:{os.environ['PATH']}"
    return {"cwd": tmp_path, "env": environment(tmp_path, PATH=path), **PIPES}


def test_a_shell_gets_outputs_and_exit_status(shells: dict[str, Any]) -> None:
    script = "functory --version; functory function show missing; echo $?; exec functory function add - <<< 'x = 1'"
    with subprocess.Popen(["bash", "-c", script], text=True, **shells) as shell:
        said, errors = shell.communicate()
    assert said.startswith("functory ") and said.endswith("\n3\n")
    assert errors.count("error: ") == 2
    assert shell.returncode == 2


def test_a_script_of_a_shell_is_the_main_module_of_a_fork(shells: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("word = 'imported'\n")
    (tmp_path / "script.py").write_text(
        "import os, sys\nfrom beside import word\n\n"
        "print(__name__, __file__, sys.argv, word, os.getenv('COLOUR'))\nsys.exit(3)\n"
    )
    done = subprocess.run(
        ["python", "script.py", "a b"], text=True, **shells | {"env": shells["env"] | {"COLOUR": "blue"}}
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == f"__main__ {tmp_path}/script.py ['script.py', 'a b'] imported blue\n"
    assert subprocess.run(["python", "-c", "print(1 + 1)"], text=True, **shells).stdout == "2\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_of_a_shell_ends_with_the_program_that_was_started(
    shells: dict[str, Any], number: int
) -> None:
    folder = Path(shells["cwd"])
    assert run("event", "emit", "a.b", cwd=folder, env=shells["env"]).returncode == 0
    tail = [shell_folder() / "functory", "event", "tail", "--follow"]
    with subprocess.Popen(tail, **shells) as client:
        assert client.stdout is not None
        assert b"a.b" in client.stdout.readline()
        client.send_signal(number)
        # The fork has the other end as well.
        assert client.stdout.read() == b""
        assert client.wait(patient(10)) in (128 + number, -number)


def test_a_killed_process_of_tests_leaves_no_fork_and_no_server() -> None:
    script = (
        "import signal\n"
        "from tests.support.console_script import PROGRAM, ConsoleScript, shell_folder\n"
        f"fork = ConsoleScript([PROGRAM, *{READS}])\n"
        "print(fork.pid, shell_folder(), flush=True)\n"
        "signal.pause()\n"
    )
    root = Path(__file__).parents[3]
    # The fork reads the same input, whose other end stays open here.
    with subprocess.Popen([sys.executable, "-c", script], cwd=root, **PIPES) as tests:
        assert tests.stdout is not None
        pid, folder = tests.stdout.readline().decode().split()
        wait_until_reading(int(pid))
        tests.kill()
        wait_for(lambda: not (Path(folder).exists() or Path(f"/proc/{pid}").exists()), "all have ended")

"""A Landlock ruleset refuses what its rules do not allow. Each case runs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from functory.workers.sandbox.confinement import landlock
from tests.support.patience import patient

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")

_START = """
import errno, json, os, signal, socket, subprocess, sys
from pathlib import Path
from functory.workers.sandbox.confinement import landlock, syscalls as kernel
from functory.workers.sandbox.confinement.landlock import *

def attempt(work, *arguments):
    try:
        work(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return ""

def enter(*rules):
    ruleset = landlock.Ruleset()
    for path, rights in rules:
        ruleset.allow(str(path), rights)
    kernel.no_new_privileges()
    ruleset.restrict_self()
    ruleset.close()

def say(value):
    print(json.dumps(value), flush=True)

here = Path(sys.argv[1])
inside, outside = here / "inside", here / "outside"
"""


def _since(version: int) -> pytest.MarkDecorator:
    return pytest.mark.skipif(landlock.abi() < version, reason=f"Landlock here is {landlock.abi()}")


@pytest.fixture
def run(tmp_path: Path) -> Any:
    for name in ("inside", "outside"):
        folder = tmp_path / name
        (folder / "below").mkdir(parents=True)
        (folder / "file").write_text(name)

    def run(code: str) -> Any:
        argv = [sys.executable, "-c", _START + code, str(tmp_path)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=patient(60))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_what_no_rule_allows_is_refused(run: Any) -> None:
    code = """
enter((inside, READ))
say([
    attempt((inside / "file").read_text), attempt(os.listdir, inside),
    attempt((outside / "file").read_text), attempt(os.listdir, outside), attempt(os.listdir, "/"),
    attempt((inside / "file").write_text, "x"), attempt((inside / "new").touch),
])
"""
    assert run(code) == ["", "", *["EACCES"] * 5]


def test_rights_to_write_hold_below_the_folder_and_nowhere_else(run: Any) -> None:
    code = """
enter((inside, READ | WRITE), (outside, READ))
def change(folder):
    return [
        attempt((folder / "file").write_text, "x"), attempt((folder / "new").write_text, "x"),
        attempt((folder / "folder").mkdir), attempt((folder / "link").symlink_to, "file"),
        attempt(os.mkfifo, folder / "pipe"), attempt(os.truncate, folder / "file", 0),
        attempt((folder / "file").unlink), attempt((folder / "below").rmdir),
    ]
say([change(inside), change(outside)])
"""
    inside, outside = run(code)
    assert inside == [""] * 8
    expected = ["EACCES"] * 8
    if landlock.abi() < 3:
        expected[5] = ""
    assert outside == expected


def test_device_nodes_and_sockets_cannot_be_made(run: Any) -> None:
    code = """
enter((inside, READ | WRITE))
import stat
kept = socket.socket(socket.AF_UNIX)
say([
    attempt(os.mknod, inside / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3)),
    attempt(kept.bind, str(inside / "socket")),
])
"""
    node, bound = run(code)
    assert node in {"EACCES", "EPERM"}
    assert bound == "EACCES"


@_since(2)
def test_files_may_move_between_folders_that_may_be_written(run: Any) -> None:
    code = """
enter((inside, READ | WRITE), (outside, READ))
say([
    attempt(os.rename, inside / "file", inside / "below" / "file"),
    attempt(os.rename, outside / "file", inside / "file"),
    attempt(os.link, outside / "file", inside / "file"),
])
"""
    moved, taken, linked = run(code)
    assert moved == ""
    assert taken in {"EACCES", "EXDEV"}
    assert linked in {"EACCES", "EXDEV"}


def test_a_file_is_allowed_without_its_folder(run: Any) -> None:
    code = """
enter((inside / "file", READ | WRITE))
say([attempt((inside / "file").read_text), attempt(os.listdir, inside)])
"""
    assert run(code) == ["", "EACCES"]


def test_programs_run_only_where_they_may(run: Any) -> None:
    code = """
enter(*((path, READ) for path in ("/usr", "/lib", "/lib64") if os.path.exists(path)))
say(attempt(subprocess.run, ["/usr/bin/env"]))
"""
    assert run(code) == "EACCES"


def test_each_ruleset_can_only_narrow(run: Any) -> None:
    code = """
enter((inside, READ | WRITE))
enter((inside / "below", READ | WRITE), (outside, READ))
say([
    attempt((inside / "file").read_text), attempt((outside / "file").read_text),
    attempt((inside / "below" / "new").write_text, "x"),
])
"""
    assert run(code) == ["EACCES", "EACCES", ""]


@_since(4)
def test_tcp_is_refused(run: Any) -> None:
    code = """
server = socket.create_server(("127.0.0.1", 0))
enter()
say([
    attempt(socket.socket().connect, server.getsockname()), attempt(socket.socket().bind, ("127.0.0.1", 0)),
])
"""
    assert run(code) == ["EACCES", "EACCES"]


@_since(5)
def test_devices_take_no_commands(run: Any) -> None:
    code = """
import fcntl, termios
enter(("/dev", READ_FILE | WRITE_FILE))
with open("/dev/urandom", "rb") as device:
    say([len(device.read(4)), attempt(fcntl.ioctl, device, 0x80045200, bytes(4))])
"""
    assert run(code) == [4, "EACCES"]


@_since(6)
def test_signals_and_abstract_sockets_stop_at_the_edge(run: Any) -> None:
    code = """
enter()
child = os.fork()
if child == 0:
    signal.pause()
say([attempt(os.kill, os.getppid(), 0), attempt(os.kill, child, signal.SIGKILL)])
"""
    assert run(code) == ["EPERM", ""]
    code = """
server = socket.socket(socket.AF_UNIX)
server.bind("\\0functory-test-%d" % os.getpid())
server.listen()
child = os.fork()
if child == 0:
    enter()
    say(attempt(socket.socket(socket.AF_UNIX).connect, server.getsockname()))
    os._exit(0)
os.waitpid(child, 0)
"""
    assert run(code) == "EPERM"


def test_a_ruleset_needs_a_process_that_gains_no_privileges(run: Any) -> None:
    # A process with CAP_SYS_ADMIN needs no such promise.
    code = "kernel.give_up_capabilities(); ruleset = landlock.Ruleset(); say(attempt(ruleset.restrict_self))"
    assert run(code) == "EPERM"

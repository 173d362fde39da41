"""Starts ``functory`` as processes: quickly, as forks of a server, or by its console script.

    with ConsoleScript([PROGRAM, "router"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as router:
        ...
    environment["PATH"] = f"{shell_folder()}:{environment['PATH']}"

``ConsoleScript`` is a ``subprocess.Popen`` in everything that a test sees. It imports nothing again: of a start's
second, some hundredths are left (``tests/support/fork_server.py``). What a fork cannot be starts by exec as usual:
another program, other variables that Python reads at its start, other ids, more files. A test of the start itself uses
``subprocess.Popen``.
"""

from __future__ import annotations

import atexit
import inspect
import os
import platform
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.fork_server import NUMBERS, SCRIPTS, read_at_start

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = SCRIPTS / "functory"

# A server has those of the start of this process, whatever tests set meanwhile.
_READ_AT_START = read_at_start(os.environb)
# What a fork cannot do, by the parameters of Popen, each with the value that does not ask for it.
_ORDINARY = {
    "preexec_fn": None,
    "close_fds": True,
    "pass_fds": (),
    "shell": False,
    "restore_signals": True,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "process_group": -1,
}

_starting = threading.Lock()
# By the process that has started it: in a fork of this one, the other's forks are no children.
_folders: dict[int, Path] = {}


class ConsoleScript(subprocess.Popen[Any]):
    """``functory`` as a process, a child of this one."""

    def _execute_child(self, *given: Any) -> None:
        asked = inspect.signature(super()._execute_child).bind(*given).arguments  # type: ignore[misc]
        if not _can_be_a_fork(asked):
            super()._execute_child(*given)  # type: ignore[misc]
            return
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        files = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        try:
            self.pid = _start(
                [file if file >= 0 else number for number, file in enumerate(files)],
                [os.fsencode(word) for word in asked["args"]],
                os.fsencode(asked["cwd"] or Path.cwd()),
                _encoded(asked["env"]),
                own_session=asked["start_new_session"],
            )
            self._child_created = True
        finally:
            self._close_pipe_fds(*(asked[name] for name in ends))  # type: ignore[attr-defined]


def run(*arguments: str, timeout: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``functory`` to its end, as ``subprocess.run`` does with its output captured as text."""
    command = [PROGRAM, *arguments]
    pipe = subprocess.PIPE
    with ConsoleScript(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, **options
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def shell_folder() -> Path:
    """The folder with a ``functory`` and a ``python`` for the PATH of shells: programs of a few lines that have a fork
    run. ``python`` does so for scripts; with options, it is Python."""
    with _starting:
        if os.getpid() not in _folders:
            _folders[os.getpid()] = _start_server()
        return _folders[os.getpid()]


def _can_be_a_fork(asked: Mapping[str, Any]) -> bool:
    command = asked["args"]
    if isinstance(command, str | os.PathLike) or os.fspath(command[0]) != str(PROGRAM):
        return False
    return (
        platform.machine() in NUMBERS
        and all(asked[name] == value for name, value in _ORDINARY.items())
        and read_at_start(_encoded(asked["env"])) == _READ_AT_START
    )


def _encoded(environment: Mapping[Any, Any] | None) -> Mapping[bytes, bytes]:
    """The variables of a process that is started with ``environment``, as Popen takes them."""
    if environment is None:
        return os.environb
    return {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}


def _start_server() -> Path:
    environment = {k: v for k, v in os.environb.items() if not k.startswith((b"FUNCTORY_", b"PYTEST_"))}
    for name in read_at_start(environment):
        del environment[name]
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.fork_server"],
        cwd=ROOT,
        env=environment | _READ_AT_START,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    # The end of its input ends it, also when this process is killed.
    atexit.register(server.communicate)
    assert server.stdout is not None
    folder = server.stdout.readline().rstrip("\n")
    assert folder, f"the server of forks ended with {server.wait()}; its own message is on stderr"
    return Path(folder)


def _start(
    files: list[int],
    arguments: list[bytes],
    folder: bytes,
    environment: Mapping[bytes, bytes],
    *,
    own_session: bool,
) -> int:
    """Have a process started with these standard files. Returns its pid."""
    variables = [name + b"=" + value for name, value in environment.items()]
    request = [b"1", b"%d" % own_session, folder, b"%d" % len(arguments), *arguments, *variables]
    text = b"\0".join(request)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.connect(str(shell_folder() / "socket"))
        socket.send_fds(server, [len(text).to_bytes(4, "big")], files)
        server.sendall(text)
        answer = server.recv(64)
    assert answer, "the server of forks did not answer; its own message is on stderr"
    return int(answer)

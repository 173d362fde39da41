"""Starts ``functory`` quickly for tests that run hundreds of commands: each is a fork of a process that has imported
it.

    with serving(folder) as bin_folder:
        environment["PATH"] = f"{bin_folder}:{environment['PATH']}"

The ``functory`` in that folder is a program of a few lines. It hands its arguments, folder, environment, input and
outputs to the server; a fork of the server runs the command line on them and answers with the exit status. A start
takes a hundredth of a second instead of one. Long-running commands start as usual. With PYTHONPATH set, all commands
start as usual, because the server sees only its own packages.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# These commands run until a signal, and tests find them by their environment.
LASTING = ("dev", "router", "scheduler", "server", "tail", "watcher", "worker", "demo")

CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
if set(sys.argv[1:]) & set({lasting!r}) or os.environ.get("PYTHONPATH"):
    os.execv({program!r}, [{program!r}, *sys.argv[1:]])
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.connect({address!r})
given = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(given).to_bytes(4, "big")], [0, 1, 2])
server.sendall(given)
answer = server.makefile()
pid = int(answer.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(pid, number))
status = answer.readline()
sys.exit(int(status) if status else 1)
"""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """Start a server with its socket in ``folder``. Yields the folder with its ``functory``."""
    folder.mkdir(parents=True, exist_ok=True)
    address = str(folder / "socket")
    client = folder / "functory"
    client.write_text(
        CLIENT.format(
            python=sys.executable,
            lasting=LASTING,
            address=address,
            program=str(Path(sys.executable).parent / "functory"),
        )
    )
    client.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.fork_server", address],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield folder
    finally:
        process.kill()
        process.communicate()


def main(address: str) -> None:
    """Import all commands, then fork for each client. The server ends with the process that has started it."""
    _import_all("functory.cli")
    # This process must hold no state that a command changes.
    from functory.cli.main import main as functory

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    parent = os.getppid()
    listener.settimeout(5)
    while os.getppid() == parent:
        try:
            client, _ = listener.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            listener.close()
            _serve(client, functory)
        client.close()


def _import_all(package: str) -> None:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
    for name in (
        "functory.client",
        "functory.engine.database.migrations",
        "functory.triggers.routing.router",
    ):
        importlib.import_module(name)


def _serve(client: socket.socket, functory: object) -> None:
    """Run the command in the fork, then end the fork."""
    status = 1
    try:
        client.setblocking(True)
        length, files, _, _ = socket.recv_fds(client, 4, 3)
        given = b""
        while len(given) < int.from_bytes(length, "big"):
            given += client.recv(65536)
        client.sendall(f"{os.getpid()}\n".encode())
        arguments, folder, environment = json.loads(given)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            buffering = -1 if number < 2 else 1
            setattr(sys, name, open(number, mode, buffering, closefd=False))  # noqa: SIM115
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.argv = ["functory", *arguments]
        status = functory(arguments)  # type: ignore[operator]
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            # As at the end of a program: run the exit handlers and flush the buffers.
            import atexit

            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        with contextlib.suppress(OSError):
            client.sendall(f"{status}\n".encode())
        os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])

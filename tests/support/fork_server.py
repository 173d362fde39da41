"""Runs ``functory`` and scripts in forks of a process that has imported all of functory, in hundredths of a second.

``tests/support/console_script.py`` starts one such process for each process of tests. It serves until its input ends,
which is when the process of tests ends, and kills what is left of its forks.

A request is arguments, folder, environment and the three standard files, sent over a socket; the answer is the pid.
``sibling`` asks for a process that is a child of the process of tests, as one that it has started itself: it waits for
it and signals it. Another fork belongs to the client that sent the request: the client gets its exit status, and the
fork is killed when the client ends before it.

A fork is as like a new process of the console script as it can be: with no file but the standard ones, with the
signals, streams, environment, name and end of a program. Only ``/proc/PID/cmdline`` and ``/proc/PID/environ`` are those
of the server.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import os
import pkgutil
import platform
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functory.workers.sandbox.confinement.seccomp.syscall_numbers import NUMBERS

SCRIPTS = Path(sys.executable).parent

# Only the programs of functions and of migrations import them.
NOT_IMPORTED = ("functory.workers.sandbox.guest", "functory.migrations")
# Libraries that commands and roles import when they use them.
LIBRARIES = (
    "alembic.config",
    "cel_expr_python.cel",
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.app.routes",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.concurrency.prefork",
    "celery.concurrency.solo",
    "celery.concurrency.thread",
    "celery.events",
    "celery.events.receiver",
    "celery.fixups.django",
    "celery.loaders.app",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "google.protobuf.message_factory",
    "google.protobuf.text_format",
    "kombu.mixins",
    "kombu.transport.memory",
    "kombu.transport.pyamqp",
    "kombu.transport.redis",
    "psycopg",
    "pydantic.v1",
    "typer._adapters",
    "uvicorn.lifespan.off",
    "uvicorn.loops.asyncio",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)

# linux/sched.h and linux/prctl.h
CLONE_PARENT = 0x00008000
CLONE_CHILD_CLEARTID = 0x00200000
CLONE_CHILD_SETTID = 0x01000000
PR_SET_NAME = 15
PR_GET_TID_ADDRESS = 40

# It imports only what is built in: each other import costs as much as the whole of it.
CLIENT = """#!{python} -IS
import _signal, _socket, posix, sys
started_with = {{k: v for k, v in posix.environ.items() if k.startswith({prefixes!r}) and k not in {harmless!r}}}
if started_with != {expected!r} or ({script} and not (len(sys.argv) > 1 and sys.argv[1].endswith(".py"))):
    posix.execv({program!r}, [{program!r}, *sys.argv[1:]])
arguments = [word.encode("utf-8", "surrogateescape") for word in [{program!r}, *sys.argv[1:]]]
variables = [name + b"=" + value for name, value in posix.environ.items()]
request = b"\\0".join([b"0", b"0", posix.getcwdb(), b"%d" % len(arguments), *arguments, *variables])
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
server.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
server.sendall(request)
pid, _, status = server.recv(64).partition(b"\\n")
for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGUSR1):
    _signal.signal(number, lambda number, _: posix.kill(int(pid), number))
status = int(status or server.recv(64) or 1)
sys.exit(status if status >= 0 else 128 - status)
"""

# What the C library, Python and its packages read at their start. A process with other values is no fork.
PREFIXES = (b"GLIBC_", b"LANG", b"LC_", b"LD_", b"MALLOC_", b"OTEL_", b"PYTHON")
# A fork follows it.
HARMLESS = (b"PYTHONUNBUFFERED",)


def read_at_start(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The variables that a fork of a server cannot have other values of."""
    return {k: v for k, v in environment.items() if k.startswith(PREFIXES) and k not in HARMLESS}


@dataclass
class Request:
    """One command line to run. ``files`` are standard input, output and error."""

    arguments: list[str]
    folder: bytes
    environment: dict[bytes, bytes]
    files: list[int]
    sibling: bool
    own_session: bool

    @staticmethod
    def read(text: bytes, files: list[int]) -> Request:
        """The request of a message: fields between zero bytes, which no argument and no variable can have."""
        sibling, own_session, folder, count, *words = text.split(b"\0")
        arguments, variables = words[: int(count)], words[int(count) :]
        return Request(
            [os.fsdecode(word) for word in arguments],
            folder,
            dict(variable.split(b"=", 1) for variable in variables),
            files,
            sibling == b"1",
            own_session == b"1",
        )


@dataclass
class Fork:
    """A running fork. ``handle`` is its pidfd, which can be read when it has ended; ``client`` waits for its status."""

    pid: int
    handle: int
    client: socket.socket | None

    def kill(self) -> None:
        """Kill it; ``handle`` tells its end."""
        signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def close(self) -> None:
        """Forget it after its end. A client gets its exit status: minus the signal's number if one has ended it."""
        os.close(self.handle)
        if self.client is not None:
            status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            with self.client, contextlib.suppress(OSError):
                self.client.sendall(f"{status}\n".encode())


def main() -> None:
    """Import everything, serve requests, and run the command of a request in each fork."""
    gc.disable()
    _import_all()
    gc.freeze()
    gc.enable()
    server, folder = os.getpid(), Path(tempfile.mkdtemp(prefix="functory-forks-"))
    try:
        request = _serve(folder)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    finally:
        if os.getpid() == server:
            shutil.rmtree(folder, ignore_errors=True)
    if request is not None:
        _become(request)
        _run(request.folder)


def _import_all() -> None:
    """Import what commands and roles import. No import may leave a thread: a fork has only one."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(importlib.import_module("functory").__path__, "functory."):
        if not module.name.startswith(NOT_IMPORTED):
            importlib.import_module(module.name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, threading.enumerate()


def _serve(folder: Path) -> Request | None:
    """Serve until the input ends. Returns None then, and the request in a fork."""
    forks: list[Fork] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen(64)
        _write_client(folder, "functory")
        _write_client(folder, "python")
        os.write(1, f"{folder}\n".encode())
        while True:
            clients = [fork.client for fork in forks if fork.client]
            ready = select.select([0, listener, *clients, *(fork.handle for fork in forks)], [], [])[0]
            for fork in list(forks):
                if fork.handle in ready:
                    fork.close()
                    forks.remove(fork)
                elif 0 in ready or fork.client in ready:
                    # A client says nothing more: it has ended.
                    fork.kill()
            if 0 in ready:
                return None
            if listener not in ready:
                continue
            client, _ = listener.accept()
            request = _read(client)
            if request is None:
                client.close()
                continue
            pid = _fork(CLONE_PARENT if request.sibling else 0)
            if pid == 0:
                # To leave closes the sockets here, and `_become` closes all the rest.
                return request
            handle = os.pidfd_open(pid)
            for file in request.files:
                os.close(file)
            with contextlib.suppress(OSError):
                client.sendall(f"{pid}\n".encode())
            if request.sibling:
                client.close()
            forks.append(Fork(pid, handle, None if request.sibling else client))


def _write_client(folder: Path, name: str) -> None:
    """Write a program of shells: it hands what it was given to the server, and ends as the fork does."""
    program = folder / name
    program.write_text(
        CLIENT.format(
            python=sys.executable,
            prefixes=PREFIXES,
            harmless=HARMLESS,
            expected=read_at_start(os.environb),
            script=name == "python",
            program=str(SCRIPTS / name),
            address=str(folder / "socket"),
        )
    )
    program.chmod(0o755)


def _read(client: socket.socket) -> Request | None:
    """Read a request. None when the client has ended before it was complete."""
    client.settimeout(10)
    files: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        length, files, _, _ = socket.recv_fds(client, 4, 3)
        given = b""
        while len(given) < int.from_bytes(length, "big"):
            if not (piece := client.recv(65536)):
                raise ValueError
            given += piece
        client.settimeout(None)
        return Request.read(given, files)
    for file in files:
        os.close(file)
    return None


def _fork(flags: int) -> int:
    """Fork with these flags of clone(2), as ``os.fork`` does without. Returns 0 in the fork."""
    # Not CDLL: the interpreter's lock stays with this thread, of which the fork is a copy.
    libc = ctypes.PyDLL(None, use_errno=True)
    # The C library keeps the id of the thread there; after its own fork it would write it anew.
    tid = ctypes.c_void_p()
    libc.prctl(PR_GET_TID_ADDRESS, ctypes.byref(tid), 0, 0, 0)
    flags |= CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | signal.SIGCHLD
    word = ctypes.c_long
    number = NUMBERS[platform.machine()]["clone"]
    ctypes.pythonapi.PyOS_BeforeFork()
    # The last two change their places between the machines; without CLONE_SETTLS the other one is not read.
    pid = libc.syscall(word(number), word(flags), word(0), word(0), tid, tid)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "a fork was refused")
    return pid


def _become(request: Request) -> None:
    """Make this fork what a new process would be."""
    for number, file in enumerate(request.files):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if request.own_session:
        os.setsid()
    os.environ.clear()
    os.environb.update(request.environment)
    time.tzset()
    unbuffered = bool(request.environment.get(b"PYTHONUNBUFFERED"))
    for name in ("stdin", "stdout", "stderr"):
        stream = _open_stream(name, unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = request.arguments
    sys.path[0] = str(SCRIPTS)
    name = "-".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    ctypes.PyDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def _open_stream(name: str, unbuffered: bool) -> io.TextIOWrapper:
    """Open a standard stream as Python does (create_stdio in pylifecycle.c)."""
    old: Any = getattr(sys, name)
    number = ("stdin", "stdout", "stderr").index(name)
    unbuffered = unbuffered and number > 0
    binary: Any = open(number, "wb" if number else "rb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        binary,
        old.encoding,
        old.errors,
        line_buffering=not unbuffered and (number == 2 or binary.isatty()),
        write_through=unbuffered,
    )


def _run_functory() -> Any:
    from functory.cli.main import main as functory

    return functory()


def _run_script() -> None:
    """Run the script of ``python SCRIPT ARGUMENTS`` as the main module."""
    sys.argv = sys.argv[1:]
    path = Path(sys.argv[0]).absolute()
    sys.path[0] = str(path.resolve().parent)
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    exec(compile(path.read_bytes(), path, "exec"), module.__dict__)


def _run(folder: bytes) -> None:
    """Run the command line in its folder, and end the process as Python ends."""
    status: Any = 1
    try:
        os.chdir(folder)
        status = _run_script() if Path(sys.argv[0]).name == "python" else _run_functory()
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        traceback.print_exc()
    if status is not None and not isinstance(status, int):
        sys.stderr.write(f"{status}\n")
        status = 1
    with contextlib.suppress(OSError, ValueError):
        # Not the whole end of an interpreter, which would clear each module of the server first.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit((status or 0) & 0xFF)


if __name__ == "__main__":
    main()

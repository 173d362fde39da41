"""A private server process: a test controls its folder, its port, its start and its end.

`Postgres`, `Redis` and `RabbitMQ` define how their server is prepared, launched and identified. This module starts,
stops, kills and removes all of them in the same way. A stopped or killed server starts again on the same port with
the same folder. When the test run ends in any way, SIGKILL included, a
guard process sees the end of its input, kills the server's process group and removes the folder.
"""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil

from tests.services.port import free_port
from tests.support.patience import patient

# A line on its input ends the guard; the end of its input means that the owner is dead.
GUARD = 'read -r _ && exit 0; exec <&-; kill -s KILL -- "-$1"; rm -rf -- "$2"'

# The folders of servers are in memory where there is room, because a busy disk makes every test wait.
MEMORY, ROOM = Path("/dev/shm"), 2 * 2**30

# The unprivileged user that every Linux has (the kernel's overflow user, user_namespaces(7)).
UNPRIVILEGED_UID = 65534


class NotReady(Exception):
    """The server does not answer yet; `is_ours` raises it."""


class Server(ABC):
    """One server process with its folder and port. As a context manager it starts and closes the server."""

    title: str
    account: str  # the ordinary user that runs it when the tests run as root
    stop_signal = signal.SIGTERM
    # The slowest one needs under ten seconds on a quiet machine.
    start_seconds = 120.0
    stop_seconds = 30.0
    # The folder in which the server's folder is made; None for the one in memory, where there is room.
    parent: Path | None = None

    def __init__(self, programs: Mapping[str, Path]) -> None:
        """Reserve a folder and a port; `programs` come from `installation.find`. No process starts yet."""
        self.programs = programs
        self.port = free_port()
        prefix = f"functory-{type(self).__name__.lower()}-"
        self.folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self.parent or roomy_memory())).resolve()
        user = _ordinary_user(self.account)
        self._uid = user.pw_uid if user else None
        self._gid = user.pw_gid if user else None
        self._groups: list[int] | None = [] if user else None
        self._hand_over(self.folder)
        self._running: list[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]] = []
        self._prepared = False
        self._guarded_by: int | None = None
        self.is_shared = False
        atexit.register(self.close)

    @abstractmethod
    def prepare(self) -> None:
        """Write what the server needs in `self.folder`; called once, before the first launch."""

    @abstractmethod
    def launch(self) -> None:
        """Start the process or processes with `self.spawn`, the server itself last."""

    @abstractmethod
    def is_ours(self) -> bool:
        """Ask the server on our port for its identity. True when it is the server that we started.

        Raises NotReady while nothing answers.
        """

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL for clients of the server."""

    @property
    def running(self) -> bool:
        """True while the server's process lives; it may still be starting."""
        return bool(self._running) and self._running[-1][0].poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if not self._running:
            raise RuntimeError(f"{self.title} is not running")
        return self._running[-1][0].pid

    def start(self) -> Self:
        """Start the server, and return when it answers and is proved to be ours. Does nothing for a running server.

        Raises RuntimeError, with the end of the server's log, when it dies, does not answer in time, or when
        another server answers on the port.
        """
        if self.is_shared or self.running:
            return self
        self.kill()
        if not self._prepared:
            self.prepare()
            self._prepared = True
        self.launch()
        try:
            self._wait_until_ours()
        except BaseException:
            self.kill()
            raise
        return self

    def start_shared(self, users: int) -> None:
        """Start the server for several processes of tests: it ends when the pipe ``users`` does.

        From then on no process may stop it.
        """
        self._guarded_by = users
        self.start()
        self._guarded_by = None
        self.is_shared = True
        atexit.unregister(self.close)

    def card(self) -> dict[str, Any]:
        """The data with which another process can use this server."""
        return {name: value for name, value in vars(self).items() if name != "_running"}

    def attach(self, card: dict[str, Any]) -> None:
        """Use the server that another process has started."""
        vars(self).update(card)
        self._running = []

    def stop(self) -> None:
        """Stop the server softly and wait for its end; kill it when it does not end in time."""
        self._refuse_if_shared()
        if self.running:
            process = self._running[-1][0]
            process.send_signal(self.stop_signal)
            try:
                process.wait(patient(self.stop_seconds))
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        """SIGKILL every process of the server at once, as a power cut would, and return when all are gone."""
        self._refuse_if_shared()
        doomed: list[psutil.Process] = []
        for process, _ in self._running:
            try:
                # PostgreSQL and Erlang give children a session of their own, which no group signal reaches.
                doomed += psutil.Process(process.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                pass
        for process, _ in self._running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for child in doomed:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                pass
        for process, guard in self._running:
            process.wait()
            guard.communicate(b"\n")
        while any(is_alive(child) for child in doomed):
            time.sleep(0.005)
        self._running.clear()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop every process of the server with SIGSTOP inside the block: connections stay open, without answers."""
        self._refuse_if_shared()
        stopped: list[psutil.Process] = []
        try:
            for process, _ in self._running:
                _suspend_family(psutil.Process(process.pid), stopped)
            yield
        finally:
            for one in reversed(stopped):
                with suppress(psutil.NoSuchProcess):
                    one.resume()

    def restart(self) -> Self:
        """Stop the server softly and start it again, on the same port and folder."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Kill the server and remove its folder; it cannot be started again."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        """Start the server; a failed start leaves nothing behind."""
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def write(self, name: str, text: str) -> Path:
        """Write a file of the server's folder, readable by the server, and return its path."""
        path = self.folder / name
        path.write_text(text)
        self._hand_over(path)
        return path

    def spawn(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        """Start `command` under a guard: as the ordinary user, in its own session, with a log file."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self._uid,
                group=self._gid,
                extra_groups=self._groups,
            )
        guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(process.pid), str(self.folder)],
            stdin=subprocess.PIPE if self._guarded_by is None else self._guarded_by,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._running.append((process, guard))

    def run(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        """Run `command` to its end as the ordinary user; RuntimeError with its output when it fails."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            user=self._uid,
            group=self._gid,
            extra_groups=self._groups,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout}")

    @property
    def _log(self) -> Path:
        return self.folder / "output.log"

    def _refuse_if_shared(self) -> None:
        if self.is_shared:
            name = type(self).__name__.lower()
            raise RuntimeError(
                f"the {self.title} server is shared by all processes of the tests\n"
                f"try: a test that stops or harms a server asks for own_{name}_server"
            )

    def _hand_over(self, path: Path) -> None:
        if self._uid is not None and self._gid is not None:
            os.chown(path, self._uid, self._gid)

    def _wait_until_ours(self) -> None:
        deadline = time.monotonic() + patient(self.start_seconds)
        while True:
            process = self._running[-1][0]
            if process.poll() is not None:
                raise RuntimeError(self._failure(f"ended with {process.returncode} while starting"))
            try:
                if self.is_ours():
                    return
                raise RuntimeError(self._failure(f"found another server on port {self.port}"))
            except NotReady as reason:
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        self._failure(f"did not answer within {patient(self.start_seconds):.0f} s ({reason})")
                    ) from reason
            time.sleep(0.02)

    def _failure(self, what: str) -> str:
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return f"{self.title} {what}; the end of its output:\n" + "\n".join(text.splitlines()[-30:])


def _suspend_family(parent: psutil.Process, stopped: list[psutil.Process]) -> None:
    """Stop a process and all its descendants, and add them to `stopped`. Returns when all of them are stopped."""
    family = [parent]
    while family:
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.suspend()
        stopped += family
        # The signal was sent; a process that is busy in the kernel stops a little later.
        while not all(map(_is_stopped, family)):
            time.sleep(0.001)
        # The children that a process made before it stopped.
        family = [child for child in parent.children(recursive=True) if child not in stopped]


def _is_stopped(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def environment_without(*prefixes: str) -> dict[str, str]:
    """This process's environment less the variables that begin with one of `prefixes`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def roomy_memory() -> Path | None:
    """The folder in memory, if this machine has one with enough room."""
    try:
        roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM
    except OSError:
        return None
    return MEMORY if roomy else None


def _ordinary_user(account: str) -> pwd.struct_passwd | None:
    """The user of a server: our own when we are not root; else `account`, or the unprivileged user without one."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(account)
    except KeyError:
        pass
    try:
        return pwd.getpwuid(UNPRIVILEGED_UID)
    except KeyError:
        raise RuntimeError(
            f"this system has neither a user {account!r} nor one with the id {UNPRIVILEGED_UID} to run a server as"
        ) from None


def is_alive(process: psutil.Process) -> bool:
    """True while the process runs or holds sockets and files."""
    try:
        # Orphans go to process 1, which in a container may never collect them, so a zombie counts as dead;
        # but while one of its threads still ends, its sockets are open.
        return process.is_running() and (
            process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
        )
    except psutil.NoSuchProcess:
        return False

"""The worker's handle on one zygote: start it, ask it for children, end it.

``Pool`` owns one for each pool key. A zygote that breaks the protocol is discarded whole, with all
its children, and another is started: nothing is repaired.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from itertools import count
from pathlib import Path

import msgspec

from functory.engine import private_files
from functory.engine.errors import Unavailable
from functory.workers import certificates
from functory.workers.sandbox.confinement import scratch, user_ids
from functory.workers.sandbox.confinement.cgroups import Cgroup
from functory.workers.sandbox.confinement.resource_usage import ResourceUsage
from functory.workers.sandbox.pool.pool_key import PoolKey
from functory.workers.sandbox.protocol.plan import FAILED, MAX_CHILDREN, READY, ForkRequest, Tier

START_SECONDS = 60.0  # 0.1 s on an idle machine, 0.3 s with pandas; a loaded one needs longer
_SEND_SECONDS = 10.0  # a zygote that takes no 100-byte message within this time is stopped or broken
_DEATH_SECONDS = 5.0
_USAGE_CHECK_SECONDS = 0.05
_OWN_CPU_SECONDS = 1.0
# While packages are imported: the init process, the zygote, its thread for them, and the process that starts the
# zygote in a PID namespace.
STARTING_TASKS = 4
_ANSWER_BYTES = 65_536
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid; unix(7)
_PREFIX = "functory-run-"
_ROOT = str(Path(__file__).resolve().parents[4])
# -I and -S keep checkout, packages and their .pth files off the path. The first folders are where this very
# package and what it needs are; the zygote takes them off again.
_BOOT = (
    "import sys; fd, base, *paths = sys.argv[1:]; sys.path[:0] = paths; "
    "from functory.workers.sandbox.guest.zygote import main; main(int(fd), base, paths)"
)
# Nothing of the worker's environment: no FUNCTORY_*, no secrets. Threads of BLAS and malloc arenas
# reserve address space, which is what the memory limit counts.
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}


def remove_stale_folders() -> None:
    """Remove the folders of workers that were killed together with their zygotes."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        number = folder.name.removeprefix(_PREFIX).split("-")[0]
        if number.isdecimal() and not Path(f"/proc/{number}").exists() and _is_ours(folder):
            scratch.remove(str(folder))


def _first_id(tier: Tier, seed: int) -> int:
    """Return the first user id of a zygote; 0 where it has only the worker's own.

    Raises OSError where tier A finds no free ids.
    """
    if tier not in ("A", "C") or os.geteuid() != 0:
        return 0
    try:
        return user_ids.free_ids(MAX_CHILDREN + 1, seed)
    except OSError:
        if tier == "A":
            raise
        return 0


def _is_ours(folder: Path) -> bool:
    try:
        # A zygote started by root has given it to the user that it became.
        return os.getuid() in (0, folder.stat().st_uid)
    except OSError:
        return False


def _check_temporary_folder() -> None:
    # The plan of a zygote is text, and functions get the name of their folder as text.
    folder = tempfile.gettempdir()
    try:
        folder.encode()
    except UnicodeEncodeError:
        raise Unavailable(
            "functions cannot run",
            f"the name of the folder for temporary files (TMPDIR) is not UTF-8: {os.fsencode(folder)!r}",
            "set TMPDIR to another folder",
        ) from None


def _paths() -> list[str]:
    """Return the folders of Functory and msgspec, each once."""
    return list(dict.fromkeys([_ROOT, str(Path(msgspec.__file__ or "").resolve().parents[1])]))


def _environment(pool_key: PoolKey) -> dict[str, str]:
    """Return the environment of a zygote, which its children inherit."""
    # Packages are imported by a second thread. With an arena of its own it would reserve 64 MiB of address space.
    memory = {"MALLOC_ARENA_MAX": "1"} if pool_key.preload else {}
    return _ENVIRONMENT | memory | certificates.variables(pool_key.ca_file)


class ZygoteProcess:
    """A started zygote. ``fork`` is safe to call from many threads.

    ``group`` is the control group of one that imports packages; it is released with the zygote. Raises ``Unavailable``
    when it cannot start; then it has been removed already.
    """

    def __init__(self, pool_key: PoolKey, tier: Tier, group: Cgroup | None = None) -> None:
        self.pool_key = pool_key
        self._group = group
        self.tier: Tier = tier
        self.broken = False
        self.forks = 0
        self.pid = 0
        self._lock = threading.Lock()
        self._discarding = threading.Lock()
        self._serial = count(1)
        self._slots = list(range(MAX_CHILDREN, 0, -1))
        self._handle: int | None = None
        _check_temporary_folder()
        self.base = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        with theirs:
            fd = theirs.fileno()
            # The interpreter itself, not the link to it in a virtual environment: functions see this name.
            python = os.path.realpath(sys.executable)
            argv = [python, "-I", "-S", "-B", "-X", "utf8", "-c", _BOOT, str(fd), self.base]
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and constants
                [*argv, *_paths()],
                pass_fds=[fd],
                env=_environment(pool_key),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                umask=private_files.umask_of_functions(),
            )
        try:
            answer = self._handshake()
        except OSError as error:
            answer = str(error).encode()
        if answer != READY:
            self.discard()
            raise Unavailable(
                "the process that runs functions could not start",
                answer.removeprefix(FAILED).decode("utf-8", "replace")
                or "it ended before it was ready; its own message is on stderr",
                "functory doctor says what this machine lacks",
            )
        self._control.settimeout(_SEND_SECONDS)

    def _handshake(self) -> bytes:
        """Send the plan and wait for the answer. The kernel reports the zygote's pid as this process sees it."""
        self._first_id = _first_id(self.tier, self._process.pid)
        if self._first_id:
            os.chown(self.base, self._first_id, self._first_id)
        if self._group is not None:
            self._group.add(self._process.pid)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._control.send(msgspec.msgpack.encode(self.pool_key.plan(self.tier, self.base, self._first_id)))
        self._wait_for_answer()
        space = socket.CMSG_SPACE(_CREDENTIALS.size)
        answer, ancillary, _, _ = self._control.recvmsg(_ANSWER_BYTES, space)
        for level, sort, data in ancillary:
            if (level, sort) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                self.pid = _CREDENTIALS.unpack(data)[0]
        if answer == READY:
            self._handle = os.pidfd_open(self.pid)
            if self._group is not None:
                # Children are forked into it, and leave it at once.
                self._group.limit(self.pool_key.memory_bytes, MAX_CHILDREN + STARTING_TASKS)
        return answer

    def _wait_for_answer(self) -> None:
        """Wait until the zygote is ready. OSError when its packages take more than an execution of them may."""
        key = self.pool_key
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        usage = ResourceUsage(self._process.pid)
        deadline = time.monotonic() + START_SECONDS
        while not poll.poll(_USAGE_CHECK_SECONDS * 1000):
            if time.monotonic() > deadline:
                raise TimeoutError(f"it was not ready within {START_SECONDS:g} s")
            if not key.preload:
                continue
            usage.sample()
            # Its own start takes some tenths of a second, and about as much memory as the worker's interpreter.
            if usage.cpu_seconds > key.cpu_seconds + _OWN_CPU_SECONDS:
                raise OSError(f"importing its packages took more than {key.cpu_seconds:g} s of CPU")
            if usage.memory_bytes > key.memory_bytes:
                raise OSError(f"importing its packages took more than {key.memory_bytes} bytes of memory")

    def alive(self) -> bool:
        return not self.broken and self._process.poll() is None

    def acquire_slot(self) -> int | None:
        """Return a number that no living child has; None when all are taken."""
        with self._lock:
            return self._slots.pop() if self._slots else None

    def release_slot(self, slot: int) -> None:
        with self._lock:
            self._slots.append(slot)

    def child_count(self) -> int:
        """Return the number of its children."""
        with self._lock:
            return MAX_CHILDREN - len(self._slots)

    def idle(self) -> bool:
        """Return True if it has no children."""
        return self.child_count() == 0

    def new_scratch(self) -> str | None:
        """Make an empty folder for one child, in tiers that mount none; the caller removes it.

        None (and ``broken``) when the zygote has ended: its init process removes the parent folder before it
        ends itself.
        """
        if self.tier in ("A", "B"):
            return ""
        path = f"{self.base}/{next(self._serial)}"
        try:
            Path(path).mkdir(mode=0o700)
            if self._first_id:
                os.chown(path, self._first_id, self._first_id)
        except FileNotFoundError:
            self.broken = True
            return None
        return path

    def fork(self, request: ForkRequest, fds: list[int]) -> bool:
        """Request a child; False (and ``broken``) when the zygote does not take the request."""
        payload = msgspec.msgpack.encode(request)
        try:
            with self._lock:
                self.forks += 1
                socket.send_fds(self._control, [payload], fds)
        except OSError:
            self.broken = True
            return False
        return True

    def death_signal(self) -> int | None:
        """Return the signal that ended the zygote, None if it ended otherwise or lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=1)
            return -code if code < 0 else None
        return None

    def close(self, seconds: float) -> None:
        """Let the zygote end its children and itself; after ``seconds`` it is killed."""
        self.broken = True
        with self._lock:
            self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
        self.discard()

    def discard(self) -> None:
        """Kill the zygote and wait until it is gone; the kernel kills its children with it."""
        self.broken = True
        # Several threads lose their children at once. The folders must stay while a child that looks for one
        # lives.
        with self._discarding:
            self._discard()

    def _discard(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            waiting = select.poll()
            waiting.register(handle, select.POLLIN)
            waiting.poll(_DEATH_SECONDS * 1000)
            os.close(handle)
        else:
            self._kill_starting()
        # Its init process sees its end, and ends what it left.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_DEATH_SECONDS)
        self._process.kill()
        self._process.wait()
        # After the kill: a sender that was blocked by a stopped zygote has released its lock by now.
        with self._lock:
            self._control.close()
        scratch.remove(self.base)
        if self._group is not None:
            group, self._group = self._group, None
            group.release()

    def _kill_starting(self) -> None:
        """Kill the zygote that has not reported yet, and so has no handle: it is the child of its init process."""
        init = self._process.pid
        with contextlib.suppress(OSError):
            for pid in Path(f"/proc/{init}/task/{init}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)

    def close_inherited(self) -> None:
        """In a forked copy of the worker: close our copies of the original's descriptors, and end nothing."""
        self.broken = True
        self._lock = threading.Lock()
        self._discarding = threading.Lock()
        with contextlib.suppress(OSError):
            os.close(self._control.detach())
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        # Popen would complain about, and wait for, a process that is not ours.
        self._process.returncode = 0

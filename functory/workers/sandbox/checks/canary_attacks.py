"""The sandbox tests itself before a worker serves: code that attacks, run as any function is, must fail.

``run_canaries`` sets up prey of its own (a process with a secret in its environment, a secret file, listeners)
and runs one execution that tries each attack once, for real and harmlessly. It runs in a child of the zygote that
plain functions get: a worker then starts one zygote instead of two. What happened to the prey is judged from
outside where that can be seen; the rest the code reports, and it is our own. The ids are those of the list in
the documentation of the sandbox. An attack that the kernel merely found no target for counts as stopped: that
there is none is what namespaces are for.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, cast

from functory.engine.errors import Unavailable
from functory.workers.sandbox.checks import tiers
from functory.workers.sandbox.confinement.seccomp.syscall_numbers import NUMBERS
from functory.workers.sandbox.protocol.host import Host, OutputFilter, UnfilteredOutput
from functory.workers.sandbox.protocol.job import ChildLimits, Code, Job, Outcome
from functory.workers.sandbox.runner import Runner

ATTACKS = {
    "A08": "read the environment of the worker's processes",
    "A12": "read a secret file of the worker",
    "A13": "write files outside of its own folder",
    "A14": "signal a process of the worker",
    "A15": "trace a process of the worker",
    "A17": "connect to a port of this machine",
    "A19": "connect to a unix socket of this machine",
    "A22": "make namespaces of its own",
    "A25": "use io_uring, bpf, keyrings, perf or userfaultfd",
    "A27": "start a program",
    "A49": "change the limits of a process of the worker",
    "A69": "leave a process behind",
}

_PLACES = ("/", "/usr/lib", "/etc", "/tmp", "/var/tmp", "/dev/shm", "/root", "/home", "/run")  # noqa: S108
# The longest path of a socket: sun_path of unix(7), with its NUL.
_SOCKET_PATH_BYTES = 107
_SHORT_PLACES = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - a folder of its own is made in it by mkdtemp
_LIMITS = ChildLimits(wall_seconds=20.0, total_seconds=20.0, cpu_seconds=10.0)
_DANGEROUS = ("io_uring_setup", "bpf", "add_key", "keyctl", "perf_event_open", "userfaultfd")

_SOURCE = """
def canaries(prey):
    import ctypes
    import errno
    import os
    import resource
    import signal
    import socket
    import threading

    libc = ctypes.CDLL(None, use_errno=True)
    # What the sandbox may answer; any other error comes from code of the kernel that was reached.
    refusals = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOENT, errno.ESRCH, errno.EROFS, errno.EAGAIN,
                errno.EAFNOSUPPORT, errno.ENOTDIR}
    through = {}

    def attempt(attack, what, act):
        try:
            act()
        except OSError as error:
            if error.errno not in refusals:
                through.setdefault(attack, []).append(f"{what}: {error}")
        else:
            through.setdefault(attack, []).append(what)

    def system(number, *arguments):
        words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
        result = libc.syscall(ctypes.c_long(number), *words)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def expect_secret(path):
        with open(path, "rb") as file:
            if prey["secret"].encode() not in file.read(65536):
                raise OSError(errno.ENOENT, "it is not the worker's")

    def connect(family, address):
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.settimeout(2)
            connection.connect(address)

    def fork():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.alarm(10)
                signal.pause()
            os._exit(0)

    pid = prey["pid"]
    # In a PID namespace of its own, its own threads may have any small number.
    foreign = pid not in {thread.native_id for thread in threading.enumerate()} and pid != os.getpid()
    attempt("A08", f"/proc/{pid}/environ", lambda: expect_secret(f"/proc/{pid}/environ"))
    attempt("A12", prey["file"], lambda: expect_secret(prey["file"]))
    for place in prey["places"]:
        try:
            # Seen from outside or not at all: in a root of its own, /tmp is its own folder.
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError:
            continue
    if foreign:
        attempt("A15", "ptrace", lambda: system(prey["calls"]["ptrace"], 0x4206, pid, 0, 0))
        attempt("A49", "prlimit", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64)))
        attempt("A14", "kill", lambda: os.kill(pid, signal.SIGTERM))
    if os.getppid() > 0:
        attempt("A14", "kill the parent", lambda: os.kill(os.getppid(), 0))
    family = socket.AF_INET6 if ":" in prey["address"] else socket.AF_INET
    attempt("A17", "TCP", lambda: connect(family, (prey["address"], prey["port"])))
    attempt("A19", "unix", lambda: connect(socket.AF_UNIX, prey["socket"]))
    for name, number in prey["dangerous"].items():
        attempt("A25", name, lambda: system(number, 0, 0, 0, 0, 0))
    attempt("A27", prey["program"], lambda: os.waitpid(os.posix_spawn(prey["program"], ["true"], {}), 0))
    attempt("A69", "fork", fork)
    # Last: where it succeeds, this process is not what it was.
    for name, flag in {"mounts": 0x20000, "users": 0x10000000}.items():
        attempt("A22", name, lambda: system(prey["calls"]["unshare"], flag))
    return through
"""


class Canary(NamedTuple):
    """One attack: ``through`` describes what it achieved, empty when it was stopped."""

    id: str
    title: str
    breaches: tuple[str, ...]


def run_canaries(runner: Runner) -> list[Canary]:
    """Try all attacks under ``runner``; some hundredths of a second.

    Raises ``Unavailable`` when the execution that tries them does not finish.
    """
    with contextlib.ExitStack() as stack:
        prey = _Targets(stack)
        outcome = runner.run(_job(prey.facts), cast(Host, _RefusingHost()))
        if outcome.status != "succeeded" or not isinstance(outcome.result, dict):
            why = _why(outcome)
            raise Unavailable(
                "the sandbox could not test itself", why, tiers.advice_on_limits(why) or "functory doctor"
            )
        found: dict[str, set[str]] = {id_: set(outcome.result.get(id_, ())) for id_ in ATTACKS}
        for id_, what in prey.observed_breaches():
            found[id_].add(what)
    return [Canary(id_, title, tuple(sorted(found[id_]))) for id_, title in ATTACKS.items()]


def _why(outcome: Outcome) -> str:
    error = outcome.error or {}
    return (
        f"its execution ended as {outcome.status}: {error.get('type', '')} {error.get('message', '')}".strip()
    )


def _job(prey: dict[str, Any]) -> Job:
    code = Code(name="canaries", version=1, source=_SOURCE)
    return Job(
        execution_id="self-test",
        function=code.name,
        version=code.version,
        root_id="self-test",
        entry=code.key,
        codes={code.key: code},
        input={"prey": prey},
        limits=_LIMITS,
    )


class _RefusingHost:
    """A host for code that makes no requests."""

    def output_filter(self) -> OutputFilter:
        return UnfilteredOutput()

    def __getattr__(self, name: str) -> Any:
        raise Unavailable(f"the self-test asked for {name}", "it has no reason to", "report this")


def _listen_on_loopback() -> socket.socket:
    """Return a listener on a free port; on the address of IPv6 where this machine has no other."""
    try:
        return socket.create_server(("127.0.0.1", 0))
    except OSError:
        return socket.create_server(("::1", 0), family=socket.AF_INET6)


class _Targets:
    """The targets of the attacks: all of them belong to the worker's user, and are removed with ``stack``."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._secret = secrets.token_hex(16)
        folder = Path(tempfile.mkdtemp(prefix="functory-prey-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        file = folder / "secret"
        file.write_text(self._secret)
        # One folder that all may write to: what is found in it came through the sandbox, not through rights.
        open_folder = folder / "open"
        open_folder.mkdir()
        open_folder.chmod(0o1777)
        folder.chmod(0o711)
        self._places = [
            f"{place.rstrip('/')}/functory-{self._secret[:12]}"
            for place in (*_PLACES, open_folder.as_posix())
        ]
        stack.callback(self._clean)
        self._listeners = {
            "A17": stack.enter_context(_listen_on_loopback()),
            "A19": stack.enter_context(socket.socket(socket.AF_UNIX)),
        }
        path = self._bind(folder, stack)
        self._listeners["A19"].listen()
        path.chmod(0o777)
        for listener in self._listeners.values():
            listener.setblocking(False)
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"],
                env={"FUNCTORY_SECRET_KEY": self._secret},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        stack.callback(self._process.kill)
        self._files = resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE)
        numbers = NUMBERS[platform.machine()]
        program = next((p for p in ("/bin/true", "/usr/bin/true") if Path(p).exists()), sys.executable)
        self.facts: dict[str, Any] = {
            "secret": self._secret,
            "file": str(file),
            "places": self._places,
            "pid": self._process.pid,
            "address": self._listeners["A17"].getsockname()[0],
            "port": self._listeners["A17"].getsockname()[1],
            "socket": str(path),
            "program": program,
            "calls": {name: numbers[name] for name in ("ptrace", "unshare")},
            "dangerous": {name: numbers[name] for name in _DANGEROUS},
        }

    def _bind(self, folder: Path, stack: contextlib.ExitStack) -> Path:
        """Bind the socket in ``folder``, or in a shorter one when the kernel takes no path of this length."""
        path = folder / "socket"
        if len(os.fsencode(path)) > _SOCKET_PATH_BYTES:
            place = next((place for place in _SHORT_PLACES if os.access(place, os.W_OK | os.X_OK)), None)
            if place is None:
                raise Unavailable(
                    "the sandbox cannot test itself",
                    f"the folder for temporary files, {tempfile.gettempdir()}, has a name too long for a socket, and "
                    f"{' and '.join(_SHORT_PLACES)} cannot be written",
                    "set TMPDIR to a folder with a shorter name",
                )
            path = Path(tempfile.mkdtemp(prefix="functory-prey-", dir=place)) / "socket"
            stack.callback(shutil.rmtree, path.parent, ignore_errors=True)
            path.parent.chmod(0o711)
        self._listeners["A19"].bind(os.fsencode(path))
        return path

    def observed_breaches(self) -> list[tuple[str, str]]:
        """Attacks whose effect is seen from outside: their id, and the effect."""
        found = [("A13", place) for place in self._places if os.path.lexists(place)]
        for id_, listener in self._listeners.items():
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
                found.append((id_, "a connection came in"))
        with contextlib.suppress(ProcessLookupError):
            if resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE) != self._files:
                found.append(("A49", "the limit of open files was changed"))
        if self._process.poll() is not None:
            found.append(("A14", "the process was ended"))
        return found

    def _clean(self) -> None:
        for place in self._places:
            with contextlib.suppress(OSError):
                Path(place).unlink()

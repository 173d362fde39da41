"""Tries, in throw-away processes, each thing that confinement needs of a machine, and reports what failed.

``tiers`` executes it in an interpreter of its own, so that a worker with threads need not fork. That process
forks once for each probe, and all its effects end with it: nothing is seen outside. A probe proves something
by doing it; versions and settings are not trusted, since filters, AppArmor and containers forbid what the
kernel could do.
"""

from __future__ import annotations

import contextlib
import os
import platform
import select
import signal
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from functory.workers.sandbox.confinement import landlock, syscalls, user_ids
from functory.workers.sandbox.confinement.seccomp import filter as seccomp_filter
from functory.workers.sandbox.protocol.plan import MAX_CHILDREN

_ERRNO = struct.Struct("=i")
_MESSAGE_BYTES = 4096
_SECONDS = 10.0  # one trial takes milliseconds
_ALL = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWPID
)
_CREATE_RULESET, _VERSION = 444, 1  # landlock_create_ruleset(2), linux/landlock.h


class Probe(msgspec.Struct, frozen=True):
    """One probe: ``message`` is empty if it worked, else it names what was refused."""

    step: str
    errno: int = 0
    message: str = ""


def filtered() -> None:
    """Make a call without effect, which only a filter of system calls (Docker's does) refuses."""
    syscalls.unshare(0, "call unshare")


def user_namespace() -> None:
    syscalls.unshare(syscalls.CLONE_NEWUSER, "make a user namespace")


def namespaces() -> None:
    _enter()


def many_ids() -> None:
    """Return the ids that tier A maps: unused ones, one for each slot."""
    first = user_ids.free_ids(MAX_CHILDREN + 1)
    _unshare(syscalls.CLONE_NEWUSER, first, first, MAX_CHILDREN + 1)


def mounts() -> None:
    """Build a file tree as a sandbox has it: a tmpfs, a folder bound into it read-only, and it alone as the
    root."""
    _enter()
    place = tempfile.gettempdir()
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", place, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "size=64k")
    os.chdir(place)
    tree = syscalls.open_tree(syscalls.open_path("/usr"), "/usr")
    syscalls.set_mount(tree, syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOSUID)
    Path("usr").mkdir()
    syscalls.move_mount(tree, f"{place}/usr")
    syscalls.pivot_root(".", ".")
    syscalls.unmount(".", syscalls.MNT_DETACH)


def proc() -> None:
    """Mount a ``/proc`` that shows the processes of a sandbox only."""
    _enter()
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    # The first fork is the first process of the new PID namespace.
    first = os.fork()
    if first == 0:
        with _exit_with_errno():
            syscalls.mount("proc", "/proc", "proc", syscalls.MS_RDONLY, "subset=pid,hidepid=2")
    _expect(first, "mount proc")


def files() -> None:
    """Restrict a process's rights to files by Landlock."""
    syscalls.syscall("ask for Landlock", _CREATE_RULESET, None, 0, _VERSION)
    rules = landlock.Ruleset()
    syscalls.no_new_privileges()
    rules.restrict_self()


def calls() -> None:
    """Load a filter of system calls of our own, on top of the existing ones."""
    profile = seccomp_filter.Profile(name="child")
    seccomp_filter.load(seccomp_filter.program(seccomp_filter.architecture(), profile, os.getpid()))


PROBES: dict[str, Callable[[], None]] = {
    "filtered": filtered,
    "user namespace": user_namespace,
    "namespaces": namespaces,
    "many ids": many_ids,
    "mounts": mounts,
    "proc": proc,
    "landlock": files,
    "filter": calls,
}
"""Every probe by its name in ``tiers``."""


def _enter() -> None:
    """Make all namespaces at once, with an id mapped that this process may map."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        # To map root itself takes a capability more (CAP_SETFCAP), which tier A does without.
        with contextlib.suppress(OSError):
            uid = gid = user_ids.free_ids(MAX_CHILDREN + 1)
    _unshare(_ALL, uid, gid, 1)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _unshare(flags: int, uid: int, gid: int, count: int) -> None:
    """Make new namespaces in which the ids from 0 on are those from ``uid`` and ``gid`` on outside.

    A helper that stays outside writes the maps: it has its capabilities there (user_namespaces(7)).
    """
    own = os.getpid()
    waiting, go = os.pipe()
    helper = os.fork()
    if helper == 0:
        with _exit_with_errno():
            os.close(go)
            os.read(waiting, 1)
            if os.geteuid() != 0:
                Path(f"/proc/{own}/setgroups").write_text("deny")
            Path(f"/proc/{own}/gid_map").write_text(f"0 {gid} {count}")
            Path(f"/proc/{own}/uid_map").write_text(f"0 {uid} {count}")
    try:
        syscalls.unshare(flags, "make namespaces" if flags == _ALL else "make a user namespace")
    except OSError:
        os.kill(helper, signal.SIGKILL)
        os.waitpid(helper, 0)
        raise
    os.close(go)
    _expect(helper, f"map {count} ids" if count > 1 else "map an id")


@contextlib.contextmanager
def _exit_with_errno():
    """End this process with the errno of what the block raises."""
    number = 0
    try:
        yield
    except OSError as error:
        number = error.errno or 1
    finally:
        os._exit(number)


def _expect(child: int, step: str) -> None:
    """Wait for a process; OSError with the errno that its exit code carries."""
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if number:
        raise OSError(number, f"{step}: {os.strerror(number)}")


def run_probe(step: str, work: Callable[[], None]) -> Probe:
    """Do ``work`` in a process of its own and return the result; never raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        result = _ERRNO.pack(1)
        try:
            os.close(reading)
            work()
            result = b"+"
        except BaseException as error:
            number = error.errno if isinstance(error, OSError) else None
            text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            result = _ERRNO.pack(number or 0) + (text or type(error).__name__).encode("utf-8", "replace")
        finally:
            os.write(writing, result[:_MESSAGE_BYTES])
            os._exit(0)
    os.close(writing)
    answer = _read_answer(reading)
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if answer == b"+":
        return Probe(step)
    if len(answer) < _ERRNO.size:
        why = "it was killed by " + signal.Signals(-status).name if status < 0 else "it did not answer"
        return Probe(step, message=f"{step}: {why}")
    (number,) = _ERRNO.unpack_from(answer)
    return Probe(step, number, answer[_ERRNO.size :].decode("utf-8", "replace"))


def _read_answer(reading: int) -> bytes:
    waiting = select.poll()
    waiting.register(reading, select.POLLIN)
    return os.read(reading, _MESSAGE_BYTES) if waiting.poll(_SECONDS * 1000) else b""


def main() -> None:
    """Try everything and write the probes to stdout, as JSON."""
    if platform.system() != "Linux":
        raise SystemExit("not Linux")
    found = [run_probe(step, work) for step, work in PROBES.items()]
    sys.stdout.buffer.write(msgspec.json.encode(found))

"""Runs a command as a container engine runs it: a root of its own, read-only, another user, fewer system calls.

    python -m tests.support.clean_root --tree ENVIRONMENT --volume FOLDER [--mount SOURCE:TARGET] -- functory worker

The root has Python with its standard library and what they load, a shell, and ``ENVIRONMENT`` as ``/opt/functory``:
what ``deploy/Dockerfile`` puts into its last stage. ``--system`` takes the root from a folder instead, for example one
that debootstrap has made. ``/var/lib/functory`` is the volume, ``/tmp`` and ``/dev/shm`` are new, nothing else can be
written. ``/proc`` is covered as Docker covers it. The user is 10001, without capabilities or a way to new ones.
The profile of system calls is ``deploy/seccomp-worker.json``, or with ``--profile default`` that one without the calls
that Docker's own profile refuses.

It needs root, and shares the network with the machine. Everything ends with the process that started it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from functory.workers.sandbox.confinement import syscalls
from tests.support.seccomp_profile import Prepared, Profile

PROFILE = Path(__file__).parents[2] / "deploy" / "seccomp-worker.json"
# Docker's own profile allows them only to a process with CAP_SYS_ADMIN.
SANDBOX_CALLS = frozenset(
    "unshare setns mount open_tree move_mount mount_setattr pivot_root umount2".split()  # noqa: SIM905 - to read
)
USER = 10001
_FOLDERS = (
    "proc",
    "dev",
    "tmp",
    "run/secrets",
    "opt/functory",
    "var/lib/functory",
    "work",
    "etc",
    "usr/bin",
    "usr/lib",
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
# Docker's defaults (MaskedPaths, ReadonlyPaths of the OCI runtime specification's example and of its engine).
_MASKED = ("kcore", "keys", "timer_list", "sched_debug", "scsi", "acpi", "latency_stats")
_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_PROGRAMS = ("sh", "env", "dirname", "realpath")
_ETC = ("ld.so.cache", "ssl", "ca-certificates", "hosts", "resolv.conf", "nsswitch.conf", "localtime")


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status, 128 + the number of a signal that ended it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True, help="the environment with Functory")
    parser.add_argument("--volume", type=Path, required=True, help="the folder that is /var/lib/functory")
    parser.add_argument("--system", type=Path, help="a folder that is the root")
    parser.add_argument("--mount", action="append", default=[], help="SOURCE:TARGET, read-only")
    parser.add_argument("--profile", choices=("worker", "default"), default="default")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)

    profile = Profile.read(PROFILE)
    prepared = Prepared(profile if options.profile == "worker" else profile.without(set(SANDBOX_CALLS)))
    syscalls.unshare(
        syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS,
        "make the namespaces of a container",
    )
    return _supervise(lambda: _first_process(options, prepared), die_with_parent=True)


def _first_process(options: argparse.Namespace, prepared: Prepared) -> int:
    """Build the root, enter it, and run the command below this process, as ``init: true`` does."""
    _build(options)
    os.environ["PATH"] = "/opt/functory/bin:/usr/local/bin:/usr/bin:/bin"

    def run() -> int:
        syscalls.bound_capabilities(())
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        syscalls.no_new_privileges()
        os.chdir("/work" if options.mount else "/var/lib/functory")
        prepared.load()
        os.execvp(options.command[0], options.command)

    return _supervise(run)


def _supervise(work: Callable[[], int], *, die_with_parent: bool = False) -> int:
    """Do ``work`` in a process of its own, pass signals on to it, and return its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if die_with_parent:
                syscalls.die_with_parent()
            status = work()
        except OSError as error:
            print(f"clean root: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda received, _: os.kill(child, received))
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _build(options: argparse.Namespace) -> None:
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    root = Path(tempfile.mkdtemp(prefix="clean-root-"))
    if options.system is not None:
        syscalls.mount(str(options.system), str(root), "", syscalls.MS_BIND)
    else:
        syscalls.mount("tmpfs", str(root), "tmpfs", 0, "mode=755,size=16m")
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    if options.system is None:
        _bind_system(root, options.tree)
    _bind(options.tree, root / "opt/functory")
    _bind(options.volume, root / "var/lib/functory", read_only=False)
    for pair in options.mount:
        source, _, target = pair.partition(":")
        _bind(Path(source), root / target.lstrip("/"))
    for name in ("tmp", "dev"):
        syscalls.mount("tmpfs", str(root / name), "tmpfs", syscalls.MS_NOSUID, "mode=1777,size=1g")
    for name in _DEVICES:
        _bind(Path("/dev") / name, root / "dev" / name, read_only=False)
    (root / "dev/fd").symlink_to("/proc/self/fd")
    (root / "dev/shm").mkdir()
    _set_read_only(root / "dev")
    syscalls.mount("tmpfs", str(root / "dev/shm"), "tmpfs", syscalls.MS_NOSUID, "mode=1777,size=64m")
    syscalls.mount(
        "proc", str(root / "proc"), "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    )
    _cover(root / "proc")
    _set_read_only(root)
    os.chdir(root)
    syscalls.pivot_root(".", ".")
    syscalls.unmount(".", syscalls.MNT_DETACH)
    os.chdir("/")


def _bind_system(root: Path, tree: Path) -> None:
    """Bind the Python of ``tree`` and what it loads: its folder below /usr, or its whole prefix elsewhere."""
    python = (tree / "bin/python").resolve()
    prefix = python.parents[1]
    found = [prefix] if prefix != Path("/usr") else [python, *Path("/usr/lib").glob(python.name)]
    found.append(Path("/usr/share/zoneinfo"))
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    found += [place for place in (Path("/usr/lib64"), Path("/usr/lib") / multiarch) if place.is_dir()]
    found += [Path("/usr/bin") / program for program in _PROGRAMS]
    found += [Path("/etc") / name for name in _ETC]
    for place in found:
        if place.exists():
            _bind(place, root / str(place).lstrip("/"))
    for link in ("bin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    (root / "etc/passwd").write_text(f"functory:x:{USER}:{USER}::/var/lib/functory:/bin/sh\n")
    (root / "etc/group").write_text(f"functory:x:{USER}:\n")


def _bind(source: Path, target: Path, *, read_only: bool = True) -> None:
    source = source.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    syscalls.mount(str(source), str(target), "", syscalls.MS_BIND)
    if read_only:
        _set_read_only(target)


def _set_read_only(place: Path) -> None:
    syscalls.set_mount(syscalls.AT_FDCWD, syscalls.MOUNT_ATTR_RDONLY, str(place), recursive=False)


def _cover(proc: Path) -> None:
    for name in _MASKED:
        if (proc / name).is_dir():
            syscalls.mount("tmpfs", str(proc / name), "tmpfs", syscalls.MS_RDONLY, "size=0")
        elif (proc / name).exists():
            syscalls.mount("/dev/null", str(proc / name), "", syscalls.MS_BIND)
    for name in _READ_ONLY:
        if (proc / name).exists():
            _bind(proc / name, proc / name)


def unavailable() -> str:
    """Return why no clean root can be made here; empty where it can."""
    if os.geteuid() != 0:
        return "only root makes the namespaces of a container"
    trial = (
        "from functory.workers.sandbox.confinement import syscalls as s; s.unshare(s.CLONE_NEWNS, 'unshare')"
    )
    done = subprocess.run([sys.executable, "-c", trial], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    try:
        Prepared(Profile.read(PROFILE))
    except OSError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A systemd in namespaces of its own, which runs the units of deploy/systemd and nothing else. Needs root.

    with Systemd(tmp_path) as systemd:
        systemd.run("systemctl", "start", "functory@router")

It sees the files of this machine, with empty folders over those that units change. Processes, mounts and control groups
are its own, and all of them end with the block. The network is the machine's.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.support import unprivileged
from tests.support.patience import patient

ROOT = Path(__file__).parents[2]
PROGRAM = "/usr/lib/systemd/systemd"
UNITS = Path("/etc/systemd/system")
START_SECONDS = patient(30.0)
# sched.h, sys/mount.h, sys/prctl.h
_NEW_NS, _NEW_CGROUP, _NEW_UTS, _NEW_IPC, _NEW_PID = 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000
_BIND, _REC, _PRIVATE, _SHARED, _DETACH = 0x1000, 0x4000, 0x40000, 0x100000, 2
_PDEATHSIG = 1
_USER = "functory:x:977:977::/var/lib/functory:/usr/sbin/nologin\n"
# The machine's own units stay out: a unit of the system would otherwise begin by booting it. Python may be below /root.
_ALONE = "[Unit]\nDefaultDependencies=no\n[Service]\nProtectHome=no\nStandardOutput=append:/run/%p-%i.log\n"
_ALONE += "StandardError=append:/run/%p-%i.log\n"
_libc = ctypes.CDLL(None, use_errno=True)


class Systemd:
    """``folder`` holds what it prints. Raises OSError when it does not start here."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "systemd.log"

    def __enter__(self) -> Systemd:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.systemd_namespace"], cwd=ROOT, stdout=log, stderr=log
            )
        until = time.monotonic() + START_SECONDS
        while self._state() not in ("running", "degraded"):
            if self._process.poll() is not None or time.monotonic() > until:
                self.__exit__(None, None, None)
                raise OSError(f"systemd does not start in a namespace: {self._log.read_text()[-500:]}")
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in self._children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            self._process.wait(patient(20))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def run(self, *words: str) -> str:
        """Run a command beside it, as root, and return what it prints; fails when its status is not 0."""
        done = self._enter(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()

    def _state(self) -> str:
        return self._enter("systemctl", "is-system-running").stdout.strip() if self._children() else ""

    def _enter(self, *words: str) -> subprocess.CompletedProcess[str]:
        (pid,) = self._children()
        entered = ["nsenter", "-t", str(pid), "-m", "-p", "-C", "-u", "-i", "--", *words]
        return subprocess.run(entered, capture_output=True, text=True, check=False, timeout=patient(120))

    def _children(self) -> list[int]:
        with contextlib.suppress(OSError):
            pid = self._process.pid
            return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []


def main() -> int:
    """Become a systemd in new namespaces; the calling process waits for its end and removes its control groups."""
    _die_with_parent()
    _check(_libc.unshare(_NEW_NS), "unshare the mounts")
    _mount("none", "/", flags=_REC | _PRIVATE)
    groups = Path(tempfile.mkdtemp(prefix="groups-"))
    _mount("cgroup", str(groups), "cgroup", data="none,name=systemd")
    own = groups / f"functory-test-{os.getpid()}"
    own.mkdir()
    (own / "cgroup.procs").write_text(str(os.getpid()))
    _check(_libc.unshare(_NEW_CGROUP | _NEW_UTS | _NEW_IPC | _NEW_PID), "unshare the rest")
    pid = os.fork()
    if pid == 0:
        _die_with_parent()
        _become_systemd(groups)
    os.waitpid(pid, 0)
    (groups / "cgroup.procs").write_text(str(os.getpid()))
    for folder, _, _ in os.walk(own, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    _check(_libc.umount2(os.fsencode(groups), _DETACH), "unmount")
    groups.rmdir()
    return 0


def _become_systemd(groups: Path) -> None:
    unprivileged.reveal()
    _mount("proc", "/proc", "proc")
    _mount("tmpfs", "/sys/fs/cgroup", "tmpfs", data="mode=755")
    Path("/sys/fs/cgroup/systemd").mkdir()
    _mount("cgroup", "/sys/fs/cgroup/systemd", "cgroup", data="none,name=systemd")
    for folder in ("/run", "/opt", "/var/lib", str(UNITS)):
        _mount("tmpfs", folder, "tmpfs", data="mode=755")
    for name, line in (("passwd", _USER), ("group", "functory:x:977:\n")):
        copy = Path("/run", name)
        copy.write_text(Path("/etc", name).read_text() + line)
        _mount(str(copy), f"/etc/{name}", flags=_BIND)
    _install_units()
    # As at a boot: what systemd mounts for one unit must be seen by that unit.
    _mount("none", "/", flags=_REC | _SHARED)
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "container": "functory-test"}
    words = [PROGRAM, "--system", "--unit=alone.target", "--log-target=console", "--show-status=no"]
    os.execve(PROGRAM, words, environment)


def _install_units() -> None:
    """Install them as the page says, but for /etc/functory, which is below /run here."""
    shutil.copytree(ROOT / "deploy" / "systemd", UNITS, dirs_exist_ok=True)
    settings = Path("/run/functory-settings")
    settings.mkdir(mode=0o700)
    for unit in UNITS.glob("*.service"):
        unit.write_text(unit.read_text().replace("/etc/functory", str(settings)))
    lines = ["DATABASE_URL=sqlite:////var/lib/functory/rows.db", "BROKER_URL=none://", "API=off", "PORT=0"]
    (settings / "settings").write_text("".join(f"FUNCTORY_{line}\n" for line in lines))
    (settings / "secret.key").write_text(base64.b64encode(os.urandom(32)).decode() + "\n")
    Path("/opt/functory").mkdir()
    Path("/opt/functory/bin").symlink_to(Path(sys.prefix) / "bin")
    for unit in ("functory@.service", "functory-schema.service", "functory.target"):
        folder = UNITS / f"{unit}.d"
        folder.mkdir(exist_ok=True)
        text = _ALONE if unit.endswith("service") else _ALONE.partition("[Service]")[0]
        (folder / "99-alone.conf").write_text(text)
    (UNITS / "alone.target").write_text("[Unit]\nDefaultDependencies=no\n")


def _mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    done = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(done, f"mount {target}")


def _die_with_parent() -> None:
    _libc.prctl(_PDEATHSIG, signal.SIGKILL)


def _check(result: int, step: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{step}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    sys.exit(main())

"""Runs a command as a user without rights, from a test session of root.

    python -m tests.support.unprivileged -- pytest tests/integration/workers/sandbox/confinement/test_confine.py

When the interpreter or this checkout lies below a folder that only root may enter, another user could not even start
Python. So the command gets a mount namespace of its own. There an empty folder that all users may enter covers such a
folder, and the needed folders are mounted in it again. A session that is not root runs the command unchanged.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.patience import patient

UID = 1001
_ROOT = Path(__file__).resolve().parents[2]
_CLONE_NEWNS = 0x00020000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x1000, 0x4000, 0x40000, 2  # linux/mount.h
_libc = ctypes.CDLL(None, use_errno=True)


def command(argv: list[str]) -> list[str]:
    """``argv`` as a command that drops its rights first. Start it in the folder of this checkout."""
    return [sys.executable, "-m", "tests.support.unprivileged", "--", *argv] if os.geteuid() == 0 else argv


def run(argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """``subprocess.run`` of ``argv`` as an ordinary user, its outputs captured as text."""
    return subprocess.run(command(argv), cwd=_ROOT, capture_output=True, text=True, check=False, **options)


def missing() -> str | None:
    """The reason why this session cannot become an ordinary user; None if it can."""
    done = run(
        [sys.executable, "-c", "import os; assert os.getuid() != 0; import tests"], timeout=patient(60)
    )
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it was killed"])[-1]


def become(uid: int = UID) -> None:
    """Change this process to user and group ``uid`` for good. It can still run this interpreter."""
    reveal()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def reveal() -> None:
    """Let every user in this process's new mount namespace reach the interpreter and the checkout. Needs root."""
    needed = [Path(p).resolve() for p in (sys.base_prefix, sys.prefix, _ROOT)]
    closed: dict[Path, list[Path]] = {}
    for path in needed:
        for parent in reversed(path.parents):
            if not parent.stat().st_mode & 0o001:
                closed.setdefault(parent, []).append(path)
                break
    if closed:
        _check(_libc.unshare(_CLONE_NEWNS), "unshare the mounts")
        _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
        for folder, paths in closed.items():
            _uncover(folder, paths)


def _uncover(closed: Path, needed: list[Path]) -> None:
    """Cover ``closed`` with an empty folder that contains only the ``needed`` folders."""
    aside = Path(tempfile.mkdtemp(prefix="ordinary-"))
    _mount("tmpfs", str(aside), "tmpfs", 0, "mode=0755,size=1m")
    for number, path in enumerate(needed):
        (aside / str(number)).mkdir()
        _mount(str(path), str(aside / str(number)), "", _MS_BIND | _MS_REC)
    _mount("tmpfs", str(closed), "tmpfs", 0, "mode=0755,size=1m")
    for number, path in enumerate(needed):
        path.mkdir(parents=True, exist_ok=True)
        _mount(str(aside / str(number)), str(path), "", _MS_BIND | _MS_REC)
    _check(_libc.umount2(os.fsencode(aside), _MNT_DETACH), f"unmount {aside}")
    aside.rmdir()


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    done = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode() or None
    )
    _check(done, f"mount {source} on {target}")


def _check(result: int, step: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{step}: {os.strerror(ctypes.get_errno())}")


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] != "--" or len(arguments) < 2:
        sys.exit("usage: python -m tests.support.unprivileged -- command …")
    argv = arguments[1:]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    if os.geteuid() == 0:
        become()
        environment |= {"HOME": tempfile.gettempdir(), "USER": "ordinary", "LOGNAME": "ordinary"}
    os.execvpe(argv[0], argv, environment)


if __name__ == "__main__":
    main(sys.argv[1:])

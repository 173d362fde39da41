"""Finds what executions could leave behind, from outside: processes, mounts, control groups, files.

Everything that a runner starts carries the mark: the folder of each zygote lies in a folder with the mark in its
name, which stands in the arguments of the process and so in those of all its forks; programs that functions
start have it in theirs. No pid is needed to find them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    pid: int
    parent: int
    command: str


def processes(mark: str) -> list[Process]:
    """Living processes with ``mark`` in their arguments (proc(5): cmdline, stat); no zombies."""
    found: list[Process] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if mark not in command:
                continue
            state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we were looking
        if state != "Z":
            found.append(Process(int(entry.name), int(parent), command))
    return found


def by_role(found: list[Process], worker: int) -> dict[str, list[Process]]:
    """Shims are children of the worker, zygotes of shims, and children of zygotes; ``other`` is the rest."""
    shims = [each for each in found if each.parent == worker]
    zygotes = [each for each in found if each.parent in {shim.pid for shim in shims}]
    children = [each for each in found if each.parent in {zygote.pid for zygote in zygotes}]
    known = {each.pid for each in (*shims, *zygotes, *children)}
    other = [each for each in found if each.pid not in known]
    return {"shim": shims, "zygote": zygotes, "child": children, "other": other}


def kill(process: Process, mark: str) -> bool:
    """SIGKILL, never to another process that has got the same number since; False when it had gone."""
    with suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            if mark not in Path(f"/proc/{process.pid}/cmdline").read_bytes().decode("utf-8", "replace"):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
        finally:
            os.close(handle)
    return False


def mounts(mark: str) -> list[str]:
    """Mounts here whose line speaks of the mark."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if mark in line]


def groups(workers: Iterable[int]) -> list[str]:
    """Folders of control groups that workers with these pids have made: see ``cgroups`` for their names."""
    names = tuple(f"functory-{Path('/proc/self/ns/pid').stat().st_ino}-{pid}-" for pid in workers)
    found: list[str] = []
    for folder, folders, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{folder}/{name}" for name in folders if name.startswith(names)]
    return found


def folders(folder: Path) -> list[str]:
    """The folders directly in a folder."""
    return [path.name for path in folder.iterdir() if path.is_dir()]


def files(folder: Path) -> list[str]:
    """Everything below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def descriptors(pid: int) -> int | None:
    """How many open descriptors a process has; None where we may not look."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - a closed one must not stop the count
    except OSError:
        return None

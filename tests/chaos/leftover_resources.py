"""Finds resources that executions left behind: processes, mounts, control groups, files.

Every process of a runner has the mark in its arguments: a zygote's arguments have the path of its folder, whose name
contains the mark, and its forks have the same arguments. Programs that functions start have the mark as an argument.
So the search needs no process ids.
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
            continue  # the process ended during the search
        if state != "Z":
            found.append(Process(int(entry.name), int(parent), command))
    return found


def by_role(found: list[Process], worker: int) -> dict[str, list[Process]]:
    """Group processes by role: shims are children of the worker, zygotes of shims, children of zygotes; ``other`` is
    the rest."""
    shims = [each for each in found if each.parent == worker]
    zygotes = [each for each in found if each.parent in {shim.pid for shim in shims}]
    children = [each for each in found if each.parent in {zygote.pid for zygote in zygotes}]
    known = {each.pid for each in (*shims, *zygotes, *children)}
    other = [each for each in found if each.pid not in known]
    return {"shim": shims, "zygote": zygotes, "child": children, "other": other}


def kill(process: Process, mark: str) -> bool:
    """SIGKILL a process, never another one with the same id. False when it had already ended."""
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
    """The mounts whose line in the mount table contains the mark."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if mark in line]


def groups(workers: Iterable[int]) -> list[str]:
    """The control-group folders that workers with these process ids made; ``cgroups`` defines their names."""
    names = tuple(f"functory-{Path('/proc/self/ns/pid').stat().st_ino}-{pid}-" for pid in workers)
    found: list[str] = []
    for folder, folders, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{folder}/{name}" for name in folders if name.startswith(names)]
    return found


def folders(folder: Path) -> list[str]:
    """The direct subfolders of a folder."""
    return [path.name for path in folder.iterdir() if path.is_dir()]


def files(folder: Path) -> list[str]:
    """Everything below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def descriptors(pid: int) -> int | None:
    """The number of open descriptors of a process; None without permission."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - a closed one must not stop the count
    except OSError:
        return None

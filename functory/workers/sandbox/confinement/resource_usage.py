"""Measures from /proc the resources of an execution and all its processes, where no limit of the kernel counts them.

Resource limits hold for each process. Where programs were granted, time and memory add up over them, and a
process that was never waited for is in no total; so the last measured usage of each process is remembered.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ResourceUsage:
    """Adds up the usage of ``pid`` and the processes below it. ``sample`` brings the attributes up to date.

    ``cpu_seconds`` never falls; usage between the last sample and the end of a process is not counted.
    ``memory_bytes`` is private memory. What ``pid`` had when first seen counts once: its forks share it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used: dict[tuple[int, int], float] = {}
        self.cpu_seconds = 0.0
        self.memory_bytes = 0
        self._shared: int | None = None

    def sample(self) -> None:
        memory = self._shared or 0
        pending = [self._pid]
        while pending:
            pid = pending.pop()
            with contextlib.suppress(OSError, ValueError):
                facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                # proc(5): utime and stime are fields 14 and 15, starttime 22.
                self._used[pid, int(facts[19])] = (int(facts[11]) + int(facts[12])) / _TICKS
                _, resident, of_files = Path(f"/proc/{pid}/statm").read_text().split()[:3]
                private = (int(resident) - int(of_files)) * _PAGE
                if self._shared is None:
                    self._shared = memory = private
                memory += max(0, private - self._shared)
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    pending += map(int, (thread / "children").read_text().split())
        self.memory_bytes = memory
        self.cpu_seconds = sum(self._used.values())


def cpu_seconds(pid: int | None) -> float:
    """Return the CPU seconds of a process, by its clock (clock_getcpuclockid(3)); 0 for one that is gone."""
    try:
        return 0.0 if pid is None else time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def unlinked_file_bytes(pid: int) -> int:
    """Return the bytes on disk of open files that are in no folder any more; 0 where /proc does not show them."""
    found: dict[tuple[int, int], int] = {}
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for file in (thread / "fd").iterdir():
                with contextlib.suppress(OSError):
                    facts = file.stat()
                    if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 0:
                        found[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    return sum(found.values())


def resident_bytes(pid: int | None) -> int:
    """Return the memory that a process holds now; 0 for one that is gone or not shown."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:  # noqa: PTH123 - a third of the time of a Path
            return int(file.read(128).split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0

"""Sets the kernel's limits of a child (setrlimit(2)): memory, processor time, file size, open files, tasks.

They hold in every tier. RLIMIT_AS bounds the memory of one process, as address space;
:mod:`functory.workers.sandbox.confinement.cgroups` bounds the real memory of a child with all its processes,
where control groups can be written. How much a function may have is in :mod:`functory.engine.functions.limits`.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Iterable, Mapping
from pathlib import Path

from functory.workers.sandbox.protocol.plan import Bounds

_RLIMIT_MSGQUEUE = 12  # asm-generic/resource.h; the resource module has no name for it
_UNUSED = (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, _RLIMIT_MSGQUEUE)
_LIMITED = (
    resource.RLIMIT_CPU,
    resource.RLIMIT_AS,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
)


def forbid_unused() -> None:
    """Set the limits of what no function may use to 0: core files, locked memory, message queues."""
    for kind in _UNUSED:
        resource.setrlimit(kind, (0, 0))


def ceilings() -> dict[int, int]:
    """Return the hard limits of this process, by kind: no child may have more."""
    return {kind: resource.getrlimit(kind)[1] for kind in _LIMITED}


def child_limits(
    bounds: Bounds, tasks: int, ceilings: Mapping[int, int]
) -> list[tuple[int, tuple[int, int]]]:
    """Return the limits of a child with ``bounds`` and ``tasks``, by kind; a ceiling that is lower stays."""
    # One second between soft and hard: SIGXCPU distinguishes a spent CPU budget from a kill for memory.
    cpu = max(1, math.ceil(bounds.cpu_seconds))
    limits = {
        resource.RLIMIT_AS: (bounds.memory_bytes, bounds.memory_bytes),
        resource.RLIMIT_FSIZE: (bounds.file_bytes, bounds.file_bytes),
        resource.RLIMIT_NOFILE: (bounds.open_files, bounds.open_files),
        resource.RLIMIT_NPROC: (tasks, tasks),
    }
    if not bounds.reusable:
        limits[resource.RLIMIT_CPU] = (cpu, cpu + 1)
    found: list[tuple[int, tuple[int, int]]] = []
    for kind, (soft, hard) in limits.items():
        highest = math.inf if ceilings[kind] == resource.RLIM_INFINITY else ceilings[kind]
        found.append((kind, (int(min(soft, highest)), int(min(hard, highest)))))
    return found


def set_limits(limits: Iterable[tuple[int, tuple[int, int]]]) -> None:
    """Set the soft and hard limits of this process."""
    for kind, values in limits:
        resource.setrlimit(kind, values)


def limit_memory(size: int) -> None:
    """Limit the address space of this process and its later children to ``size`` bytes; a lower limit stays."""
    _, ceiling = resource.getrlimit(resource.RLIMIT_AS)
    most = size if ceiling == resource.RLIM_INFINITY else min(size, ceiling)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def lower_tasks(value: int) -> None:
    """Lower the number of tasks that this process's user may have to ``value``; a lower limit stays."""
    _, ceiling = resource.getrlimit(resource.RLIMIT_NPROC)
    if ceiling == resource.RLIM_INFINITY or ceiling > value:
        resource.setrlimit(resource.RLIMIT_NPROC, (value, value))


def tasks_of_this_user() -> int:
    """Return the number of threads that the user of this process has now, as far as /proc shows them."""
    own = os.getuid()
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == own:
                    total += sum(1 for _ in (entry / "task").iterdir())
            except OSError:
                continue  # it ended meanwhile
    return total

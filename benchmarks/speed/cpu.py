"""CPU time of process trees, from ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def own_ms(pid: int) -> float:
    """Milliseconds of CPU (user and system) of one process, without its children; 0 when it is gone."""
    fields = _stat(pid)
    return (fields[0] + fields[1]) * _TICK_MS if fields else 0.0


def children_ms(pid: int) -> float:
    """Milliseconds of all processes below ``pid``, those that ended and were reaped included."""
    fields = _stat(pid)
    if not fields:
        return 0.0
    return (fields[2] + fields[3]) * _TICK_MS + sum(tree_ms(child) for child in _children(pid))


def tree_ms(pid: int, without: Collection[int] = ()) -> float:
    """Milliseconds of a process and all below it, except the processes of ``without``."""
    fields = _stat(pid)
    if not fields or pid in without:
        return 0.0
    return sum(fields) * _TICK_MS + sum(tree_ms(child, without) for child in _children(pid))


def _stat(pid: int) -> tuple[int, int, int, int] | None:
    """utime, stime, cutime and cstime in ticks (proc(5))."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the name in brackets, which may hold spaces and brackets.
    words = text.rpartition(")")[2].split()
    utime, stime, cutime, cstime = map(int, words[11:15])
    return utime, stime, cutime, cstime


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found

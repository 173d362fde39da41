"""Puts the descriptors of a fresh child in place and leaves everything else of the zygote behind."""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingImports]
import gc
import os
import random
import select
import signal
import sys
from collections.abc import Sequence

from functory.workers.sandbox.confinement import syscalls

CHANNEL_FD = 3
# The broker's socket, or the pipe of tickets: who connects to hosts rides no trains.
EXTRA_FD = 4


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, to find and end them where no namespace does."""
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1, "adopt orphans")


def enter_cgroups(cgroups: Sequence[int]) -> None:
    """Move this process into control groups, by their open ``cgroup.procs`` files (cgroups(7))."""
    for fd in cgroups:
        os.write(fd, b"0")


def install_descriptors(channel: int, stdout: int, stderr: int, extra: int | None) -> None:
    """Put the child's descriptors in their places; the ones given are above 4."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.dup2(channel, CHANNEL_FD, inheritable=False)
    if extra is not None:
        os.dup2(extra, EXTRA_FD, inheritable=False)


def close_from(lowest: int) -> None:
    """Close every descriptor from ``lowest`` up: nothing of the zygote's stays open."""
    os.closerange(lowest, os.sysconf("SC_OPEN_MAX"))


def restore_defaults() -> None:
    """Set signals and garbage collection to what a program expects; the zygote had changed both."""
    # Of the C module: that of ``signal`` makes enumeration members.
    _signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()


def reseed(seed: int) -> None:
    """Reseed the random numbers: a fork has those of its siblings, numpy's as well once it is loaded."""
    random.seed(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(seed)


def take_ticket() -> None:
    """Wait for the right to begin a passenger of a train, and use it up; the process ends if its worker has gone."""
    while True:
        try:
            if not os.read(EXTRA_FD, 1):
                os._exit(1)
            return
        except BlockingIOError:
            select.select([EXTRA_FD], [], [])

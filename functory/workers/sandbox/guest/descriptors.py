"""Puts the descriptors of a fresh child in place and leaves everything else of the zygote behind."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import sys
from collections.abc import Sequence

from functory.workers.sandbox.confinement import syscalls

CHANNEL_FD = 3
BROKER_FD = 4


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, to find and end them where no namespace does."""
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1, "adopt orphans")


def enter_cgroups(cgroups: Sequence[int]) -> None:
    """Move this process into control groups, by their open ``cgroup.procs`` files (cgroups(7))."""
    for fd in cgroups:
        os.write(fd, b"0")


def install_descriptors(channel: int, stdout: int, stderr: int, broker: int | None) -> None:
    """Put the child's descriptors in their places; the ones given are above 4."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.dup2(channel, CHANNEL_FD, inheritable=False)
    if broker is not None:
        os.dup2(broker, BROKER_FD, inheritable=False)


def close_from(lowest: int) -> None:
    """Close every descriptor from ``lowest`` up: nothing of the zygote's stays open."""
    os.closerange(lowest, os.sysconf("SC_OPEN_MAX"))


def restore_defaults() -> None:
    """Set signals and garbage collection to what a program expects; the zygote had changed both."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()


def reseed(seed: int) -> None:
    """Reseed the random numbers: a fork has those of its siblings, numpy's as well once it is loaded."""
    random.seed(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(seed)


def channel_socket() -> socket.socket:
    """Return the socket to the worker, blocking."""
    channel = socket.socket(fileno=CHANNEL_FD)
    channel.setblocking(True)
    return channel

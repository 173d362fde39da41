"""How a fresh child makes itself a process of its own: session, descriptors, kernel limits.

The zygote's child calls ``detach`` at once and ``limit`` when it knows its limits. Whatever it leaves
behind is found by its process group, or, as children of the zygote, once it is gone: it asks to be the
reaper of its descendants, so that those who detach themselves come back to it and never to init.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import random
import resource
import signal
import socket

from workers.sandbox.job import Limits

CHANNEL_FD = 3
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument; OSError when the kernel refuses."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def detach(zygote: int, channel: int, stdout: int, stderr: int, scratch: str) -> None:
    """Own session and process group, fds 0-3 and no others, scratch as the working folder.

    ``zygote`` is the pid whose death must end this process too; the three descriptors are above 3.
    """
    os.setsid()
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != zygote:
        os._exit(1)
    adopt_orphans()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.dup2(channel, CHANNEL_FD, inheritable=False)
    os.closerange(CHANNEL_FD + 1, os.sysconf("SC_OPEN_MAX"))
    os.chdir(scratch)
    os.environ.update(HOME=scratch, TMPDIR=scratch, PWD=scratch)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def limit(limits: Limits, seed: int) -> None:
    """Set the kernel's limits and give this process its own random numbers."""
    cpu = max(1, math.ceil(limits.cpu_seconds))
    # One second between soft and hard: SIGXCPU tells a spent CPU budget from a kill for memory.
    for kind, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files, limits.open_files),
    ):
        _, ceiling = resource.getrlimit(kind)
        if ceiling != resource.RLIM_INFINITY:
            resource.setrlimit(kind, (min(soft, ceiling), min(hard, ceiling)))
        else:
            resource.setrlimit(kind, (soft, hard))
    random.seed(seed)
    gc.enable()


def channel_socket() -> socket.socket:
    """The socket to the worker, blocking."""
    channel = socket.socket(fileno=CHANNEL_FD)
    channel.setblocking(True)
    return channel

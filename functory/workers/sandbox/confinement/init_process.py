"""The init process between worker and zygote: it stays outside, waits, and cleans up.

A zygote is the first process of its own PID namespace and runs preloaded, foreign code, so it can neither see
its parent nor be trusted to end. ``start_init_process`` forks: the original is the init process and never
returns. It ends as its zygote ended, and with it; when the worker goes it gives the zygote some seconds and then
kills it; last it ends the orphans of the zygote, and removes its folder, which the zygote itself cannot reach.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import struct
import time
from pathlib import Path
from typing import NoReturn

from functory.workers.sandbox.confinement import scratch, syscalls

_PID = struct.Struct("=i")
_GRACE_SECONDS = 5.0  # an orderly zygote needs some hundredths of a second to end its children


class InitProcessLink:
    """Binds a zygote to its init process. ``kill_pipe`` stays open, for ``request_kill``."""

    def __init__(self, up: int, down: int, kill_pipe: int) -> None:
        self._up = up
        self._down = down
        self.kill_pipe = kill_pipe

    def announce(self, pid: int) -> None:
        """Report the zygote's pid to the init process: its child, or the child of a child that ends now."""
        os.write(self._up, _PID.pack(pid))

    def attach(self) -> None:
        """In the zygote: become the init process's child, and die when it dies. Blocks until that is so."""
        os.close(self._up)
        if os.read(self._down, 1) == b"":
            os._exit(1)
        syscalls.die_with_parent()

    def close(self) -> None:
        """Request again to die with the parent; the kernel forgets the request of ``attach`` at a change of ids."""
        syscalls.die_with_parent()
        poll = select.poll()
        poll.register(self._down, 0)
        if poll.poll(0):  # the other end is closed: the init process died before it could report
            os._exit(1)
        os.close(self._down)


def request_kill(kill_pipe: int, pid: int) -> None:
    """Let the init process kill ``pid``, a child of this zygote, which itself may not send signals."""
    os.write(kill_pipe, _PID.pack(pid))


def start_init_process(base: str, lifeline: int | None) -> InitProcessLink:
    """Return in a new process; this one becomes its init process. ``lifeline`` hangs up when the worker has
    gone."""
    up, up_end = os.pipe()
    down_end, down = os.pipe()
    orders, orders_end = os.pipe()
    # A zygote in a new PID namespace is forked by a process that ends at once, and then becomes our child.
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1, "adopt the zygote")
    first = os.fork()
    if first == 0:
        os.close(up)
        os.close(down)
        os.close(orders)
        return InitProcessLink(up_end, down_end, orders_end)
    status = 1 << 8
    try:
        status = _watch(first, up, down, orders, lifeline, (up_end, down_end, orders_end))
    finally:
        _end_orphans()
        scratch.remove(base)
        _end_like(status)


def _watch(
    first: int, up: int, down: int, kill_pipe: int, lifeline: int | None, theirs: tuple[int, ...]
) -> int:
    """Wait for the zygote's end and return its wait status."""
    for fd in theirs:
        os.close(fd)
    announced = os.read(up, _PID.size)
    if len(announced) < _PID.size:
        return os.waitpid(first, 0)[1]
    (zygote,) = _PID.unpack(announced)
    if zygote != first:
        os.waitpid(first, 0)
    handle = os.pidfd_open(zygote)
    syscalls.close_all_but({0, 1, 2, down, kill_pipe, handle, *([] if lifeline is None else [lifeline])})
    with contextlib.suppress(BrokenPipeError):
        os.write(down, b"g")
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(kill_pipe, select.POLLIN)
    if lifeline is not None:
        poll.register(lifeline, 0)
    deadline = None
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = dict(poll.poll(None if left is None else left * 1000))
        if handle in ready:
            break
        # Before the requests: a zygote that sends them without end must not delay its own end.
        if lifeline in ready and lifeline is not None:
            poll.unregister(lifeline)
            deadline = time.monotonic() + _GRACE_SECONDS
        elif left == 0:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            deadline = None
        elif kill_pipe in ready:
            _kill_requested_child(kill_pipe, zygote, poll)
    return os.waitpid(zygote, 0)[1]


def _end_orphans() -> None:
    """End what is left of the zygote: its orphans are children of this process, as are theirs once they are dead.

    Where the zygote had a PID namespace, the kernel has done so.
    """
    own = os.getpid()
    with contextlib.suppress(OSError):
        while pids := Path(f"/proc/{own}/task/{own}/children").read_text().split():
            for pid in map(int, pids):
                # Not waited for yet, so the number is still that of our child.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _kill_requested_child(kill_pipe: int, zygote: int, poll: select.poll) -> None:
    """Kill the child that the zygote names. A zygote is not trusted: only its own child is killed."""
    order = os.read(kill_pipe, _PID.size)
    if len(order) < _PID.size:
        poll.unregister(kill_pipe)
        return
    with contextlib.suppress(OSError, ValueError):
        handle = os.pidfd_open(_PID.unpack(order)[0])
        try:
            # Checked after it was opened: the number cannot have passed to another process in between.
            stat = Path(f"/proc/{_PID.unpack(order)[0]}/stat").read_text()
            if int(stat.rpartition(")")[2].split()[1]) == zygote:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _end_like(status: int) -> NoReturn:
    """End with the exit code, or by the signal, that another process ended with."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)

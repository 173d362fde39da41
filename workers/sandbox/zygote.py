"""The fork server: a small process that has everything loaded and forks one child for each execution.

``launcher`` executes it (never forks it: it shares no memory with the worker) with a control socket and
a base folder. Each message on the control socket is a ``Fork`` with four descriptors: the child's channel,
its stdout and stderr, and a status socket that stays here. On the status socket the zygote says
``started(pid)``, ``ended(wait status)`` or ``refused(errno)``; the worker asks for the
child's end by shutting its side down (a byte that was sent, and not read in time, would make the kernel
reset the socket and lose the last word). When the control socket closes, the worker is gone:
the zygote ends all children, removes the base folder and exits.

It runs one thread, so that forking is safe, and never runs user code itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path

import msgspec

from workers.sandbox import guest, process, scratch

READY = b"ready"
STATUS = struct.Struct("<ci")
STARTED, ENDED, REFUSED = b"s", b"e", b"r"
_DESCRIPTORS = 4
_LOWEST_OWN_FD = 10  # descriptors that arrive must not collide with those the child is given
_SWEEP_ROUNDS = 50  # a killed process is gone within a round or two; a stuck one is left for the next sweep
_SWEEP_PAUSE_SECONDS = 0.001


class Fork(msgspec.Struct):
    """What the worker asks for; ``inspecting`` loads pydantic first, once."""

    scratch: str
    inspecting: bool


class _Child:
    """A running execution: its pid, a pidfd that reports its end, and the socket to its supervisor."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self.status = status
        self.handle = os.pidfd_open(pid)

    def kill(self) -> None:
        """End the process and its group. Safe: the pid is ours until ``_reap`` has waited for it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def say(self, word: bytes, number: int) -> None:
        with contextlib.suppress(OSError):
            self.status.send(STATUS.pack(word, number), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def close(self) -> None:
        self.status.close()
        os.close(self.handle)


class Zygote:
    """Serves one control socket until it closes."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._children: dict[int, _Child] = {}
        self._by_fd: dict[int, _Child] = {}

    def serve(self) -> None:
        while True:
            ready = [fd for fd, _ in self._poll.poll()]
            for fd in ready:
                if (child := self._by_fd.get(fd)) is None:
                    continue
                if fd == child.handle:
                    self._reap(child)
                else:
                    child.kill()
                    # One request is enough; a closed peer would otherwise wake the loop for ever.
                    self._forget(fd)
            # Last, because a new child may be given descriptor numbers that were just closed.
            if self._control.fileno() in ready and not self._answer():
                return

    def close(self) -> None:
        """End every child and what it left."""
        for child in list(self._children.values()):
            child.kill()
            os.waitpid(child.pid, 0)
            del self._children[child.pid]
        self._sweep()

    def _answer(self) -> bool:
        payload, fds, _, _ = socket.recv_fds(self._control, 8192, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not payload:
            return False
        request = msgspec.msgpack.decode(payload, type=Fork)
        channel, stdout, stderr, status_fd = fds
        status = socket.socket(fileno=status_fd)
        if request.inspecting:
            guest.load_inspection()
            gc.freeze()
        own = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            status.send(STATUS.pack(REFUSED, error.errno or 0))
            status.close()
        else:
            if pid == 0:
                guest.become(own, channel, stdout, stderr, request.scratch)
            child = _Child(pid, status)
            self._children[pid] = child
            for fd in (child.handle, status.fileno()):
                self._by_fd[fd] = child
                self._poll.register(fd, select.POLLIN)
            child.say(STARTED, pid)
        for fd in (channel, stdout, stderr):
            os.close(fd)
        return True

    def _reap(self, child: _Child) -> None:
        """The leader is dead: end its group while its pid still names it, then whoever came to us."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        _, status = os.waitpid(child.pid, 0)
        del self._children[child.pid]
        self._sweep()
        child.say(ENDED, status)
        for fd in (child.handle, child.status.fileno()):
            self._forget(fd)
        child.close()

    def _sweep(self) -> None:
        """End the orphans of dead executions: every child of ours that is not a running execution.

        A running execution is the reaper of its own descendants, so those that are here have lost it.
        """
        for round_ in range(_SWEEP_ROUNDS):
            strangers = [pid for pid in _own_children() if pid not in self._children]
            if not strangers:
                return
            if round_:
                time.sleep(_SWEEP_PAUSE_SECONDS)
            for pid in strangers:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _forget(self, fd: int) -> None:
        if self._by_fd.pop(fd, None) is not None:
            self._poll.unregister(fd)


def _own_children() -> list[int]:
    """Pids of this process's children (proc(5), ``/proc/pid/task/tid/children``); none where it is absent."""
    own = os.getpid()
    try:
        return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]
    except FileNotFoundError:
        return []


def main(control_fd: int, base: str, root: str) -> None:
    """Run until the worker goes. ``root`` is where this package was imported from: user code cannot."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=control_fd)
    null = os.open(os.devnull, os.O_RDWR)
    while null < _LOWEST_OWN_FD:
        null = os.dup(null)
    control_fd = os.dup(control.fileno())
    control.close()
    control = socket.socket(fileno=control_fd)
    process.adopt_orphans()
    if root in sys.path:
        sys.path.remove(root)
    sys.argv = ["functory"]
    gc.collect()
    gc.disable()
    gc.freeze()
    zygote = Zygote(control)
    try:
        control.send(READY)
        zygote.serve()
    except BrokenPipeError:
        # The worker went while this process was starting.
        return
    finally:
        zygote.close()
        scratch.remove(base)

"""The worker's handle on one child: its channel, its output, and the zygote's report of its end.

A child may exist before its task (a spare), and may run many executions (a warm one). ``Pool`` makes and removes
children; ``Supervisor`` watches one while it runs a task.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time

from functory.workers.sandbox.confinement.cgroups import Cgroup
from functory.workers.sandbox.confinement.resource_usage import ResourceUsage
from functory.workers.sandbox.pool.zygote_process import ZygoteProcess
from functory.workers.sandbox.protocol.control import EventFd
from functory.workers.sandbox.protocol.plan import ENDED, REFUSED, STARTED, STATUS, Bounds, ForkRequest

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid; unix(7)
MOST_TICKETS = 4096  # a pipe takes as many at once, without waiting: pipe(7), PIPE_BUF
# A thread that was joined has ended for the interpreter a little before it has for the kernel.
_EXIT_SECONDS = 0.002
_ANCILLARY = socket.CMSG_SPACE(_CREDENTIALS.size)


class Child:
    """One child of ``zygote`` with the limits ``bounds``, from its request to its removal.

    ``pid`` is its number here, None until it has started. ``wait_status`` is set once it has ended, ``fork_errno``
    when no process could be made, ``lost`` when its zygote reports no longer. ``first_memory_bytes`` is what it held
    after its first run, None while that was not looked at. ``makes_requests`` is True once it has a thread that reads
    the replies to its requests; ``idle_cpu_seconds`` is what it had used when it was put back, and
    ``idle_usage`` measures what it has started, since it was first looked at.
    """

    def __init__(
        self,
        zygote: ZygoteProcess,
        bounds: Bounds,
        slot: int,
        folder: str,
        created_at: float,
        *,
        group: Cgroup | None = None,
        broker: socket.socket | None = None,
        spare: bool = False,
        tickets: bool = False,
    ) -> None:
        self.spare = spare
        self.zygote = zygote
        self.bounds = bounds
        self.slot = slot
        self.folder = folder
        self.created_at = created_at
        self.group = group
        self.runs = 0
        self.first_memory_bytes: int | None = None
        self.memory_checked_at = 0.0
        self.makes_requests = False
        self.idle_cpu_seconds = 0.0
        self.idle_usage: tuple[ResourceUsage, float] | None = None
        self.pid: int | None = None
        self.wait_status: int | None = None
        self.fork_errno: int | None = None
        self.lost = False
        self.cpu_seconds = 0.0
        self.memory_bytes = 0
        self.output: dict[int, str] = {}
        self._broker = broker
        # Both ends are ours: a ticket that we read back is one that the child cannot take any more.
        self._tickets = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if tickets else None
        self.channel, self._theirs = socket.socketpair()
        self.channel.setblocking(False)
        self.status, self._their_status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The kernel writes the sender's pid into each message, in the numbers of the receiver.
        self.status.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._their_output: list[int] = []
        for name in ("stdout", "stderr"):
            reading, writing = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(reading, False)
            self.output[reading] = name
            self._their_output.append(writing)
        self._pipes = list(self.output)
        self._tasks: int | None = None
        self._open = True
        self.wake = EventFd()
        self.poll = select.poll()
        for fd in (self.channel.fileno(), self.status.fileno(), self.wake.fileno(), *self.output):
            self.poll.register(fd, select.POLLIN)

    def _descriptors(self) -> list[int]:
        """Return the descriptors of the ``ForkRequest``, in its order."""
        fds = [self._theirs.fileno(), *self._their_output, self._their_status.fileno()]
        if self._broker is not None:
            fds.append(self._broker.fileno())
        if self._tickets is not None:
            fds.append(self._tickets[0])
        return fds + (list(self.group.fds) if self.group is not None else [])

    def _sent(self) -> None:
        """Close our copies of the descriptors that the zygote has now.

        With our copies open, the supervisor would never see the end of the channel and the pipes.
        """
        self._theirs.close()
        self._their_status.close()
        for fd in self._their_output:
            os.close(fd)
        self._their_output = []
        if self._broker is not None:
            self._broker.close()

    def fork(self) -> bool:
        """Request the child; False when the zygote does not take the request."""
        groups = len(self.group.fds) if self.group is not None else 0
        fork = ForkRequest(
            bounds=self.bounds,
            slot=self.slot,
            scratch=self.folder,
            cgroups=groups,
            tickets=self._tickets is not None,
            spare=self.spare,
        )
        taken = self.zygote.fork(fork, self._descriptors())
        self._sent()
        return taken

    def issue_tickets(self, count: int) -> None:
        """Let the child begin ``count`` passengers of a train."""
        assert self._tickets is not None
        os.write(self._tickets[1], b"t" * count)

    def take_back_tickets(self) -> int:
        """Take all tickets that the child has not taken, and return their number. No more passengers begin."""
        assert self._tickets is not None
        try:
            return len(os.read(self._tickets[0], MOST_TICKETS))
        except BlockingIOError:
            return 0

    def read_status(self) -> None:
        """Read one message from the status socket, which is readable or has a timeout."""
        try:
            data, ancillary, _, _ = self.status.recvmsg(STATUS.size, _ANCILLARY)
        except OSError:
            data, ancillary = b"", []
        if len(data) != STATUS.size:
            self.lost = True
            return
        word, number, cpu, memory = STATUS.unpack(data)
        if word == STARTED:
            self.pid = next(
                (_CREDENTIALS.unpack(d)[0] for _, kind, d in ancillary if kind == socket.SCM_CREDENTIALS),
                number,
            )
        elif word == ENDED:
            self.wait_status = number
            self.cpu_seconds, self.memory_bytes = cpu, memory
        elif word == REFUSED:
            self.fork_errno = number
            self.lost = True

    def ended(self) -> bool:
        """Return True if the zygote will report nothing more about the child."""
        return self.wait_status is not None or self.lost

    def has_foreign_threads(self) -> bool:
        """Return True if the kernel knows threads of it that Functory has not started. It does so in every tier."""
        own = 1 + self.makes_requests
        if self._count_threads() <= own:
            return False
        time.sleep(_EXIT_SECONDS)
        return self._count_threads() > own

    def _count_threads(self) -> int:
        try:
            if self._tasks is None:
                self._tasks = os.open(f"/proc/{self.pid}/task", os.O_PATH | os.O_CLOEXEC)
            # The folder has two links, and one for each thread; proc(5).
            return os.fstat(self._tasks).st_nlink - 2
        except OSError:
            # It has ended, or /proc is not shown here: then the child's own count remains.
            return 0

    def request_kill(self) -> None:
        """Request its death of the zygote, which reports the end on the status socket."""
        with contextlib.suppress(OSError):
            self.status.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close our descriptors; safe to call twice."""
        if not self._open:
            return
        self._open = False
        self.wake.close()
        if self._their_output:
            self._sent()
        self.channel.close()
        self.status.close()
        tasks = () if self._tasks is None else (self._tasks,)
        for fd in (*self._pipes, *(self._tickets or ()), *tasks):
            os.close(fd)

"""Watches one child while it runs something: frames, output, deadlines, kill.

``Runner`` makes one for each run, on the calling thread. It takes the exit status from the zygote, the pid from
the kernel, and believes the child nothing: whatever the child does, ``supervise`` returns a verdict within its
limits.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable

from functory.engine import os_errors
from functory.engine.serialization.control_characters import escape_control_characters
from functory.workers.sandbox.confinement import scratch
from functory.workers.sandbox.confinement.resource_usage import (
    ResourceUsage,
    cpu_seconds,
    unlinked_file_bytes,
)
from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.frames import (
    FrameBuffer,
    FromGuest,
    ProtocolError,
    TaskStarted,
    largest_frame,
)
from functory.workers.sandbox.protocol.host import OutputFilter, UnfilteredOutput
from functory.workers.sandbox.protocol.job import ChildLimits
from functory.workers.sandbox.protocol.log_lines import LogCollector
from functory.workers.sandbox.supervision.verdict import Verdict, death_verdict, out_of_cpu
from functory.workers.sandbox.supervision.worker_cost import TooCostly, WorkerCost

# A larger buffer would be mapped, shrunk and unmapped by each read: malloc(3) does so from 128 KiB up.
_READ_BYTES = 65_536
_FORK_SECONDS = 20.0  # a fork takes a millisecond; a zygote that needs longer than this is stopped or broken
_EOF_SECONDS = 0.25  # after the channel closed, for the exit status that shows how the child died
# Between two checks of what only the worker can limit: CPU of a warm child, files in tier C.
_USAGE_CHECK_SECONDS = 0.05


class Supervisor:
    """Supervises one run of ``child``.

    ``on_frame(frame, size, memory)`` gets a frame of ``size`` bytes that takes ``memory`` bytes now, and returns a
    verdict when it is the last one; ``on_wake`` is called after each ``wake``, ``on_task_started`` when the child has
    its task, ``on_round`` after everything that had arrived was read. Each is called on the supervising thread; the
    verdict of ``on_wake`` or ``on_round``, if there is one, ends the run. ``send``, ``pause_clock``,
    ``resume_clock`` and ``restart`` are called on that thread, too.

    ``cost`` counts what the run costs the worker. ``log_collector``, ``duration`` and ``waited`` (seconds for which the
    wall clock was stopped) hold the rest after the end; ``task_started`` is True once the child has its task,
    ``child_reported_end`` when the child reported its end itself and lives.
    """

    def __init__(
        self,
        child: Child,
        limits: ChildLimits,
        monotonic: Callable[[], float],
        on_frame: Callable[[FromGuest, int, int], Verdict | None],
        control: Control,
        on_wake: Callable[[], Verdict | None] = lambda: None,
        on_task_started: Callable[[], None] = lambda: None,
        on_round: Callable[[], Verdict | None] = lambda: None,
        make_filter: Callable[[], OutputFilter] = UnfilteredOutput,
    ) -> None:
        self.cost = WorkerCost(limits)
        self.log_collector = LogCollector(limits, make_filter, control.on_line)
        self.duration = 0.0
        self.waited = 0.0
        self.wake = child.wake
        self.child_reported_end = False
        self._child = child
        self._limits = limits
        self._monotonic = monotonic
        self._on_frame = on_frame
        self._on_wake = on_wake
        self._on_task_started = on_task_started
        self._on_round = on_round
        self.nap_seconds = 0.0
        self._control = control
        self._frames = FrameBuffer(largest_frame(limits))
        self._outbox: deque[tuple[memoryview, Callable[[], None]]] = deque()
        self._pause_count = 0
        self._paused_since = 0.0
        self._paused_seconds = 0.0
        self._started = monotonic()
        self._deadline_of_eof: float | None = None
        self._not_sent = False
        self.task_started = child.runs > 0
        self._usage_checked_at = 0.0
        self._cpu_before = cpu_seconds(child.pid) if child.bounds.reusable else 0.0
        self._watches_scratch = bool(child.folder) and child.zygote.tier == "C"
        self._checks_usage = (
            child.bounds.reusable or self._watches_scratch or child.zygote.pool_key.subprocess
        )
        self._usage: ResourceUsage | None = None

    @property
    def offset(self) -> float:
        """Seconds since the start of the run."""
        return self._monotonic() - self._started

    def restart(self) -> None:
        """Begin to measure another execution in the same child: its time, its CPU, and what it costs the worker."""
        now = self._monotonic()
        if self._deadline_of_eof is not None:
            self._deadline_of_eof -= now - self._started
        self._started = now
        self._usage_checked_at = 0.0
        self._cpu_before = cpu_seconds(self._child.pid)
        self.cost.start()

    def pause_clock(self) -> None:
        """Stop the wall clock until ``resume_clock``: the child waits for another execution."""
        if self._pause_count == 0:
            self._paused_since = self._monotonic()
        self._pause_count += 1

    def resume_clock(self) -> None:
        self._pause_count -= 1
        if self._pause_count == 0:
            self._paused_seconds += self._monotonic() - self._paused_since

    def send(self, data: bytes, on_sent: Callable[[], None] = lambda: None) -> None:
        """Queue bytes for the child; ``on_sent`` is called when the child's socket has taken all of them."""
        self._outbox.append((memoryview(data), on_sent))

    def supervise(self, first_frame: bytes) -> Verdict | None:
        """Send the child ``first_frame`` and watch it until it has reported its end, must be ended, or is gone.

        None when the child was gone before it started its task: nothing has run, so another child can be tried.
        """
        child = self._child
        self.send(first_frame)
        self.cost.start()
        self._control.attach(self.wake)
        try:
            verdict = self._watch()
        finally:
            self._control.detach()
        if verdict is not None:
            self.duration = self.offset
            self.waited = self._paused_seconds + (
                self._monotonic() - self._paused_since if self._pause_count else 0.0
            )
            self.drain_output()
        elif child.fork_errno is not None:
            reason = os_errors.explain(OSError(child.fork_errno, os.strerror(child.fork_errno)))
            message = f"no process for it: {reason.why}\ntry: {reason.try_}"
            verdict = Verdict("crashed", message, "no_process", type="NoProcess")
        return verdict

    def _watch(self) -> Verdict | None:
        child = self._child
        channel_fd, status_fd, wake_fd = child.channel.fileno(), child.status.fileno(), self.wake.fileno()
        if child.pid is not None:
            self._flush()
        while True:
            verdict = self._check_deadlines()
            if verdict is not None:
                return verdict
            ready = {fd for fd, _ in child.poll.poll(self._poll_milliseconds())}
            for fd in ready & child.output.keys():
                self._read_output(fd)
            if self.log_collector.flooded:
                limit = self._limits.log_kill_bytes
                return Verdict(
                    "output_too_large",
                    f"it printed more than {limit} bytes\ntry: print less, or write a file",
                    "log_kill_bytes",
                    type="OutputTooLarge",
                )
            if wake_fd in ready:
                self.wake.clear()
                verdict = self._on_wake()
                if verdict is not None:
                    return verdict
                if self._control.reason is not None:
                    return Verdict(
                        "killed", f"killed: {self._control.reason}", self._control.reason, type="Killed"
                    )
            if channel_fd in ready and self.nap_seconds:
                # More is to come: what comes together is cheaper to read.
                time.sleep(self.nap_seconds)
            verdict = self._read_frames() if channel_fd in ready else None
            verdict = self._on_round() or verdict
            if verdict is not None:
                return verdict
            if status_fd in ready:
                child.read_status()
                if child.ended():
                    # A child that has not started may still have sent the reason.
                    verdict = self.read_rest()
                    return (
                        verdict
                        if verdict is not None or not self.task_started
                        else death_verdict(child, self._limits)
                    )
            if child.pid is not None:
                self._flush()

    def read_rest(self) -> Verdict | None:
        """Read what has arrived, and never wait for more."""
        verdict = self._read_frames(until_eof=True)
        return self._on_round() or verdict

    def _check_deadlines(self) -> Verdict | None:
        now = self.offset
        limits = self._limits
        if self._child.pid is None and now > _FORK_SECONDS:
            self._child.lost = True
            return death_verdict(self._child, limits)
        if now >= limits.total_seconds:
            return Verdict(
                "timed_out",
                f"it ran longer than {limits.total_seconds:g} s, waiting included",
                "total",
                type="TimedOut",
            )
        if not self._pause_count and now - self._paused_seconds >= limits.wall_seconds:
            return Verdict(
                "timed_out", f"it ran longer than {limits.wall_seconds:g} s", "wall", type="TimedOut"
            )
        if self._checks_usage and now - self._usage_checked_at >= _USAGE_CHECK_SECONDS:
            self._usage_checked_at = now
            began = time.thread_time()
            verdict = self._check_usage()
            self.cost.exclude(time.thread_time() - began)
            if verdict is not None:
                return verdict
        verdict = self.cost.verdict()
        if verdict is not None:
            return verdict
        if self._deadline_of_eof is not None and now >= self._deadline_of_eof:
            return Verdict(
                "crashed",
                "it closed the connection to the worker and went on without a result\n"
                "try: leave file descriptor 3 alone",
                "no_result",
                type="NoResult",
            )
        return None

    def _check_usage(self) -> Verdict | None:
        """Check the limits that the kernel does not enforce in this tier or for this child."""
        child, limits = self._child, self._limits
        if child.bounds.reusable and child.pid is not None:
            used = cpu_seconds(child.pid) - self._cpu_before
            if used >= limits.cpu_seconds:
                return out_of_cpu(limits, None)
        if child.zygote.pool_key.subprocess and child.pid is not None:
            self._usage = self._usage or ResourceUsage(child.pid)
            self._usage.sample()
            if self._usage.cpu_seconds - self._cpu_before >= limits.cpu_seconds:
                return out_of_cpu(limits, None)
            if self._usage.memory_bytes > limits.memory_bytes:
                return Verdict(
                    "out_of_memory",
                    f"it and what it has started used more than {limits.memory_bytes} bytes of memory",
                    "memory",
                    type="OutOfMemory",
                )
        if self._watches_scratch:
            size, files = scratch.usage(child.folder, limits.scratch_bytes, limits.scratch_files)
            if child.pid is not None:
                size += unlinked_file_bytes(child.pid)
            if size > limits.scratch_bytes or files > limits.scratch_files:
                return Verdict(
                    "scratch_full",
                    f"its temporary files hold more than {limits.scratch_bytes} bytes or {limits.scratch_files} files\n"
                    "try: delete what is not needed, or raise scratch_bytes or scratch_files",
                    "scratch",
                    type="ScratchFull",
                )
        return None

    def _poll_milliseconds(self) -> int:
        """Return the milliseconds until the next deadline."""
        now = self.offset
        ends = [self._limits.total_seconds]
        if self._checks_usage:
            ends.append(self._usage_checked_at + _USAGE_CHECK_SECONDS)
        if self._child.pid is None:
            ends.append(_FORK_SECONDS)
        if not self._pause_count:
            ends.append(self._limits.wall_seconds + self._paused_seconds)
        if self._deadline_of_eof is not None:
            ends.append(self._deadline_of_eof)
        return max(1, math.ceil((min(ends) - now) * 1000))

    def _flush(self) -> None:
        channel = self._child.channel
        while self._outbox:
            data, on_sent = self._outbox.popleft()
            try:
                sent = channel.send(data[:_READ_BYTES], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._outbox.clear()
                break
            if sent < len(data):
                self._outbox.appendleft((data[sent:], on_sent))
                if not sent:
                    break
            else:
                on_sent()
        unsent = bool(self._outbox)
        if unsent != self._not_sent and self._deadline_of_eof is None:
            self._not_sent = unsent
            self._child.poll.modify(channel.fileno(), select.POLLIN | (select.POLLOUT if unsent else 0))

    def _read_frames(self, until_eof: bool = False) -> Verdict | None:
        """Handle the frames that have arrived; one read at a time unless the child is gone."""
        while self._deadline_of_eof is None:
            try:
                # No ancillary buffer: descriptors that the child sends along are dropped by the kernel.
                data = self._child.channel.recv(_READ_BYTES)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            if not data:
                self._child.poll.unregister(self._child.channel.fileno())
                self._deadline_of_eof = self.offset + _EOF_SECONDS
                return None
            try:
                self._frames.feed(data)
                while (payload := self._frames.pop()) is not None:
                    frame, memory = self.cost.decode(payload)
                    if type(frame) is TaskStarted and not self.task_started:
                        self.task_started = True
                        self._on_task_started()
                        continue
                    verdict = self._on_frame(frame, len(payload), memory)
                    if verdict is not None:
                        self.child_reported_end = not self._frames.pending()
                        return verdict
            except TooCostly as error:
                return error.verdict
            except ProtocolError as error:
                return Verdict(
                    "protocol_error",
                    f"it sent the worker something that is not a message: "
                    f"{escape_control_characters(str(error))[:500]}\n"
                    "try: leave file descriptor 3 alone",
                    "protocol_error",
                    type="ProtocolError",
                )
            if not until_eof:
                return None
        return None

    def _read_output(self, fd: int) -> None:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self.log_collector.feed(self._child.output[fd], data, self.offset)
        else:
            self._child.poll.unregister(fd)
            del self._child.output[fd]

    def drain_output(self) -> None:
        """Read the output that the child has printed until now; never wait for more."""
        # Most have printed nothing: one poll costs less than a refused read of each pipe.
        ready = {fd for fd, _ in self._child.poll.poll(0)}
        for fd, name in self._child.output.items():
            if fd not in ready:
                continue
            with contextlib.suppress(BlockingIOError):
                while not self.log_collector.flooded and (data := os.read(fd, _READ_BYTES)):
                    self.log_collector.feed(name, data, self.duration or self.offset)

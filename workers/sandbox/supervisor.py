"""Watches one child from its fork to its last trace: frames, output, deadlines, kill.

``Runner`` makes one for each run, on the calling thread. It believes the zygote about pid and exit
status, and the child about nothing: whatever the child does, ``supervise`` returns within its limits
with a verdict.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from workers.sandbox import scratch
from workers.sandbox.control import Control, Wake
from workers.sandbox.job import Limits, Status
from workers.sandbox.launcher import Launcher
from workers.sandbox.logbook import Logbook, harmless
from workers.sandbox.protocol import FrameBuffer, FromGuest, ProtocolError, decode_guest
from workers.sandbox.zygote import ENDED, REFUSED, STARTED, STATUS

_READ_BYTES = 262_144
_FORK_SECONDS = 20.0  # a fork takes a millisecond; a zygote that needs longer than this is stopped or broken
_DEATH_SECONDS = 5.0  # between SIGKILL and the zygote's word; only a broken zygote or kernel needs longer
_EOF_SECONDS = 0.25  # after the channel closed, for the exit status that tells how the child died


class Verdict(NamedTuple):
    """How the run ended, in the words of ``Outcome``."""

    status: Status
    message: str = ""
    kill_reason: str | None = None
    signal: int | None = None
    type: str = ""


class Supervisor:
    """One child. Give it ``on_frame(frame, size)``, which returns a verdict when the frame is the last one.

    ``pid``, ``logbook``, ``duration`` and ``waited`` (seconds for which the wall clock stood still) tell the
    rest after the end. ``send`` may be called from any thread, ``hold_clock`` and ``resume_clock`` only from
    ``on_frame`` and ``on_wake``; the latter is called on the supervising thread after each ``wake``.
    """

    def __init__(
        self,
        launcher: Launcher,
        limits: Limits,
        monotonic: Callable[[], float],
        on_frame: Callable[[FromGuest, int], Verdict | None],
        control: Control,
        on_wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.logbook = Logbook(limits)
        self.pid: int | None = None
        self.duration = 0.0
        self.waited = 0.0
        self.wake = Wake()
        self._launcher = launcher
        self._limits = limits
        self._monotonic = monotonic
        self._on_frame = on_frame
        self._on_wake = on_wake
        self._control = control
        self._frames = FrameBuffer(limits.frame_bytes)
        self._outbox = bytearray()
        self._outbox_lock = threading.Lock()
        self._holds = 0
        self._held_since = 0.0
        self._held = 0.0
        self._started = monotonic()
        self._deadline_of_eof: float | None = None
        self._exit: int | None = None
        self._zygote_gone = False
        self._not_sent = False
        self._refused: int | None = None

    @property
    def offset(self) -> float:
        """Seconds since the start."""
        return self._monotonic() - self._started

    def hold_clock(self) -> None:
        """The child waits for another execution: its wall clock stands until ``resume_clock``."""
        if self._holds == 0:
            self._held_since = self._monotonic()
        self._holds += 1

    def resume_clock(self) -> None:
        self._holds -= 1
        if self._holds == 0:
            self._held += self._monotonic() - self._held_since

    def send(self, data: bytes) -> None:
        """Queue bytes for the child."""
        with self._outbox_lock:
            self._outbox += data
        self.wake.set()

    def supervise(self, inspecting: bool, first: bytes) -> Verdict | None:
        """Fork the child, send it ``first``, and stay until all of it is gone.

        None when the zygote was lost before it had forked: nothing has run, try with another. That is why
        ``first`` is held back until the zygote has named the child.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self._let_go)
            theirs: list[int] = []
            try:
                self._channel, channel = socket.socketpair()
                stack.callback(self._channel.close)
                theirs.append(channel.detach())
                self._output: dict[int, str] = {}
                for name in ("stdout", "stderr"):
                    reading, writing = os.pipe2(os.O_CLOEXEC)
                    stack.callback(os.close, reading)
                    theirs.append(writing)
                    os.set_blocking(reading, False)
                    self._output[reading] = name
                self._status, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                stack.callback(self._status.close)
                theirs.append(status.detach())
                folder = self._launcher.new_scratch()
                stack.callback(scratch.remove, folder)
                self._channel.setblocking(False)
                self._outbox += first
                self._control.attach(self.wake)
                if not self._launcher.fork(folder, theirs, inspecting):
                    return None
            finally:
                for fd in theirs:
                    os.close(fd)
            verdict = self._watch()
            if self._zygote_gone and self.pid is None and self._refused is None:
                self._launcher.discard()
                return None
            self.duration = self.offset
            self.waited = self._held + (self._monotonic() - self._held_since if self._holds else 0.0)
            verdict = self._bury(verdict)
            self._drain_output()
            return verdict

    def _let_go(self) -> None:
        self._control.detach()
        self.wake.close()

    def _watch(self) -> Verdict:
        self._poll = select.poll()
        for fd in (self._channel.fileno(), self._status.fileno(), self.wake.fileno(), *self._output):
            self._poll.register(fd, select.POLLIN)
        channel_fd = self._channel.fileno()
        while True:
            verdict = self._overdue()
            if verdict is not None:
                return verdict
            ready = {fd for fd, _ in self._poll.poll(self._patience())}
            for fd in ready & self._output.keys():
                self._read_output(fd)
            if self.logbook.flooded:
                limit = self._limits.log_kill_bytes
                return Verdict(
                    "output_too_large",
                    f"it printed more than {limit} bytes\ntry: print less, or write a file",
                    "log_kill_bytes",
                    type="OutputTooLarge",
                )
            if self.wake.fileno() in ready:
                self.wake.clear()
                self._on_wake()
                if self._control.reason is not None:
                    return Verdict(
                        "killed", f"killed: {self._control.reason}", self._control.reason, type="Killed"
                    )
            if channel_fd in ready:
                verdict = self._read_frames()
                if verdict is not None:
                    return verdict
            if self._status.fileno() in ready:
                self._read_status()
                if self._exit is not None or self._zygote_gone:
                    return self._read_frames(to_the_end=True) or self._died()
            if self.pid is not None:
                self._flush()

    def _overdue(self) -> Verdict | None:
        now = self.offset
        limits = self._limits
        if self.pid is None and now > _FORK_SECONDS:
            self._zygote_gone = True
            return self._died()
        if now >= limits.total_seconds:
            return Verdict(
                "timed_out",
                f"it ran longer than {limits.total_seconds:g} s, waiting included",
                "total",
                type="TimedOut",
            )
        if not self._holds and now - self._held >= limits.wall_seconds:
            return Verdict(
                "timed_out", f"it ran longer than {limits.wall_seconds:g} s", "wall", type="TimedOut"
            )
        if self._deadline_of_eof is not None and now >= self._deadline_of_eof:
            return Verdict(
                "crashed",
                "it closed the connection to the worker and went on without a result\n"
                "try: leave file descriptor 3 alone",
                "no_result",
                type="NoResult",
            )
        return None

    def _patience(self) -> int:
        """Milliseconds until something is overdue."""
        now = self.offset
        ends = [self._limits.total_seconds]
        if self.pid is None:
            ends.append(_FORK_SECONDS)
        if not self._holds:
            ends.append(self._limits.wall_seconds + self._held)
        if self._deadline_of_eof is not None:
            ends.append(self._deadline_of_eof)
        return max(1, math.ceil((min(ends) - now) * 1000))

    def _flush(self) -> None:
        channel = self._channel
        with self._outbox_lock:
            while self._outbox:
                try:
                    sent = channel.send(self._outbox[:_READ_BYTES], socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    break
                except OSError:
                    self._outbox.clear()
                    break
                del self._outbox[:sent]
            unsent = bool(self._outbox)
        if unsent != self._not_sent and self._deadline_of_eof is None:
            self._not_sent = unsent
            self._poll.modify(channel.fileno(), select.POLLIN | (select.POLLOUT if unsent else 0))

    def _read_frames(self, to_the_end: bool = False) -> Verdict | None:
        """Handle the frames that are there; one read at a time unless the child is gone."""
        while self._deadline_of_eof is None:
            try:
                # No ancillary buffer: descriptors that the child sends along are dropped by the kernel.
                data = self._channel.recv(_READ_BYTES)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            if not data:
                self._poll.unregister(self._channel.fileno())
                self._deadline_of_eof = self.offset + _EOF_SECONDS
                return None
            try:
                self._frames.feed(data)
                while (payload := self._frames.pop()) is not None:
                    verdict = self._on_frame(decode_guest(payload), len(payload))
                    if verdict is not None:
                        return verdict
            except ProtocolError as error:
                return Verdict(
                    "protocol_error",
                    f"it sent the worker something that is not a message: {harmless(str(error))[:500]}\n"
                    "try: leave file descriptor 3 alone",
                    "protocol_error",
                    type="ProtocolError",
                )
            if not to_the_end:
                return None
        return None

    def _read_output(self, fd: int) -> None:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self.logbook.feed(self._output[fd], data, self.offset)
        else:
            self._poll.unregister(fd)
            del self._output[fd]

    def _drain_output(self) -> None:
        """Read what the dead child had printed; never wait for a writer that is not dead."""
        for fd, name in self._output.items():
            with contextlib.suppress(BlockingIOError):
                while not self.logbook.flooded and (data := os.read(fd, _READ_BYTES)):
                    self.logbook.feed(name, data, self.duration)

    def _read_status(self) -> None:
        try:
            data = self._status.recv(STATUS.size)
        except OSError:
            data = b""
        if not data:
            self._zygote_gone = True
            return
        word, number = STATUS.unpack(data)
        if word == STARTED:
            self.pid = number
        elif word == ENDED:
            self._exit = number
        elif word == REFUSED:
            self._refused = number
            self._zygote_gone = True

    def _bury(self, verdict: Verdict) -> Verdict:
        """Make sure that the child and its process group are gone, and the zygote has said so."""
        if self._exit is None and not self._zygote_gone:
            with contextlib.suppress(OSError):
                self._status.shutdown(socket.SHUT_WR)
            self._status.settimeout(_DEATH_SECONDS)
            while self._exit is None and not self._zygote_gone:
                self._read_status()
        if self._exit is None and self._refused is None:
            # The zygote died or stopped. The kernel kills its children with it; their process groups,
            # which a number in use keeps from being given away, we end ourselves.
            self._launcher.broken = True
            self._launcher.discard()
            if self.pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
        return verdict

    def _died(self) -> Verdict:
        """The child ended without a last frame: say what is known."""
        if self._exit is None:
            if self._refused is not None:
                return Verdict(
                    "crashed",
                    f"no process for it: {os.strerror(self._refused)}",
                    "no_process",
                    type="NoProcess",
                )
            return Verdict(
                "crashed",
                "the process that starts executions ended or stopped; this one was lost with it",
                "zygote_lost",
                self._launcher.signal(),
                type="ZygoteLost",
            )
        if os.WIFSIGNALED(self._exit):
            number = os.WTERMSIG(self._exit)
            if number == signal.SIGXCPU:
                limit = math.ceil(self._limits.cpu_seconds)
                return Verdict("timed_out", f"it used more than {limit} s of CPU", "cpu", number, "TimedOut")
            hint = ", most often because memory ran out" if number == signal.SIGKILL else ""
            return Verdict(
                "crashed", f"it was ended by signal {number} ({_name(number)}){hint}", None, number, "Crashed"
            )
        code = os.waitstatus_to_exitcode(self._exit)
        return Verdict(
            "crashed",
            f"it exited with code {code} and no result\ntry: return instead of exiting",
            type="NoResult",
        )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def outcome_error(verdict: Verdict) -> dict[str, Any]:
    """The error of an outcome whose child could not tell one itself."""
    return {"type": verdict.type, "message": verdict.message, "traceback": "", "frames": []}

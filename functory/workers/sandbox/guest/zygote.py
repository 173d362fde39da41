"""Runs the fork server: a small process that has everything loaded and forks one child for each execution.

``functory.workers.sandbox.pool.zygote_process`` executes it (never forks it: it shares no memory with the
worker) with a control socket, over which it gets its ``Plan`` and then one ``ForkRequest`` for each child. It
loads what a child needs, confines itself, takes Functory's own folders off the path, imports the packages of
the plan, reports that it is ready, and serves.

A status socket comes with each child's descriptors. The child itself reports its start on it, so that the
kernel gives the worker its pid in the worker's own numbers; the zygote reports ``ended`` with wait status,
CPU seconds and peak memory in bytes, or ``refused`` with an errno. The worker requests the child's end by
shutting its side down (a byte that was sent, and not read in time, would make the kernel reset the socket and
lose the last report). When the control socket closes, the worker is gone: the zygote ends all children and
exits.

It runs one thread, so that forking is safe, and never runs the code of functions; the packages that it
imports (``preload``) are foreign code, so it is confined before.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time

import msgspec

from functory.workers.sandbox.confinement import confine, resource_limits, scratch
from functory.workers.sandbox.guest import descriptors, preload
from functory.workers.sandbox.guest import main as guest_main
from functory.workers.sandbox.protocol.plan import (
    ENDED,
    FAILED,
    PLAN_BYTES,
    READY,
    REFUSED,
    STARTED,
    STATUS,
    ForkRequest,
    Plan,
)

_LOWEST_OWN_FD = 16  # descriptors that arrive must not collide with those the child is given
_SWEEP_ROUNDS = 50  # a killed process is gone within two rounds; the next sweep ends one that is stuck
_SWEEP_PAUSE_SECONDS = 0.001
_MESSAGE_BYTES = 16_000
# Made here: it looks the types up in modules that are hidden when the zygote serves.
_fork_decoder = msgspec.msgpack.Decoder(ForkRequest)


class _Child:
    """A living child: its pid, a pidfd that reports its end, and the socket to its supervisor."""

    def __init__(self, pid: int, status: socket.socket, confined: confine.Confinement) -> None:
        self.pid = pid
        self._confined = confined
        self.status = status
        self.handle = os.pidfd_open(pid)

    def kill(self) -> None:
        """End the process and its group. Safe: the pid is ours until ``_reap`` has waited for it."""
        with contextlib.suppress(ProcessLookupError):
            self._confined.kill(self.pid, self.handle)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def report_end(self, status: int, cpu: float, memory: int) -> None:
        with contextlib.suppress(OSError):
            word = STATUS.pack(ENDED, status, cpu, memory)
            self.status.send(word, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def close(self) -> None:
        self.status.close()
        os.close(self.handle)


class Zygote:
    """Serves one control socket until it closes."""

    def __init__(
        self,
        control: socket.socket,
        plan: Plan,
        confined: confine.Confinement,
        prepared: guest_main.Guest,
    ) -> None:
        self._control = control
        self._guest = prepared
        self._plan = plan
        self._confined = confined
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
            if self._control.fileno() in ready and not self._handle_fork_request():
                return

    def close(self) -> None:
        """End every child and its orphans."""
        for child in list(self._children.values()):
            child.kill()
            os.waitpid(child.pid, 0)
            del self._children[child.pid]
        self._sweep()

    def _handle_fork_request(self) -> bool:
        payload, fds, _, _ = socket.recv_fds(self._control, 8192, 16, socket.MSG_CMSG_CLOEXEC)
        if not payload:
            return False
        fork = _fork_decoder.decode(payload)
        status_fd = fds.pop(3)
        try:
            self._confined.prepare(fork.bounds)
            pid = self._confined.fork()
        except OSError as error:
            os.write(status_fd, STATUS.pack(REFUSED, error.errno or 0, 0.0, 0))
            os.close(status_fd)
        else:
            if pid == 0:
                self._run_child(fork, status_fd, fds)
            status = socket.socket(fileno=status_fd)
            child = _Child(pid, status, self._confined)
            self._children[pid] = child
            for fd in (child.handle, status.fileno()):
                self._by_fd[fd] = child
                self._poll.register(fd, select.POLLIN)
        for fd in fds:
            os.close(fd)
        return True

    def _run_child(self, fork: ForkRequest, status_fd: int, fds: list[int]) -> None:
        """Report the start and run, in the child."""
        try:
            if self._plan.tier == "none":
                descriptors.adopt_orphans()
            # A socket object would cost each child its memory. SIGPIPE is ignored: a worker that is gone is no signal.
            os.write(status_fd, STATUS.pack(STARTED, os.getpid(), 0.0, 0))
            channel, stdout, stderr, *rest = fds
            extra = rest.pop(0) if self._plan.network or fork.tickets else None
            self._guest.run_child(self._confined, fork, channel, stdout, stderr, extra, rest)
        finally:
            os._exit(1)

    def _reap(self, child: _Child) -> None:
        """Remove a dead child: end its group while its pid still names it, then the orphans that it left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        _, status, used = os.wait4(child.pid, 0)
        del self._children[child.pid]
        self._sweep()
        child.report_end(status, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
        for fd in (child.handle, child.status.fileno()):
            self._forget(fd)
        child.close()

    def _sweep(self) -> None:
        """End the orphans of dead children. Where a child is the first of its own pid namespace, the kernel
        has done so; in tier C there are none, as a child cannot fork."""
        if self._plan.tier != "none":
            return
        for round_ in range(_SWEEP_ROUNDS):
            orphans = [pid for pid in preload.own_children() if pid not in self._children]
            if not orphans:
                return
            if round_:
                time.sleep(_SWEEP_PAUSE_SECONDS)
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _forget(self, fd: int) -> None:
        if self._by_fd.pop(fd, None) is not None:
            self._poll.unregister(fd)


def _plan(control: socket.socket) -> Plan | None:
    """Receive the first message of the worker; None when it ended before it sent one."""
    try:
        payload = control.recv(PLAN_BYTES)
    except ConnectionResetError:
        payload = b""
    return msgspec.msgpack.decode(payload, type=Plan) if payload else None


def _move_above_child_fds(fd: int) -> int:
    """Duplicate the descriptor to a number that no child is given."""
    while fd < _LOWEST_OWN_FD:
        fd = os.dup(fd)
    return fd


def main(control_fd: int, base: str, paths: list[str]) -> None:
    """Run until the worker ends; then the waiting outer process removes ``base``.

    ``paths`` is where Functory was imported from: user code cannot import from there.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _move_above_child_fds(os.open(os.devnull, os.O_RDWR))
    control = socket.socket(fileno=_move_above_child_fds(control_fd))
    os.set_inheritable(control.fileno(), False)
    zygote = None
    try:
        plan = _plan(control)
        if plan is None:
            scratch.remove(base)
            return
        try:
            guest_main.load(plan)
            confined = confine.confine_zygote(plan, control.fileno())
            if plan.tier == "none":
                descriptors.adopt_orphans()
            sys.path[:] = [path for path in sys.path if path not in paths] + list(plan.packages)
            sys.argv = ["functory"]
            importlib.invalidate_caches()
            sys.path_importer_cache.clear()
            guest_main.hide_modules(plan.packages)
            if plan.preload:
                # Foreign code: it gets what the function that names it may have, and nothing of it goes on.
                resource_limits.limit_memory(plan.memory_bytes)
                preload.import_packages(plan.preload, confined)
                if plan.tier == "C":
                    preload.refuse_processes()
                else:
                    preload.end_processes(confined)
            prepared = guest_main.Guest()
            prepared.warm_up()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            control.send(FAILED + text.encode("utf-8", "replace")[:_MESSAGE_BYTES])
            return
        gc.collect()
        gc.disable()
        gc.freeze()
        zygote = Zygote(control, plan, confined, prepared)
        control.send(READY)
        zygote.serve()
    except (BrokenPipeError, ConnectionResetError):
        # The worker ended while this process was starting.
        return
    finally:
        if zygote is not None:
            zygote.close()

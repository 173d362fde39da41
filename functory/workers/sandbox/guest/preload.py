"""Imports packages in a zygote, once for all its children, and leaves nothing running.

Packages are foreign code in the one process that must be able to fork. So they are imported by a thread of their
own, which may start neither processes nor threads (``Confinement.confine_import``) and ends before the zygote
serves. What they try nevertheless fails in the import; the child imports such a package again, under its own limits,
and reports its error.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import time
from pathlib import Path

from functory.workers.sandbox.confinement.confine import Confinement

# As much as the main thread of most machines: an import of imports needs some.
_STACK_BYTES = 8 * 1024 * 1024
_SWEEP_ROUNDS = 50  # a killed process is gone within two rounds; the next sweep ends one that is stuck
_PAUSE_SECONDS = 0.001


def import_packages(names: tuple[str, ...], confined: Confinement) -> None:
    """Import modules in a confined thread. Raises the OSError of a thread that could not be confined."""
    errors: list[Exception] = []

    def work() -> None:
        try:
            confined.confine_import()
        except Exception as error:
            errors.append(error)
            return
        for name in names:
            with contextlib.suppress(Exception, SystemExit):
                importlib.import_module(name)

    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=work)
    thread.start()
    threading.stack_size(0)
    thread.join()
    _wait_for_exit(thread.native_id)
    if errors:
        raise errors[0]


def _wait_for_exit(thread_id: int | None) -> None:
    """Wait until the kernel has removed a thread that has been joined: a fork must find one thread only."""
    with contextlib.suppress(ProcessLookupError):
        while thread_id is not None:
            os.sched_getaffinity(thread_id)
            time.sleep(_PAUSE_SECONDS)


def own_children() -> list[int]:
    """Return the pids of this process's children (proc(5), ``/proc/pid/task/tid/children``); none where it is
    absent."""
    own = os.getpid()
    try:
        return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]
    except FileNotFoundError:
        return []


def end_processes(confined: Confinement) -> None:
    """End the processes that an import has started, and theirs: orphans of a dead one are found in the next round.

    There are some in tier ``none``; elsewhere only code that escaped its thread can have started them.
    """
    for _ in range(_SWEEP_ROUNDS):
        pids = own_children()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(pid)
                try:
                    confined.kill(pid, handle)
                finally:
                    os.close(handle)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    raise RuntimeError("its packages keep starting processes while they are imported")


def refuse_processes() -> None:
    """Refuse to serve after an import that has started processes: where they cannot be seen, they cannot be ended.

    The init process ends them, and their own, with this one.
    """
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    raise RuntimeError("its packages start processes while they are imported, which tier C cannot end")

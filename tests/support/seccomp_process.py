"""Runs a part of a test in a forked process, under a system-call filter, and returns its result."""

import ctypes
import errno
import faulthandler
import os
import pickle
import traceback
from collections.abc import Callable
from typing import Any

from functory.workers.sandbox.confinement.seccomp.filter import Profile, architecture, load, program
from functory.workers.sandbox.confinement.seccomp.syscall_numbers import NUMBERS

libc = ctypes.CDLL(None, use_errno=True)


class Ended(Exception):
    """The process ended without an answer; its wait status is the argument."""


def forked(action: Callable[[], Any]) -> Any:
    """Run ``action`` in a process of its own. Returns its result."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            faulthandler.disable()  # the fault handler's report of an expected end would look like one of the tests
            os.close(reader)
            try:
                answer = pickle.dumps((True, action()))
            except BaseException:
                answer = pickle.dumps((False, traceback.format_exc()))
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    status = os.waitpid(pid, 0)[1]
    if not answer:
        raise Ended(status)
    fine, value = pickle.loads(answer)
    assert fine, value
    return value


def under(profile: Profile, action: Callable[[], Any], *, knows_pid: bool = False) -> Any:
    """Run ``action`` in a process of its own, under the filter of ``profile``. Returns its result."""

    def confined() -> Any:
        load(program(architecture(), profile, os.getpid() if knows_pid else None))
        return action()

    return forked(confined)


def raw(number: int, *arguments: int) -> int | str:
    """Make the system call directly. Returns its result, or the name of its error."""
    words = [ctypes.c_ulong(argument & (2**64 - 1)) for argument in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    got = libc.syscall(ctypes.c_ulong(number), *words)
    return errno.errorcode[ctypes.get_errno()] if got == -1 else got


def call(name: str, *arguments: int) -> int | str:
    return raw(NUMBERS[architecture()][name], *arguments)


def error_of(action: Callable[[], Any]) -> str:
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "none"

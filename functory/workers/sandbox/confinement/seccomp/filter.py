"""Makes and loads the filter of system calls of a zygote and of each child.

``program`` makes the filter for a machine and a profile, ``load`` puts the calling process under it, for
good. It is an allow-list, whose content is ``policy``:

    known and allowed                          goes on
    known and refused                          EPERM, or the errno of ``policy.ERRNO_OVERRIDES``
    not known, so newer than this file         ENOSYS, as on a kernel that does not have it
    of another machine's ABI (i386, x32, arm)  the process is killed

Sources: seccomp(2), Documentation/userspace-api/seccomp_filter.rst, linux/audit.h.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
from typing import Any

from functory.workers.sandbox.confinement.seccomp.bpf import (
    ARCHITECTURE,
    AT_LEAST,
    EQUAL,
    NUMBER,
    Builder,
    Label,
    Return,
    Target,
    high_word,
    low_word,
)
from functory.workers.sandbox.confinement.seccomp.policy import (
    ERRNO_OVERRIDES,
    OWN_PID,
    Profile,
    Rule,
    Test,
    allowed,
)
from functory.workers.sandbox.confinement.seccomp.syscall_numbers import NUMBERS

__all__ = ["PreparedFilter", "Profile", "architecture", "load", "program"]

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # EM_* | __AUDIT_ARCH_64BIT | __AUDIT_ARCH_LE
_X32 = 0x40000000  # __X32_SYSCALL_BIT of asm/unistd.h; no call of x86_64 is as high

_ALLOW = Return(0x7FFF0000)  # SECCOMP_RET_*, linux/seccomp.h
_KILL = Return(0x80000000)
_ERRNO = 0x00050000
_EPERM, _ENOSYS = Return(_ERRNO | errno.EPERM), Return(_ERRNO | errno.ENOSYS)

_SET_MODE_FILTER, _TSYNC = 1, 1
_PR_SET_NO_NEW_PRIVS, _PR_GET_SECCOMP, _MODE_FILTER = 38, 21, 2


def architecture() -> str:
    """Return the machine that this process runs on. Raises ``OSError`` where no filter is known for it."""
    machine = os.uname().machine
    if machine not in NUMBERS or struct.calcsize("P") != 8:
        raise OSError(
            errno.ENOSYS, f"no filter of system calls is known for {machine}, {8 * struct.calcsize('P')} bit"
        )
    return machine


def program(arch: str, profile: Profile, pid: int | None = None, above: Profile | None = None) -> bytes:
    """The filter as an array of struct sock_filter; equal arguments give equal bytes.

    ``above`` is the profile of the filter that the process is under already. The program then leaves to that filter
    whatever it decides in the same way: the two together give the verdicts of the whole program below ``above``.
    The kernel takes it in a fraction of the time. A process that is not under such a filter must not use it.

    The first call for a profile takes about a millisecond and further ones, with any pid, next to nothing:
    a zygote makes its children's program once before it forks them.
    ``pid`` is the process's own as it sees it itself. It matters where ``profile.signals`` is False: with
    it a process may still signal itself, so that ``abort`` and ``os.kill(os.getpid(), …)`` work.
    Raises ``OSError`` for a machine that is not known.
    """
    if arch not in NUMBERS:
        raise OSError(errno.ENOSYS, f"no filter of system calls is known for {arch}")
    if pid is not None and not 0 < pid < OWN_PID:
        raise ValueError(f"{pid} is no pid of a process")
    code, places = _built(arch, profile, pid is not None and not profile.signals, above)
    if not places:
        return code
    patched = bytearray(code)
    for place in places:
        struct.pack_into("=I", patched, place, pid)
    return bytes(patched)


def load(code: bytes, *, all_threads: bool = True) -> None:
    """Put this process and all its threads under the filter ``code``, for good; sets no_new_privs too.

    Without ``all_threads`` it is for the calling thread and those that it starts.

    Raises ``OSError``: then nothing may run that the filter was meant for.
    """
    PreparedFilter(code, all_threads=all_threads).load()


class PreparedFilter:
    """A filter that is ready to be loaded: see ``load``. A child that finds it made has fewer pages to copy."""

    def __init__(self, code: bytes, *, all_threads: bool = True) -> None:
        numbers = NUMBERS[architecture()]
        self._code = code  # the head points to it
        head = bytes(_Program(len(code) // 8, code))
        flags = _TSYNC if all_threads else 0
        self._no_new_privileges = _arguments(numbers["prctl"], _PR_SET_NO_NEW_PRIVS, 1)
        self._load = _arguments(numbers["seccomp"], _SET_MODE_FILTER, flags, head)
        self._read_mode = _arguments(numbers["prctl"], _PR_GET_SECCOMP, 0)

    def load(self) -> None:
        _call(self._no_new_privileges, "no_new_privs")
        _call(self._load, "load the filter of system calls")
        if _call(self._read_mode, "read the mode of seccomp") != _MODE_FILTER:
            raise OSError(errno.EPERM, "the filter of system calls was taken and is not there")


class _Program(ctypes.Structure):
    """struct sock_fprog of linux/filter.h. Made once: a fresh child pays ten times for a new ctypes class."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _arguments(number: int, first: int, second: int, third: bytes | None = None) -> tuple[Any, ...]:
    word = ctypes.c_ulong
    return word(number), word(first), word(second), ctypes.c_char_p(third), word(0), word(0)


def _call(arguments: tuple[Any, ...], what: str) -> int:
    got = _libc.syscall(*arguments)
    if got < 0:
        raise OSError(ctypes.get_errno(), f"cannot {what}: {os.strerror(ctypes.get_errno())}")
    return got


@functools.cache
def _built(
    arch: str, profile: Profile, knows_pid: bool, above: Profile | None
) -> tuple[bytes, tuple[int, ...]]:
    """Return the program with ``OWN_PID`` for the pid, and the offsets of that value."""
    code = Builder()
    rules = {
        name: rule for name, rule in allowed(profile, knows_pid=knows_pid).items() if name in NUMBERS[arch]
    }
    decided = _decided_above(arch, rules, above)
    needed = (rule for name, rule in rules.items() if name not in decided)
    blocks = {rule: _block(code, rule) for rule in dict.fromkeys(needed) if rule is not None}

    def verdict(name: str) -> Target:
        if name in decided:
            return _ALLOW
        if name not in rules:
            return Return(_ERRNO | ERRNO_OVERRIDES.get(name, errno.EPERM))
        rule = rules[name]
        return _ALLOW if rule is None else blocks[rule]

    targets = {number: verdict(name) for name, number in NUMBERS[arch].items()}
    edges: list[tuple[int, Target]] = []
    unknown = _ENOSYS if above is None else _ALLOW
    for number in range(max(targets) + 2):
        target = targets.get(number, unknown)
        if not edges or edges[-1][1] != target:
            edges.append((number, target))
    start = _search(code, edges)
    if above is not None:
        # Calls of another machine and unknown ones: the filter above has killed or refused them.
        code.load(NUMBER)
        return code.program(), code.operand_offsets(OWN_PID)
    if arch == "x86_64":
        start = code.jump(AT_LEAST, _X32, _KILL, start)
    start = code.load(NUMBER)
    code.jump(EQUAL, _AUDIT[arch], start, _KILL)
    code.load(ARCHITECTURE)
    return code.program(), code.operand_offsets(OWN_PID)


def _decided_above(arch: str, rules: dict[str, Rule | None], above: Profile | None) -> frozenset[str]:
    """Return the calls that the filter of ``above`` decides as ``rules`` do, whatever their arguments."""
    if above is None:
        return frozenset()
    theirs = allowed(above, knows_pid=not above.signals)
    return frozenset(
        name
        for name in NUMBERS[arch]
        if (name in rules) == (name in theirs)
        and rules.get(name) == theirs.get(name)
        and not _names_pid(rules.get(name))
    )


def _names_pid(rule: Rule | None) -> bool:
    """Return True if the rule stands for another one in each process."""
    return any(OWN_PID in test.values for alternative in rule or () for test in alternative)


def _search(code: Builder, edges: list[tuple[int, Target]]) -> Target:
    """Binary search: the number belongs to the last edge that is not above it."""
    if len(edges) == 1:
        return edges[0][1]
    middle = len(edges) // 2
    above = _search(code, edges[middle:])
    below = _search(code, edges[:middle])
    return code.jump(AT_LEAST, edges[middle][0], above, below)


def _block(code: Builder, rule: Rule) -> Target:
    """Allow calls that pass ``rule``, refuse the rest."""
    start: Target = _EPERM
    for tests in reversed(rule):
        passed: Target = _ALLOW
        failed = start
        for test in reversed(tests):
            passed = _test(code, test, passed, failed)
        start = passed
    return start


def _test(code: Builder, test: Test, passed: Target, failed: Target) -> Label:
    missed = failed
    for value in reversed(test.values):
        missed = code.jump(EQUAL, value, passed, missed)
    if test.mask != 0xFFFFFFFF:
        code.mask(test.mask)
    start = code.load(low_word(test.argument))
    if test.wide:
        code.jump(EQUAL, 0, start, failed)
        start = code.load(high_word(test.argument))
    return start

"""Takes away a process's rights to files, TCP and other processes by Landlock (landlock(7)).

``Ruleset`` handles every right that the running kernel knows, so everything that no rule allows is refused.
Rights are given per folder and hold for all below it; no rule takes rights away. Rulesets stack: each one
that a process enters can only narrow.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from pathlib import Path

from functory.workers.sandbox.confinement import syscalls

# linux/landlock.h
EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13  # from ABI 2 on
TRUNCATE = 1 << 14  # 3
IOCTL_DEV = 1 << 15  # 5
_TCP = 0b11  # bind and connect, 4
_SCOPES = 0b11  # abstract unix sockets and signals, 6
_CREATE_VERSION = 1
_RULE_PATH_BENEATH = 1
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_SCOPE_ABI = 6

READ = READ_FILE | READ_DIR
WRITE = (
    WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_FIFO | MAKE_SYM | REFER | TRUNCATE
)  # fmt: skip
"""Rights to change files and folders; neither device nodes nor sockets, which have no use here."""
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV


@cache
def abi() -> int:
    """Return the kernel's Landlock version, 0 where there is none."""
    try:
        return syscalls.syscall("ask for Landlock", _CREATE_RULESET, None, 0, _CREATE_VERSION)
    except OSError:
        return 0


def scopes_signals() -> bool:
    """Return True if Landlock keeps a process from signalling those outside of its domain."""
    return abi() >= _SCOPE_ABI


@cache
def _handled() -> int:
    """Return all rights to files that this kernel can refuse."""
    version = abi()
    rights = (MAKE_SYM << 1) - 1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        if version >= since:
            rights |= right
    return rights


def applicable_rights(path: str, rights: int) -> int:
    """Return the ``rights`` that the kernel knows and accepts for ``path``: a file has no folder rights."""
    rights &= _handled()
    return rights if Path(path).is_dir() else rights & _OF_FILES


class Ruleset:
    """Collects what will be allowed: ``allow`` it, then ``restrict_self``. Needs ABI 1; raises OSError below."""

    def __init__(self) -> None:
        version = abi()
        # struct landlock_ruleset_attr grew: an older kernel takes its own, shorter size.
        fields = (
            [_handled()] + ([_TCP] if version >= 4 else []) + ([_SCOPES] if version >= _SCOPE_ABI else [])
        )
        record = struct.pack(f"={len(fields)}Q", *fields)
        self.descriptor = syscalls.syscall("make a Landlock ruleset", _CREATE_RULESET, record, len(record), 0)

    def allow(self, path: str, rights: int) -> None:
        """Allow ``rights`` below ``path``, which must exist; links are followed."""
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            self.add(handle, applicable_rights(path, rights))
        finally:
            os.close(handle)

    def add(self, handle: int, rights: int) -> None:
        """Allow ``fitting`` rights below the place of an O_PATH descriptor."""
        record = struct.pack("=Qi", rights, handle)
        syscalls.syscall(
            f"allow descriptor {handle}", _ADD_RULE, self.descriptor, _RULE_PATH_BENEATH, record, 0
        )

    def restrict_self(self) -> None:
        """Restrict this thread, and everything that it starts, to the rules from now on. Needs no_new_privs."""
        syscalls.syscall("enter the Landlock ruleset", _RESTRICT_SELF, self.descriptor, 0)

    def close(self) -> None:
        os.close(self.descriptor)

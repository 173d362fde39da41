"""Makes filters with libseccomp, to compare ours with an independent implementation.

The C library is part of every Debian (apt needs it). This module calls it with ctypes. Source: seccomp.h of
libseccomp 2.5 and its man pages seccomp_init(3), seccomp_rule_add(3), seccomp_export_bpf(3).
"""

import ctypes
import os
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

ALLOW, KILL_PROCESS = 0x7FFF0000, 0x80000000
TOKENS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ATTRIBUTE_BAD_ARCHITECTURE = 2  # SCMP_FLTATR_ACT_BADARCH
_MASKED_EQUAL = 7  # SCMP_CMP_MASKED_EQ


def errno_verdict(number: int) -> int:
    return 0x00050000 | number


class Argument(NamedTuple):
    """Argument ``number`` equals ``value``, in the bits of ``mask``."""

    number: int
    value: int
    mask: int = 0xFFFFFFFF


class _Compare(ctypes.Structure):
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


class Library:
    """The loaded library. Raises ``OSError`` when it is not installed."""

    def __init__(self) -> None:
        self._c = ctypes.CDLL("libseccomp.so.2")
        self._c.seccomp_init.restype = ctypes.c_void_p
        self._c.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p

    def names(self, arch: str, numbers: range) -> dict[str, int]:
        """The names of an architecture's system calls that the library knows."""
        libc = ctypes.CDLL(None)
        libc.free.argtypes = [ctypes.c_void_p]
        found = {}
        for number in numbers:
            text = self._c.seccomp_syscall_resolve_num_arch(ctypes.c_uint32(TOKENS[arch]), number)
            if text:
                found[(ctypes.string_at(text)).decode()] = number
                libc.free(text)
        return found


class Filter:
    """A filter for one processor architecture; ``default`` is the verdict on a call that no rule matches."""

    def __init__(self, library: Library, arch: str, default: int) -> None:
        self._c = library._c
        self._context = ctypes.c_void_p(self._c.seccomp_init(ctypes.c_uint32(default)))
        assert self._context.value
        native = ctypes.c_uint32(self._c.seccomp_arch_native())
        if native.value != TOKENS[arch]:
            self._check(self._c.seccomp_arch_add(self._context, ctypes.c_uint32(TOKENS[arch])))
            self._check(self._c.seccomp_arch_remove(self._context, native))
        self._check(
            self._c.seccomp_attr_set(
                self._context, _ATTRIBUTE_BAD_ARCHITECTURE, ctypes.c_uint32(KILL_PROCESS)
            )
        )

    def rule(self, verdict: int, name: str, arguments: Sequence[Argument] = ()) -> None:
        number = self._c.seccomp_syscall_resolve_name(name.encode())
        assert number != -1, f"libseccomp does not know {name}"
        compares = (_Compare * len(arguments))(
            *(_Compare(each.number, _MASKED_EQUAL, each.mask, each.value) for each in arguments)
        )
        self._check(
            self._c.seccomp_rule_add_array(
                self._context, ctypes.c_uint32(verdict), number, len(arguments), compares
            )
        )

    def program(self) -> bytes:
        with tempfile.TemporaryFile() as file:
            self._check(self._c.seccomp_export_bpf(self._context, file.fileno()))
            file.seek(0)
            return file.read()

    def close(self) -> None:
        self._c.seccomp_release(self._context)

    def _check(self, code: int) -> None:
        if code < 0:
            raise OSError(-code, os.strerror(-code))

"""Puts a process under a seccomp profile in Docker's format, by the library that container engines use for it.

    with_profile = Profile.read(Path("deploy/seccomp-worker.json"))
    with_profile.load()

libseccomp is a part of Debian and Ubuntu, because apt needs it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

# seccomp.h: SCMP_ACT_*, enum scmp_compare, SCMP_FLTATR_CTL_NNP
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_COMPARE = {
    "SCMP_CMP_NE": 1,
    "SCMP_CMP_LT": 2,
    "SCMP_CMP_LE": 3,
    "SCMP_CMP_EQ": 4,
    "SCMP_CMP_GE": 5,
    "SCMP_CMP_GT": 6,
    "SCMP_CMP_MASKED_EQ": 7,
}
_EPERM = 1


class _Argument(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = [
        ("index", ctypes.c_uint),
        ("compare", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


class Profile(NamedTuple):
    """A profile: its rules as they are in the file."""

    rules: list[dict[str, Any]]
    default_errno: int

    @classmethod
    def read(cls, file: Path) -> Profile:
        """Read a profile whose default is an error, as Docker's own is."""
        read = json.loads(file.read_text())
        assert read["defaultAction"] == "SCMP_ACT_ERRNO"
        return cls(read["syscalls"], read.get("defaultErrnoRet", _EPERM))

    def without(self, names: set[str]) -> Profile:
        """The profile that allows none of ``names``."""
        kept = [
            {**rule, "names": [name for name in rule["names"] if name not in names]} for rule in self.rules
        ]
        return Profile(kept, self.default_errno)

    def load(self) -> None:
        """Put this process under it, for good."""
        Prepared(self).load()


class Prepared:
    """A profile that is ready to be loaded, also where the library can no longer be found, as after chroot."""

    def __init__(self, profile: Profile) -> None:
        found = ctypes.util.find_library("seccomp")
        if found is None:
            raise FileNotFoundError("libseccomp is not installed")
        self._library = library = ctypes.CDLL(found, use_errno=True)
        library.seccomp_init.restype = ctypes.c_void_p
        self._filter = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ERRNO | profile.default_errno)))
        for rule in profile.rules:
            action = _ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else _ERRNO | rule["errnoRet"]
            arguments = [
                _Argument(one["index"], _COMPARE[one["op"]], one["value"], one.get("valueTwo", 0))
                for one in rule.get("args", [])
            ]
            for name in rule["names"]:
                number = library.seccomp_syscall_resolve_name(name.encode())
                # Calls that this machine or this library does not know are left out, as container engines do.
                if number >= 0:
                    array = (_Argument * len(arguments))(*arguments)
                    _check(
                        library.seccomp_rule_add_array(
                            self._filter, ctypes.c_uint32(action), number, len(arguments), array
                        ),
                        name,
                    )

    def load(self) -> None:
        """Put this process under it, for good; it also gives up new privileges."""
        _check(self._library.seccomp_load(self._filter), "load the profile")


def _check(result: int, step: str) -> None:
    if result < 0:
        raise OSError(-result, f"{step}: {os.strerror(-result)}")

"""Names that an attack's code can use inside the sandbox: this file's text is put before each attack.

An attack gets its targets in a ``dict`` and returns its findings: ``through`` names the ways that worked,
``how`` gives for each other way the error that stopped it. Only an ``OSError`` counts as being stopped, so
that a mistake in an attack's own code cannot pass for a boundary.
"""

import _socket
import ctypes
import errno
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# The numbers of the calls that the C library has no function for: x86-64 and aarch64
# (arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h).
SYSCALLS = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsopen": (430, 430),
    "io_uring_setup": (425, 425),
    "ioprio_set": (251, 30),
    "keyctl": (250, 219),
    "kcmp": (312, 272),
    "memfd_create": (319, 279),
    "migrate_pages": (256, 238),
    "mount_setattr": (442, 442),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "reboot": (169, 142),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "seccomp": (317, 277),
    "semget": (64, 190),
    "socket": (41, 198),
    "setns": (308, 268),
    "shmget": (29, 194),
    "swapon": (167, 224),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
MACHINE = os.uname().machine


def syscall(name: str, *arguments: Any) -> int:
    """Make a system call by its number, past every wrapper; OSError when the kernel refuses."""
    number = SYSCALLS[name][MACHINE != "x86_64"]
    return check(libc.syscall(ctypes.c_long(number), *map(wide, arguments)), name)


def wide(value: Any) -> Any:
    """Return integers as whole registers: ctypes would pass 32 bits of them."""
    return ctypes.c_long(value) if isinstance(value, int) else value


def check(result: int, name: str = "") -> int:
    """Return the result of a C function; OSError when it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


class Tries:
    """Tries the ways of an attack one after another, and records the result of each."""

    def __init__(self) -> None:
        self.through: list[str] = []
        self.how: dict[str, str] = {}

    def attempt(self, name: str, action: Callable[..., Any], *arguments: Any, proof: Any = None) -> Any:
        """Try one way. It got through unless it raises OSError, or ``proof(its value)`` is false."""
        try:
            value = action(*arguments)
        except OSError as error:
            self.how[name] = errno.errorcode.get(error.errno or 0, str(error))
            return None
        if proof is not None and not proof(value):
            self.how[name] = "nothing of interest"
            return None
        self.through.append(name)
        return value

    def verdict(self, **facts: Any) -> dict[str, Any]:
        return {"through": self.through, "how": self.how, **facts}


def read(path: str) -> bytes:
    """Return the first 64 KiB of a file."""
    with open(path, "rb", buffering=0) as file:
        return file.read(65536)


def write(path: str) -> str:
    """Make a new file of a few bytes."""
    with open(path, "xb", buffering=0) as file:
        file.write(b"attack")
    return path


def victims(d: dict[str, Any]) -> list[int]:
    """Return the processes to attack: a stand-in for the worker, and the parent of this process."""
    return [pid for pid in (d["decoy"], os.getppid()) if pid > 1]


def frame(data: bytes) -> bytes:
    """Return bytes as one frame of the protocol with the worker."""
    return len(data).to_bytes(4, "little") + data


def send(data: bytes) -> None:
    """Send bytes to the worker, past Functory's own code."""
    while data:
        data = data[os.write(3, data) :]


def packed(**fields: Any) -> bytes:
    """Return one frame as an honest child encodes it."""
    import msgspec

    return frame(msgspec.msgpack.encode(fields))


def finished(value: Any) -> bytes:
    """Return the last frame of an execution that returns ``value``."""
    return packed(t="finished", value=value, warnings=[])


def mark(name: str) -> None:
    """Give this process, and all that it starts, a name that the host can find."""
    libc.prctl(15, ctypes.c_char_p(name.encode()), 0, 0, 0)  # PR_SET_NAME, linux/prctl.h


def connect(family: int, kind: int, address: Any, seconds: float = 1.0) -> None:
    """Reach a listener and send it a word, with a socket of the kernel and not of Python's module."""
    connection = _socket.socket(family, kind)
    try:
        connection.settimeout(seconds)
        connection.connect(address)
        connection.send(b"attack")
    finally:
        connection.close()


def connect_politely(host: str, port: int) -> None:
    """Reach a listener as any program would."""
    with socket.create_connection((host, port), 1.0) as connection:
        connection.sendall(b"attack")


def patiently(seconds: float) -> None:
    """Wait, so that the process outside has time to notice."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)


def words(value: Any) -> str:
    return str(value)[:200]


if sys.maxsize < 2**32:
    raise SystemExit("the numbers above are those of 64-bit machines")

"""Attacks on memory: more than is granted, also where the limit of address space does not count it."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterable

from tests.attacks.case import STOPPED, SUCCEEDS, Report, attack
from tests.attacks.prelude import Any, Tries, check, libc, syscall

BOUNDED = ("succeeded", "failed", "out_of_memory")


def below_its_limit(report: Report) -> Iterable[str]:
    if report.status == "failed" and report.outcome["error"]["type"] != "MemoryError":
        yield f"failed with {report.outcome['error']}"
    if report.found.get("mebibytes", 0) > 256:
        yield f"it got {report.found['mebibytes']} MiB of 256"


@attack("A04", "A memory bomb", without=STOPPED, ends=BOUNDED, check=below_its_limit)
def memory_bomb(d: dict[str, Any]) -> Any:
    kept = []
    try:
        for _ in range(48):
            kept.append(bytearray(b"x") * (16 * 2**20))
    except MemoryError:
        pass
    number = len(kept)
    kept.clear()
    return {"mebibytes": number * 16}


@attack("A61", "Mapping 4 GiB", without=STOPPED)
def large_mapping(d: dict[str, Any]) -> Any:
    import mmap

    tries = Tries()
    tries.attempt("private", mmap.mmap, -1, 4 * 2**30)
    tries.attempt(
        "without reserve",
        lambda: mmap.mmap(-1, 4 * 2**30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000),
    )
    return tries.verdict()


@attack(
    "A68", "Memory in files without a name, which the limit of address space does not count", without=SUCCEEDS
)
def memory_files(d: dict[str, Any]) -> Any:
    tries, filled = Tries(), []

    def fill(number: int) -> None:
        fd = syscall("memfd_create", ctypes.c_char_p(b"memory"), 0)
        filled.append(os.write(fd, bytes(2**20)))

    for number in range(8):
        tries.attempt(f"memfd {number}", fill, number)
    return tries.verdict(mebibytes=len(filled))


@attack("A80", "Memory in the buffers of pipes", without=SUCCEEDS)
def pipe_buffers(d: dict[str, Any]) -> Any:
    import fcntl

    tries, buffered = Tries(), 0
    for number in range(8):
        reading, writing = os.pipe()
        usual = fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
        tries.attempt(f"pipe {number}", fcntl.fcntl, writing, fcntl.F_SETPIPE_SZ, 2**20)
        os.set_blocking(writing, False)
        buffered += os.write(writing, bytes(2**20))
        del reading, usual
    return tries.verdict(bytes=buffered)


@attack("A81", "Memory in the buffers of sockets", without=SUCCEEDS)
def socket_buffers(d: dict[str, Any]) -> Any:
    tries, kept = Tries(), []
    for name, option in (
        ("send", socket.SO_SNDBUF),
        ("receive", socket.SO_RCVBUF),
        ("force", 32),
        ("force in", 33),
    ):
        ours, theirs = socket.socketpair()
        kept += [ours, theirs]
        usual = ours.getsockopt(socket.SOL_SOCKET, option) if option < 32 else 0
        tries.attempt(
            name,
            lambda ours=ours, option=option: ours.setsockopt(socket.SOL_SOCKET, option, 2**20),
            proof=lambda _, ours=ours, option=option, usual=usual: (
                ours.getsockopt(socket.SOL_SOCKET, option) > usual if option < 32 else True
            ),
        )
    return tries.verdict()


@attack(
    "A57",
    "Objects of System V and POSIX message queues, which outlive their maker",
    without=SUCCEEDS,
    trace="left in the kernel",
)
def shared_objects(d: dict[str, Any]) -> Any:
    tries = Tries()
    new = 0o600 | 0o1000  # IPC_CREAT, linux/ipc.h
    tries.attempt("shared memory", syscall, "shmget", d["key"], 4096, new)
    tries.attempt("messages", syscall, "msgget", d["key"], new)
    tries.attempt("semaphores", syscall, "semget", d["key"], 1, new)
    name = ctypes.c_char_p(d["mark"].encode())
    queue = tries.attempt("message queue", syscall, "mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, 0)
    if queue is not None:
        check(libc.mq_unlink(ctypes.c_char_p(b"/" + d["mark"].encode())))
    return tries.verdict()


@attack(
    "A102", "Locking memory so that it can never be paged out", without="8 MiB may be locked by everybody"
)
def locked_memory(d: dict[str, Any]) -> Any:
    import mmap

    tries = Tries()
    area = mmap.mmap(-1, 64 * 2**20)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    tries.attempt("mlock", lambda: check(libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(64 * 2**20))))
    return tries.verdict()

"""Attacks by packages, when they are imported and before any function runs."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import struct
import time
from collections.abc import Iterable

from tests.attacks.case import Report, attack, part
from tests.attacks.prelude import Any, Tries, check, connect, libc, mark, read, syscall, write

ONLY = "packages and functions have the same rights there"


@part
def harmless_import(d: dict[str, Any]) -> Any:
    return "imported"


def was_imported(report: Report) -> Iterable[str]:
    if report.found.get("imported") != "imported":
        yield "the package was not imported"


@attack(
    "A89",
    "A package that runs code by being installed: .pth, sitecustomize",
    planted="harmless_import",
    check=was_imported,
    without=ONLY,
)
def path_files(d: dict[str, Any]) -> Any:
    import planted  # pyright: ignore[reportMissingImports]

    return {"through": [], "how": {}, "imported": planted.FOUND}


@part
def hostile_import(d: dict[str, Any]) -> Any:
    tries = Tries()
    canary = d["canary"].encode()
    slash, none = ctypes.c_char_p(b"/"), ctypes.c_char_p(b"none")

    def remount(path: str) -> None:
        flags = ctypes.c_ulong(0x1000 | 0x20)  # MS_BIND | MS_REMOUNT, without MS_RDONLY
        check(libc.mount(none, ctypes.c_char_p(path.encode()), None, flags, None), "remount")

    def uncover(path: str) -> list[str]:
        check(libc.umount2(ctypes.c_char_p(path.encode()), 2), "umount")
        return os.listdir(path)

    def processes(names: list[str]) -> bool:
        """Unmount its own /proc: the one below must show no process, and be read-only."""
        return any(name.isdigit() for name in names) or os.access("/proc/sys/kernel/core_pattern", os.W_OK)

    tries.attempt("secret", read, d["secret"], proof=lambda text: canary in text)
    for pid in (d["decoy"], d["worker"], os.getppid()):
        tries.attempt(f"environ {pid}", read, f"/proc/{pid}/environ", proof=lambda text: canary in text)
        if pid > 1:
            tries.attempt(f"signal {pid}", os.kill, pid, signal.SIGURG)
            tries.attempt(f"limits {pid}", syscall, "prlimit64", pid, 7, struct.pack("<QQ", 20, 20), 0)
            tries.attempt(f"priority {pid}", os.setpriority, os.PRIO_PROCESS, pid, 19)
    for name, family, address in (
        ("TCP", socket.AF_INET, ("127.0.0.1", d["port"])),
        ("unix", socket.AF_UNIX, d["unix"]),
        ("abstract", socket.AF_UNIX, "\0" + d["abstract"]),
    ):
        tries.attempt(name, connect, family, socket.SOCK_STREAM, address)
    tries.attempt("ptrace", syscall, "ptrace", 0x4206, d["decoy"], 0, 0)
    ours = struct.pack("<QQ", ctypes.addressof(ctypes.create_string_buffer(64)), d["length"])
    theirs = struct.pack("<QQ", d["address"], d["length"])
    tries.attempt("memory", syscall, "process_vm_readv", d["decoy"], ours, 1, theirs, 1, 0)
    for place in (
        "/usr/lib",
        "/etc",
        "/root",
        "/tmp",
        d["folder"],
        d["packages"],
        os.path.dirname(os.__file__),
    ):
        tries.attempt(
            f"write {place}", write, f"{place}/{d['mark']}", proof=lambda path: not path.startswith("/tmp")
        )
    # In a namespace of its own it may have rights over mounts, but not over those that it was given.
    for path in ("/", "/usr/lib", d["packages"]):
        tries.attempt(f"remount {path}", remount, path)
    tries.attempt("root", os.chroot, "/")
    for number in range(3):
        tries.attempt(f"uncover /proc {number}", uncover, "/proc", proof=processes)
    tries.attempt("uncover packages", uncover, os.path.dirname(os.__file__) + "/site-packages")
    tries.attempt("chmod", os.chmod, d["secret"], 0o644)
    tries.attempt("open_tree", syscall, "open_tree", -100, slash, 1)
    tries.attempt("execve", os.execv, "/bin/sh", ["sh", "-c", "sleep 0"])
    tries.attempt("io_uring", syscall, "io_uring_setup", 4, ctypes.create_string_buffer(256))
    tries.attempt("unlimited", syscall, "unshare", 0x40000000)  # CLONE_NEWNET
    return tries.verdict()


@attack("A117", "A package that attacks when it is imported", planted="hostile_import", without=ONLY)
def imported_attack(d: dict[str, Any]) -> Any:
    import planted  # pyright: ignore[reportMissingImports]

    return planted.FOUND


@attack(
    "A118", "A package that is changed for the executions to come", planted="harmless_import", without=ONLY
)
def changed_package(d: dict[str, Any]) -> Any:
    tries = Tries()
    path = f"{d['packages']}/planted.py"
    tries.attempt("write", os.open, path, os.O_WRONLY)
    tries.attempt("new module", write, f"{d['packages']}/{d['mark']}.py")
    tries.attempt("rename", os.rename, path, path + "2")
    tries.attempt("remove", os.unlink, path)
    tries.attempt("cache", os.mkdir, f"{d['packages']}/__pycache__")
    tries.attempt("chmod", os.chmod, path, 0o777)
    return tries.verdict()


@part
def greedy_import(d: dict[str, Any]) -> Any:
    tries = Tries()
    size = 1_500_000_000

    def anonymous() -> Any:
        import mmap

        held = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for page in range(0, size, 4096):
            held[page] = 1
        return held

    def refused(work: Any) -> Any:
        try:
            return work()
        except MemoryError:
            raise OSError(errno.ENOMEM, "no memory") from None

    tries.attempt("a text", refused, lambda: bytearray(b"x") * size)
    tries.attempt("pages", refused, anonymous)
    tries.attempt("small pieces", refused, lambda: [bytearray(4000) for _ in range(size // 4000)])
    return tries.verdict()


@attack(
    "A117b",
    "A package that takes ten times the memory of its function when it is imported",
    planted="greedy_import",
    # The worker may see it before the limit of the address space does, and refuse the package.
    ends=("succeeded", "sandbox_error"),
    without="the limits of resources hold without a sandbox too",
    memory_bytes=128 * 2**20,
)
def imported_memory(d: dict[str, Any]) -> Any:
    import planted  # pyright: ignore[reportMissingImports]

    return planted.FOUND


@part
def breeding_import(d: dict[str, Any]) -> Any:
    tries = Tries()

    def fork() -> None:
        if os.fork() == 0:
            mark(d["mark"])
            time.sleep(60)
            os._exit(0)

    for number in range(60):
        tries.attempt(f"fork {number}", fork)
    return tries.verdict()


@attack(
    "A117c",
    "A package that starts dozens of processes when it is imported",
    planted="breeding_import",
    without=ONLY,
)
def imported_processes(d: dict[str, Any]) -> Any:
    import planted  # pyright: ignore[reportMissingImports]

    return planted.FOUND


@part
def surviving_import(d: dict[str, Any]) -> Any:
    tries = Tries()

    def detach() -> None:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                mark(d["mark"])
                time.sleep(60)
            os._exit(0)

    def by_a_thread() -> None:
        import threading

        try:
            threading.Thread(target=detach).start()
        except RuntimeError:
            raise OSError(errno.EAGAIN, "no thread") from None

    tries.attempt("daemon", detach)
    tries.attempt("daemon of a thread", by_a_thread)
    return tries.verdict()


@attack(
    "A117d",
    "A package that leaves a process behind which outlives its zygote",
    planted="surviving_import",
    without=ONLY,
)
def imported_survivor(d: dict[str, Any]) -> Any:
    import planted  # pyright: ignore[reportMissingImports]

    return planted.FOUND

"""Attacks with new processes, and on other processes: signals, tracing, memory, limits."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import subprocess
import time
from collections.abc import Iterable

from tests.attacks.case import SUCCEEDS, Report, attack
from tests.attacks.prelude import Any, Tries, libc, read, syscall, victims


@attack("A05", "A fork bomb", without=SUCCEEDS)
def fork_bomb(d: dict[str, Any]) -> Any:
    tries = Tries()

    def fork() -> None:
        if os.fork() == 0:
            time.sleep(0.3)
            os._exit(0)

    for number in range(20):
        tries.attempt(f"fork {number}", fork)
    return tries.verdict()


@attack("A05b", "Every other way to make a process", without=SUCCEEDS)
def other_forks(d: dict[str, Any]) -> Any:
    tries = Tries()
    parent = os.getpid()

    def split(*arguments: Any) -> None:
        if syscall(*arguments) == 0:
            os._exit(0)

    child_signal = int(signal.SIGCHLD)
    tries.attempt("clone", split, "clone", child_signal, 0, 0, 0, 0)
    tries.attempt("clone, no signal", split, "clone", 0, 0, 0, 0, 0)
    tries.attempt("clone as a sibling", split, "clone", 0x8000 | child_signal, 0, 0, 0, 0)  # CLONE_PARENT
    tries.attempt("clone3", split, "clone3", struct.pack("<8Q", 0, 0, 0, 0, child_signal, 0, 0, 0), 64)
    tries.attempt("posix_spawn", os.posix_spawn, "/bin/true", ["true"], {})
    assert os.getpid() == parent
    return tries.verdict()


@attack("A06", "A daemon that forks twice and has a session of its own", without=SUCCEEDS)
def daemon(d: dict[str, Any]) -> Any:
    tries = Tries()

    def detach() -> None:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)

    tries.attempt("daemon", detach)
    return tries.verdict()


def few_threads(report: Report) -> Iterable[str]:
    if report.status == "succeeded" and not 0 < report.found["started"] <= 20:
        yield f"{report.found['started']} threads"


@attack(
    "A07",
    "A bomb of threads",
    without=SUCCEEDS,
    tiers="AB",
    ends=("succeeded", "failed"),
    check=few_threads,
    threads=16,
)
def thread_bomb(d: dict[str, Any]) -> Any:
    import threading

    threading.stack_size(64 * 1024)  # so that it is not their stacks that take the address space
    release, started = threading.Event(), 0
    try:
        for _ in range(64):
            threading.Thread(target=release.wait).start()
            started += 1
    except RuntimeError:
        pass
    release.set()
    return {"through": ["64 threads"] if started == 64 else [], "how": {}, "started": started}


@attack(
    "A07b",
    "A bomb of threads where the kernel counts those of all executions together",
    without="the user of the tests may have that many",
    tiers="C",
    ends=("succeeded", "failed"),
    threads=16,
)
def large_thread_bomb(d: dict[str, Any]) -> Any:
    import threading

    threading.stack_size(32 * 1024)
    release, started = threading.Event(), 0
    try:
        for _ in range(2000):
            threading.Thread(target=release.wait).start()
            started += 1
    except RuntimeError:
        pass
    release.set()
    return {"through": ["2,000 threads"] if started == 2000 else [], "how": {}, "started": started}


@attack("A08", "Another process's environment, by /proc", without=SUCCEEDS)
def environment_of_others(d: dict[str, Any]) -> Any:
    tries = Tries()
    for pid in {*victims(d), d["worker"]}:
        for place in (f"/proc/{pid}", f"/proc/{pid}/task/{pid}"):
            tries.attempt(
                f"{place}/environ",
                read,
                f"{place}/environ",
                proof=lambda text: d["canary"].encode() in text or b"FUNCTORY_" in text,
            )
    return tries.verdict()


@attack("A09", "The environment of process 1", without="that process belongs to root")
def environment_of_the_first(d: dict[str, Any]) -> Any:
    tries = Tries()
    # In a namespace of its own it is process 1 itself, and may read what it already has.
    itself = os.getpid() == 1
    tries.attempt("environ", read, "/proc/1/environ", proof=lambda text: not itself or b"FUNCTORY_" in text)
    tries.attempt("root", os.listdir, "/proc/1/root", proof=lambda names: not itself or "boot" in names)
    return tries.verdict()


@attack("A14", "Signals to the worker and to the zygote", without=SUCCEEDS, trace="signal SIGUSR")
def signals(d: dict[str, Any]) -> Any:
    tries = Tries()
    harmless = int(signal.SIGURG)  # ignored by processes that do not handle it, and counted by the decoy
    info = struct.pack("<iii116x", harmless, 0, -1)  # siginfo_t: signo, errno, code SI_QUEUE
    for pid in victims(d):
        tries.attempt(f"kill {pid}", os.kill, pid, harmless)
        tries.attempt(f"tkill {pid}", syscall, "tkill", pid, harmless)
        tries.attempt(f"tgkill {pid}", syscall, "tgkill", pid, pid, harmless)
        tries.attempt(f"rt_sigqueueinfo {pid}", syscall, "rt_sigqueueinfo", pid, harmless, info)
        tries.attempt(f"rt_tgsigqueueinfo {pid}", syscall, "rt_tgsigqueueinfo", pid, pid, harmless, info)
        handle = tries.attempt(f"pidfd_open {pid}", syscall, "pidfd_open", pid, 0)
        if handle is not None:
            tries.attempt(f"pidfd {pid}", syscall, "pidfd_send_signal", handle, harmless, 0, 0)
    tries.attempt("group", os.killpg, d["decoy_group"], harmless)
    tries.attempt("SIGUSR1", os.kill, d["decoy"], signal.SIGUSR1)
    tries.attempt("SIGSTOP", os.kill, d["decoy"], signal.SIGSTOP)
    return tries.verdict()


@attack(
    "A105",
    "Signals that the kernel sends for it: the owner of a descriptor",
    without=SUCCEEDS,
    trace="signal SIGUSR2",
)
def signals_by_ownership(d: dict[str, Any]) -> Any:
    import fcntl
    import socket

    tries = Tries()
    ours, theirs = socket.socketpair()

    def own(how: str) -> None:
        fd = ours.fileno()
        fcntl.fcntl(fd, 10, signal.SIGUSR2)  # F_SETSIG, asm-generic/fcntl.h
        if how == "F_SETOWN":
            fcntl.fcntl(fd, fcntl.F_SETOWN, d["decoy"])
        elif how == "F_SETOWN_EX":
            fcntl.fcntl(fd, 15, struct.pack("<ii", 1, d["decoy"]))  # F_OWNER_PID
        else:
            fcntl.ioctl(fd, 0x8901, struct.pack("<i", d["decoy"]))  # FIOSETOWN, asm/sockios.h
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | fcntl.FASYNC)
        theirs.send(b"signal it")

    tries.attempt("F_SETOWN", own, "F_SETOWN")
    tries.attempt("F_SETOWN_EX", own, "F_SETOWN_EX")
    tries.attempt("FIOSETOWN", own, "FIOSETOWN")
    time.sleep(0.05)
    # Setting an owner is no harm by itself: whether a signal arrived is seen from outside.
    return {"through": [], "how": {**tries.how, **dict.fromkeys(tries.through, "set")}}


@attack("A15", "Tracing another process", without=SUCCEEDS, trace="the decoy")
def tracing(d: dict[str, Any]) -> Any:
    tries = Tries()
    seized = tries.attempt("PTRACE_SEIZE", syscall, "ptrace", 0x4206, d["decoy"], 0, 0)
    if seized is None:
        tries.attempt("PTRACE_ATTACH", syscall, "ptrace", 16, d["decoy"], 0, 0)
    else:
        tries.attempt("PTRACE_INTERRUPT", syscall, "ptrace", 0x4207, d["decoy"], 0, 0)
        time.sleep(0.1)
        os.kill(d["decoy"], signal.SIGSTOP)
    if not tries.through:
        # Where this works, the parent of the process would have to end it.
        tries.attempt("PTRACE_TRACEME", syscall, "ptrace", 0, 0, 0, 0)
    return tries.verdict()


@attack(
    "A16", "Reading and writing another process's memory", without=SUCCEEDS, trace="its memory was written"
)
def memory_of_others(d: dict[str, Any]) -> Any:
    tries = Tries()
    buffer = ctypes.create_string_buffer(d["length"])
    ours = struct.pack("<QQ", ctypes.addressof(buffer), d["length"])
    theirs = struct.pack("<QQ", d["address"], d["length"])
    tries.attempt(
        "process_vm_readv",
        syscall,
        *("process_vm_readv", d["decoy"], ours, 1, theirs, 1, 0),
        proof=lambda _: buffer.value == d["canary"].encode(),
    )
    buffer.value = b"x" * (d["length"] - 1)
    tries.attempt("process_vm_writev", syscall, "process_vm_writev", d["decoy"], ours, 1, theirs, 1, 0)
    return tries.verdict()


@attack("A52", "Another process's memory, by /proc", without=SUCCEEDS)
def memory_by_proc(d: dict[str, Any]) -> Any:
    tries = Tries()

    def peek(pid: int) -> bytes:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
            file.seek(d["address"])
            return file.read(d["length"])

    tries.attempt("decoy", peek, d["decoy"], proof=lambda text: text == d["canary"].encode())
    for pid in victims(d):
        for name in ("mem", "maps", "cwd/", "root/etc", "fd", "exe"):
            opened = tries.attempt(f"{pid}/{name}", os.open, f"/proc/{pid}/{name}", os.O_RDONLY)
            if opened is not None:
                os.close(opened)
    return tries.verdict()


@attack("A106", "Taking a descriptor out of another process", without=SUCCEEDS)
def descriptors_of_others(d: dict[str, Any]) -> Any:
    tries = Tries()

    def take() -> int:
        return syscall("pidfd_getfd", syscall("pidfd_open", d["decoy"], 0), d["listener"], 0)

    tries.attempt("pidfd_getfd", take)
    tries.attempt("by /proc", os.open, f"/proc/{d['decoy']}/fd/0", os.O_RDONLY)
    tries.attempt("kcmp", syscall, "kcmp", d["decoy"], d["decoy"], 0, 0, 0)
    return tries.verdict()


@attack(
    "A49",
    "Changing another process: its limits, priority, affinity, memory policy",
    without=SUCCEEDS,
    trace="limit of files was changed",
)
def change_others(d: dict[str, Any]) -> Any:
    tries = Tries()
    pid = d["decoy"]
    tries.attempt("limits", syscall, "prlimit64", pid, resource.RLIMIT_NOFILE, struct.pack("<QQ", 20, 20), 0)
    tries.attempt("priority", os.setpriority, os.PRIO_PROCESS, pid, 19)
    tries.attempt("priority of the user", os.setpriority, os.PRIO_USER, d["uid"], 0)
    tries.attempt("affinity", os.sched_setaffinity, pid, {min(os.sched_getaffinity(0))})
    tries.attempt("scheduler", os.sched_setscheduler, pid, os.SCHED_BATCH, os.sched_param(0))
    tries.attempt("input and output", syscall, "ioprio_set", 1, pid, 3 << 13)  # IOPRIO_CLASS_IDLE
    nodes = struct.pack("<Q", 1)
    tries.attempt("pages", syscall, "migrate_pages", pid, 2, nodes, nodes)
    for each in victims(d):
        tries.attempt(f"group of {each}", os.setpgid, each, 0)
    return tries.verdict()


@attack("A27", "Starting a program", without=SUCCEEDS)
def start_program(d: dict[str, Any]) -> Any:
    tries = Tries()
    for path in ("/usr/bin/id", "/bin/sh"):
        tries.attempt(
            path, lambda path=path: subprocess.run([path, "-c", "id"], capture_output=True, timeout=10)
        )
    if not tries.through:
        # Only now: where this works, none of this code is left to report it.
        tries.attempt("execv", os.execv, "/bin/sh", ["sh", "-c", "sleep 0"])
        tries.attempt("itself", os.execv, "/proc/self/exe", ["python", "-c", "pass"])
    return tries.verdict()


@attack("A56", "A program that is written to memory", without=SUCCEEDS)
def program_in_memory(d: dict[str, Any]) -> Any:
    tries = Tries()

    def run() -> None:
        fd = syscall("memfd_create", ctypes.c_char_p(b"program"), 0)
        with open("/bin/true", "rb") as program:
            os.write(fd, program.read())
        child = os.fork()
        if child == 0:
            os.execve(fd, ["true"], {})
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            raise OSError("it did not run")

    tries.attempt("execve of a descriptor", run)
    return tries.verdict()


@attack("A56b", "A program that is written to the scratch folder", without=SUCCEEDS)
def program_in_scratch(d: dict[str, Any]) -> Any:
    tries = Tries()
    fd = os.open("program", os.O_CREAT | os.O_WRONLY, 0o700)
    os.write(fd, b"#!/bin/sh\nexit 0\n")
    os.close(fd)
    tries.attempt("posix_spawn", os.posix_spawn, "./program", ["program"], {})
    if not tries.through:
        tries.attempt("execv", os.execv, "./program", ["program"])
    return tries.verdict()


def killed_by_the_filter(report: Report) -> Iterable[str]:
    if report.status == "crashed" and report.outcome["signal"] != 31:
        yield f"signal {report.outcome['signal']}, not SIGSYS"


@attack(
    "A53",
    "The x32 way of making a system call",
    without="few kernels have it",
    ends="crashed",
    check=killed_by_the_filter,
    machine="x86_64",
)
def x32_call(d: dict[str, Any]) -> Any:
    return libc.syscall(ctypes.c_long(0x40000000 + 39))  # getpid


@attack(
    "A53b",
    "The 32-bit way of making a system call",
    without="not every kernel has it",
    ends="crashed",
    check=killed_by_the_filter,
    machine="x86_64",
)
def i386_call(d: dict[str, Any]) -> Any:
    import mmap

    # mov eax, 20 (getpid); int 0x80; ret
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    entry = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return {"through": ["int 0x80"], "how": {}, "pid": ctypes.CFUNCTYPE(ctypes.c_int)(entry)()}


@attack(
    "A107", "Signals to everybody it may signal", without="everybody of this user would get it", tiers="ABC"
)
def signal_to_all(d: dict[str, Any]) -> Any:
    # SIGURG does nothing to a process that does not handle it; the decoy counts it.
    tries = Tries()
    tries.attempt("kill(-1)", os.kill, -1, signal.SIGURG, proof=lambda _: False)
    return tries.verdict()

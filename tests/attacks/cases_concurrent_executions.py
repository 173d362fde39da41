"""Attacks on an execution that runs at the same time: finding, reading, changing or ending it."""

from __future__ import annotations

import os
import signal
import struct
import time

from tests.attacks.case import SUCCEEDS, attack, part
from tests.attacks.prelude import Any, Tries, read, syscall, write


@part
def neighbour(d: dict[str, Any]) -> Any:
    import ctypes

    from functory import call

    noticed = []
    signal.signal(signal.SIGURG, lambda *_: noticed.append("a signal"))
    secret = ctypes.create_string_buffer(d["canary"].encode())
    with open("neighbour", "w") as file:
        file.write(d["canary"])
    limits = os.getpriority(os.PRIO_PROCESS, 0)
    call(
        "ready",
        {
            "pid": os.getpid(),
            "here": os.getcwd(),
            "address": ctypes.addressof(secret),
        },
    )
    time.sleep(0.05)
    if secret.value != d["canary"].encode():
        noticed.append("its memory was written")
    if os.getpriority(os.PRIO_PROCESS, 0) != limits:
        noticed.append("its priority was changed")
    with open("neighbour") as file:
        if file.read() != d["canary"]:
            noticed.append("its file was written")
    return ", ".join(noticed) or "unharmed"


@attack("A113", "Files of an execution that runs at the same time", without=SUCCEEDS, beside="neighbour")
def files_of_the_neighbour(d: dict[str, Any]) -> Any:
    tries = Tries()
    path = f"{d['beside']['here']}/neighbour"
    own = os.getcwd() == d["beside"]["here"]  # the same name, yet each has a folder of its own there
    tries.attempt("read", read, path, proof=lambda text: d["canary"].encode() in text)
    tries.attempt("write beside", write, f"{d['beside']['here']}/{d['mark']}", proof=lambda _: not own)
    for place in ("..", "/tmp", "/rw", "/rw/tmp", os.path.dirname(d["beside"]["here"])):
        for folder, _, names in os.walk(place):
            if "neighbour" in names:
                tries.attempt(folder, read, f"{folder}/neighbour")
    return tries.verdict()


@attack(
    "A114",
    "Memory and environment of an execution that runs at the same time",
    without=SUCCEEDS,
    beside="neighbour",
)
def memory_of_the_neighbour(d: dict[str, Any]) -> Any:
    import ctypes

    tries = Tries()
    buffer = ctypes.create_string_buffer(64)

    def peek(pid: int) -> None:
        ours = struct.pack("<QQ", ctypes.addressof(buffer), len(d["canary"]))
        theirs = struct.pack("<QQ", d["beside"]["address"], len(d["canary"]))
        syscall("process_vm_readv", pid, ours, 1, theirs, 1, 0)

    # In a pid namespace of its own the neighbour calls itself 1, as this process does: the numbers around
    # are tried, of which each execution gets the next in the zygote's namespace.
    for pid in {d["beside"]["pid"], *range(2, 64)} - {os.getpid()}:
        tries.attempt(f"readv {pid}", peek, pid, proof=lambda _: buffer.value == d["canary"].encode())
        tries.attempt(f"mem {pid}", os.open, f"/proc/{pid}/mem", os.O_RDONLY)
    tries.how = dict(list(tries.how.items())[-2:])
    return tries.verdict()


@attack(
    "A115",
    "Signals and priorities of an execution that runs at the same time",
    without="it would end the other",
    beside="neighbour",
)
def signals_to_the_neighbour(d: dict[str, Any]) -> Any:
    tries = Tries()
    for pid in {d["beside"]["pid"], *range(2, 64)} - {os.getpid()}:
        tries.attempt(f"signal {pid}", os.kill, pid, signal.SIGURG)
        tries.attempt(f"priority {pid}", os.setpriority, os.PRIO_PROCESS, pid, 19)
    tries.how = dict(list(tries.how.items())[-2:])
    return tries.verdict()

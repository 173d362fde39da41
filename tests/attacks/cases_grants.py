"""Attacks by code with grants: with the rights that it has, and beyond them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable

from tests.attacks.case import Report, attack
from tests.attacks.prelude import Any, Tries, connect, read, write

PROGRAMS = {"subprocess": True}
ONLY = "without a sandbox every right is granted"


@attack(
    "A69",
    "Subprocesses granted: a daemon that stays",
    tiers="AB",
    grants=PROGRAMS,
    processes=16,
    without=ONLY,
)
def granted_daemon(d: dict[str, Any]) -> Any:
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
    subprocess.Popen(["sh", "-c", f"sleep 60; : {d['mark']}"], start_new_session=True)
    return {"through": [], "how": {}}


def bounded(report: Report) -> Iterable[str]:
    if not 1 <= report.found.get("forks", 0) <= 16:
        yield f"{report.found.get('forks')} processes of 16"


@attack(
    "A70",
    "Subprocesses granted: a fork bomb",
    tiers="AB",
    grants=PROGRAMS,
    processes=16,
    threads=1,
    check=bounded,
    without=ONLY,
)
def granted_bomb(d: dict[str, Any]) -> Any:
    forks = 0
    try:
        for _ in range(64):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            forks += 1
    except OSError:
        pass
    return {"through": ["64 processes"] if forks == 64 else [], "how": {}, "forks": forks}


@attack(
    "A71",
    "Subprocesses granted: children that start each other anew while they are killed",
    tiers="AB",
    grants=PROGRAMS,
    processes=16,
    ends="timed_out",
    wall_seconds=1.0,
    without=ONLY,
)
def granted_respawn(d: dict[str, Any]) -> Any:
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            while True:
                try:
                    if os.fork():
                        os._exit(0)
                except OSError:
                    time.sleep(0.001)
    time.sleep(60)


@attack(
    "A72", "Subprocesses granted: killing everybody", tiers="AB", grants=PROGRAMS, processes=16, without=ONLY
)
def granted_kill(d: dict[str, Any]) -> Any:
    if os.getpid() != 1:
        # Outside a namespace of its own this would end processes of the same user, ours among them.
        return {"through": ["it is not alone in a namespace"], "how": {}}
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    os.kill(-1, signal.SIGKILL)
    return {"through": [], "how": {}, "child": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


def ran(report: Report) -> Iterable[str]:
    if "uid=" not in report.found.get("said", "") or "uid=0(" in report.found["said"]:
        yield f"id said {report.found.get('said')!r}"


@attack(
    "A73",
    "Subprocesses granted: a program has no more rights than its caller",
    tiers="AB",
    grants=PROGRAMS,
    processes=16,
    check=ran,
    without=ONLY,
)
def granted_program(d: dict[str, Any]) -> Any:
    tries = Tries()
    done = subprocess.run(["/usr/bin/id"], capture_output=True, text=True, timeout=10)

    def shell(command: str) -> None:
        if subprocess.run(["/bin/sh", "-c", command], capture_output=True, timeout=10).returncode:
            raise PermissionError(1, command)

    tries.attempt("secret", shell, f"cat {d['secret']}")
    tries.attempt("environ", shell, f"cat /proc/{d['decoy']}/environ")
    tries.attempt("signal", shell, f"kill -URG {d['decoy']}")
    tries.attempt("su", shell, "su -c true")
    tries.attempt("mount", shell, "mount -t tmpfs none /tmp")
    tries.attempt("unshare", shell, "unshare -U true")
    tries.attempt("socket", connect, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", d["port"]))
    return tries.verdict(said=done.stdout + done.stderr)


@attack(
    "A73b",
    "Subprocesses granted: memory, together, is that of one",
    tiers="AB",
    grants=PROGRAMS,
    processes=8,
    ends=("succeeded", "out_of_memory", "failed"),
    without=ONLY,
)
def granted_memory(d: dict[str, Any]) -> Any:
    reading, writing = os.pipe()
    for _ in range(6):
        if os.fork() == 0:
            try:
                kept = bytearray(b"x") * (128 * 2**20)
                os.write(writing, b"x")
                time.sleep(60)
                del kept
            finally:
                os._exit(0)
    os.close(writing)
    time.sleep(2)
    os.set_blocking(reading, False)
    try:
        number = len(os.read(reading, 100))
    except BlockingIOError:
        number = 0
    return {"through": [f"{number * 128} MiB of 256"] if number > 2 else [], "how": {}}


@attack(
    "A120",
    "Subprocesses granted: CPU time, together, is that of one",
    tiers="AB",
    grants=PROGRAMS,
    processes=8,
    cpu_seconds=2.0,
    ends=("timed_out",),
    without=ONLY,
)
def granted_time(d: dict[str, Any]) -> Any:
    reading, writing = os.pipe()
    for _ in range(8):
        # One after another, each below its own limit; a process that is never waited for counts as well.
        if os.fork() == 0:
            if os.fork() == 0:
                while time.process_time() < 1.5:
                    pass
            os._exit(0)
        os.wait()
        time.sleep(0.1)
    os.close(writing)
    # The end of the last of them ends it.
    os.read(reading, 1)
    return {"through": ["12 s of CPU time instead of 2"], "how": {}}


@attack("A74", "Hosts granted: the way past the broker", grants={"hosts": ("example.com",)}, without=ONLY)
def past_the_broker(d: dict[str, Any]) -> Any:
    tries = Tries()

    for address, port in (("127.0.0.1", d["port"]), ("169.254.169.254", 80), ("10.0.0.1", 80)):
        tries.attempt(address, connect, socket.AF_INET, socket.SOCK_STREAM, (address, port), 0.5)
        tries.attempt(f"{address} UDP", connect, socket.AF_INET, socket.SOCK_DGRAM, (address, port), 0.5)
    return tries.verdict()


@attack(
    "A74b",
    "Hosts granted: another host than the one granted",
    grants={"hosts": ("example.com",)},
    without=ONLY,
)
def another_host(d: dict[str, Any]) -> Any:
    tries = Tries()
    for address, port in (
        ("127.0.0.1", d["port"]),
        ("localhost", d["port"]),
        ("169.254.169.254", 80),
        ("::1", d["port"]),
        ("example.org", 443),
        ("0.0.0.0", d["port"]),
    ):
        tries.attempt(
            address, lambda address=address, port=port: socket.create_connection((address, port), 2).close()
        )
    return tries.verdict()


@attack(
    "A116", "Paths granted: beyond them, by links and by `..`", grants={"read": ("/usr/share",)}, without=ONLY
)
def beyond_the_path(d: dict[str, Any]) -> Any:
    tries = Tries()
    tries.attempt(
        "dots", read, f"/usr/share/../../{d['secret']}", proof=lambda text: d["canary"].encode() in text
    )
    os.symlink("/usr/share/../../etc/shadow", "link")
    tries.attempt("link", read, "link")
    tries.attempt("write", write, f"/usr/share/{d['mark']}")
    return tries.verdict(granted=sorted(os.listdir("/usr/share"))[:3])

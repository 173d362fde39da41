"""Targets of the attacks: a process that looks like a worker, listeners, a secret file; and the effects on
them.

``Decoys`` starts the process as the user of the worker, and ``touched`` lists afterwards, from outside, all
that has changed. Run as a program this module is that process: it keeps a secret in its environment and
memory, listens on TCP and on two unix sockets, counts connections and signals, and reports on request over
stdin.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import resource
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("/usr", "/usr/lib", "/etc", "/tmp", "/dev/shm", "/var/tmp", "/root", "/", "/home", "/run", "/dev")
_ANSWER_SECONDS = 10.0
_LOOKS = 50
# What the process would notice again and again: it needs another one.
_LASTING = {"silence", "death", "its memory was written"}
_GONE_SECONDS = 5.0  # for a killed process to be gone: a matter of milliseconds on an idle machine
_COUNTED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGURG, signal.SIGWINCH)


class Decoys:
    """Targets of its own user; ``facts`` is what an attack gets."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="decoys-"))
        self.canary = f"canary-{secrets.token_hex(12)}"
        self.secret = self.folder / "secret"
        self.secret.write_text(self.canary)
        self.secret.chmod(0o600)
        self.mark = ""
        self._process = self._start()
        self._note()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.decoys", str(self.folder)],
            cwd=ROOT,
            env={"FUNCTORY_DATABASE_URL": self.canary, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        self._reported = json.loads(process.stdout.readline())
        return process

    @property
    def facts(self) -> dict[str, Any]:
        """Return where everything is: the attacker knows all but the secret's value, which it needs to recognise it."""
        return {
            "decoy": self._process.pid,
            "decoy_group": os.getpgid(self._process.pid),
            "uid": os.getuid(),
            "worker": os.getpid(),
            "canary": self.canary,
            "secret": str(self.secret),
            "code": [
                str(ROOT / "functory/engine/settings.py"),
                str(ROOT / "functory/workers/execution/executor.py"),
                *_installed(),
            ],
            "folder": str(self.folder),
            "mark": self.mark,
            "key": int(self.mark[3:] or "1", 16) >> 2,
            **self._reported,
        }

    def prepare(self, mark: str) -> None:
        """Repair the targets, and remember ``mark``, the mark of the next attack's processes."""
        self.mark = mark
        if self._process.poll() is not None or self._harm() or _LASTING & self._report().keys():
            self._end()
            for path in self.folder.iterdir():
                path.unlink()
            self.secret.write_text(self.canary)
            self.secret.chmod(0o600)
            self._process = self._start()
        self._note()

    def _note(self) -> None:
        self._usual = _properties(self._process.pid)
        self._before = self._report()
        self._secret_before = self._secret()

    def touched(self) -> list[str]:
        """Return what happened to the targets since ``prepare``, in words, and remove the traces."""
        found = self._harm()
        report = self._report()
        found += [what for what in self._late if what not in found]
        for what, number in (Counter(report) - Counter(self._before)).items():
            found.append(f"the decoy noticed: {what}, {number} times")
        if self._secret() != self._secret_before:
            found.append("the secret file was changed")
        for place in PLACES:
            with contextlib.suppress(OSError):
                for path in Path(place).glob(f"{self.mark}*"):
                    found.append(f"a file was made: {place}")
                    path.unlink()
        if any(path.name.startswith(self.mark) for path in self.folder.iterdir()):
            found.append("a file was made beside the secret")
        for kind, number in sorted(ipc_objects(self.facts["key"])):
            found.append(f"an object was left in the kernel: {kind}")
            remove_ipc(kind, number)
        if open_names := [name for name in open_descriptors() if self.mark in name]:
            found.append(f"the worker took descriptors: {open_names}")
        if left := self._left():
            found.append(f"processes were left: {len(left)}")
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        return found

    def _harm(self) -> list[str]:
        """Return what is wrong with the process; it keeps running afterwards, if it lives."""
        pid, found = self._process.pid, []
        if self._process.poll() is not None:
            return [f"the decoy was killed: {self._process.returncode}"]
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        if status["State"][0] in "tT":
            found.append("the decoy was frozen")
            os.kill(pid, signal.SIGCONT)
        if status["TracerPid"].strip() != "0":
            found.append("the decoy is traced")
        now = _properties(pid)
        found += [
            f"the decoy's {name} was changed" for name, value in self._usual.items() if now[name] != value
        ]
        return found

    def _report(self) -> dict[str, int]:
        """Return how often the process itself noticed each thing. A process that does not answer is killed.

        On a busy machine a signal that freezes it may take effect only now.
        """
        self._late: list[str] = []
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("report\n")
            self._process.stdin.flush()
            for _ in range(_LOOKS):
                if select.select([self._process.stdout], [], [], _ANSWER_SECONDS / _LOOKS)[0]:
                    break
                if "the decoy was frozen" in self._harm():
                    self._late.append("the decoy was frozen")
            else:
                self._process.kill()
                return {"silence": 1}
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            return {"death": 1}

    def _secret(self) -> tuple[Any, ...]:
        try:
            facts = self.secret.lstat()
            named = sorted(os.listxattr(self.secret))
            return (
                self.secret.read_text(),
                facts.st_mode,
                facts.st_uid,
                facts.st_nlink,
                facts.st_mtime_ns,
                *named,
            )
        except OSError as error:
            return (error.errno,)

    def _left(self) -> list[int]:
        end = time.monotonic() + _GONE_SECONDS
        while (left := marked(self.mark)) and time.monotonic() < end:
            time.sleep(0.02)
        return left

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def close(self) -> None:
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)


def marked(mark: str) -> list[int]:
    """Return the living processes that carry ``mark`` in their name or command line, seen from the host."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or entry.name == str(os.getpid()):
            continue
        try:
            facts = Path(entry.path, "stat").read_text()
            called = facts[facts.index("(") + 1 : facts.rindex(")")]
            line = Path(entry.path, "cmdline").read_text(errors="replace")
        except (OSError, ValueError):
            continue
        if facts[facts.rindex(")") + 2] not in "ZX" and (mark in called or mark in line):
            found.append(int(entry.name))
    return found


def ipc_objects(key: int) -> set[tuple[str, int]]:
    """System V objects under ``key`` (proc_sysvipc(5)): kind and identifier."""
    found = set()
    for kind in ("shm", "msg", "sem"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]:
                fields = line.split()
                if int(fields[0]) == key:
                    found.add((kind, int(fields[1])))
    return found


def remove_ipc(kind: str, number: int) -> None:
    """Remove what an attack has left, so that the next one starts from nothing (IPC_RMID, linux/ipc.h)."""
    libc = ctypes.CDLL(None)
    if kind == "sem":
        libc.semctl(number, 0, 0)
    elif kind == "shm":
        libc.shmctl(number, 0, None)
    else:
        libc.msgctl(number, 0, None)


def open_descriptors() -> list[str]:
    """Return what the descriptors of this process point to."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


def _installed() -> list[str]:
    """Return the folder of some packages of the worker."""
    found = [importlib.util.find_spec(name) for name in ("sqlalchemy", "celery")]
    return [spec.origin for spec in found if spec is not None and spec.origin is not None]


def _properties(pid: int) -> dict[str, Any]:
    """Return what one process may change of another of its user."""
    return {
        "limit of files": resource.prlimit(pid, resource.RLIMIT_NOFILE),
        "priority": os.getpriority(os.PRIO_PROCESS, pid),
        "affinity": sorted(os.sched_getaffinity(pid)),
        "scheduler": os.sched_getscheduler(pid),
    }


def main(folder: str) -> None:
    """Be the target until stdin closes."""
    counts: Counter[str] = Counter()
    for number in _COUNTED:
        signal.signal(number, lambda got, _: counts.update([f"signal {signal.Signals(got).name}"]))
    canary = ctypes.create_string_buffer(os.environ["FUNCTORY_DATABASE_URL"].encode())
    abstract = f"decoy-{secrets.token_hex(8)}"
    listeners: dict[socket.socket, str] = {}
    for kind, family, address in (
        ("TCP", socket.AF_INET, ("127.0.0.1", 0)),
        ("a unix socket", socket.AF_UNIX, f"{folder}/socket"),
        ("an abstract socket", socket.AF_UNIX, f"\0{abstract}"),
    ):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.bind(address)
        listener.listen()
        listeners[listener] = f"a connection to {kind}"
    for kind, address in (("path", f"{folder}/datagram"), ("name", f"\0{abstract}-datagram")):
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(address)
        listeners[receiver] = f"a datagram by its {kind}"
    tcp, *_ = listeners
    print(
        json.dumps(
            {
                "port": tcp.getsockname()[1],
                "unix": f"{folder}/socket",
                "abstract": abstract,
                "datagram": f"{folder}/datagram",
                "address": ctypes.addressof(canary),
                "length": len(canary.value),
                "listener": tcp.fileno(),
            }
        ),
        flush=True,
    )
    while True:
        ready, _, _ = select.select([sys.stdin, *listeners], [], [])
        for listener in listeners.keys() & set(ready):
            counts[listeners[listener]] += 1
            if listener.type == socket.SOCK_DGRAM:
                listener.recv(65536)
            else:
                listener.accept()[0].close()
        if sys.stdin in ready:
            if not sys.stdin.readline():
                return
            if canary.value != os.environ["FUNCTORY_DATABASE_URL"].encode():
                counts["its memory was written"] += 1
            print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

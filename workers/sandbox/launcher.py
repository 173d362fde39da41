"""The worker's handle on one zygote: start it, ask it for children, end it.

``Runner`` owns at most one of these for each process. A zygote that does not behave is discarded whole,
with all its children, and another is started: nothing is repaired.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from itertools import count
from pathlib import Path

import msgspec

from engine.errors import Unavailable
from workers.sandbox import scratch
from workers.sandbox.zygote import READY, Fork

START_SECONDS = 30.0  # 0.1 s on an idle machine; a loaded one may take its time
_SEND_SECONDS = 10.0  # a zygote that does not take a 100-byte message for so long is stopped or broken
_ROOT = str(Path(__file__).resolve().parents[2])
# -I keeps the checkout off the path. First, so that it is this very package; the zygote takes it off again.
_BOOT = (
    "import sys; fd, base, root = sys.argv[1:]; sys.path.insert(0, root); "
    "from workers.sandbox.zygote import main; main(int(fd), base, root)"
)
# Nothing of the worker's environment: no FUNCTORY_*, no secrets. Threads of BLAS and malloc arenas
# reserve address space, which is what the memory limit counts.
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}


class Launcher:
    """A started zygote. ``fork`` is safe to call from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._serial = count(1)
        self.broken = False
        self.base = tempfile.mkdtemp(prefix="functory-run-")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        with theirs:
            fd = theirs.fileno()
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and constants
                [sys.executable, "-I", "-B", "-X", "utf8", "-c", _BOOT, str(fd), self.base, _ROOT],
                pass_fds=[fd],
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        self._control.settimeout(START_SECONDS)
        try:
            ready = self._control.recv(len(READY) + 1)
        except OSError:
            ready = b""
        if ready != READY:
            self.discard()
            raise Unavailable(
                "the process that runs functions could not start",
                f"{sys.executable} ended or stayed silent before it was ready; its own message is on stderr",
                "start the worker again and read what stands above this error",
            )
        self._control.settimeout(_SEND_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return not self.broken and self._process.poll() is None

    def new_scratch(self) -> str:
        """A fresh empty folder for one execution; whoever asks for it removes it."""
        path = f"{self.base}/{next(self._serial)}"
        Path(path).mkdir(mode=0o700)
        return path

    def fork(self, folder: str, fds: list[int], inspecting: bool) -> bool:
        """Ask for a child; False (and ``broken``) when the zygote does not take the request."""
        payload = msgspec.msgpack.encode(Fork(scratch=folder, inspecting=inspecting))
        try:
            with self._lock:
                socket.send_fds(self._control, [payload], fds)
        except OSError:
            self.broken = True
            return False
        return True

    def signal(self) -> int | None:
        """The signal that ended the zygote, None if it ended otherwise or lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=1)
            return -code if code < 0 else None
        return None

    def close(self, seconds: float) -> None:
        """Let the zygote end its children and itself; after ``seconds`` it is killed."""
        self.broken = True
        with self._lock:
            self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
        self.discard()

    def discard(self) -> None:
        """Kill the zygote; the kernel kills its children with it."""
        self.broken = True
        self._process.kill()
        self._process.wait()
        # After the kill: a sender that a stopped zygote had blocked has given up its lock by now.
        with self._lock:
            self._control.close()
        scratch.remove(self.base)

    def forsake(self) -> None:
        """In a forked copy of the worker: let go of what belongs to the original, and end nothing."""
        self.broken = True
        os.close(self._control.detach())
        # Popen would complain of, and wait for, a process that is not ours.
        self._process.returncode = 0

"""The peer of the sandbox: a server that forks a process for each call and confines it in no way.

The same interpreter with the same modules loaded and the same codec, so that what a call costs more elsewhere is
the cost of confinement and supervision. Run as a module by ``ForkServer``; its control socket brings one socket
a call, on which the child reads ``[source, name, input]`` and writes the result, both msgpack after a length.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

_LENGTH = struct.Struct("<I")
_ROOT = Path(__file__).resolve().parents[1]


class ForkServer:
    """A started server; ``call`` is one call in a forked process."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.forkserver", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=_ROOT,
            )
        self._control.recv(1)

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, source: str, name: str, arguments: dict[str, Any]) -> Any:
        """The result of function ``name`` of ``source``."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(self._control, [b"f"], [theirs.fileno()])
            _write(ours, [source, name, arguments])
            return _read(ours)

    def close(self) -> None:
        self._control.close()
        self._process.wait()


def _write(connection: socket.socket, value: Any) -> None:
    data = msgspec.msgpack.encode(value)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def _read(connection: socket.socket) -> Any:
    (size,) = _LENGTH.unpack(connection.recv(_LENGTH.size, socket.MSG_WAITALL))
    return msgspec.msgpack.decode(connection.recv(size, socket.MSG_WAITALL))


def main(control_fd: int) -> None:
    """Serve until the control socket closes."""
    # Imported for their size, which decides what a fork costs.
    from functory.workers.sandbox.confinement import confine  # noqa: F401
    from functory.workers.sandbox.guest import main as guest_main  # noqa: F401
    from functory.workers.sandbox.guest import zygote  # noqa: F401

    control = socket.socket(fileno=control_fd)
    gc.collect()
    gc.disable()
    gc.freeze()
    control.send(b"r")
    while True:
        data, fds, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                connection = socket.socket(fileno=fds[0])
                source, name, given = _read(connection)
                namespace: dict[str, Any] = {}
                exec(compile(source, "<function>", "exec"), namespace)
                _write(connection, namespace[name](**given))
            os._exit(0)
        os.close(fds[0])
        # The result is there before the process is gone: a reader of it does not wait for this.
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))

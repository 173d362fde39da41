"""Connects a function to its granted hosts: Python's sockets with the worker's connection broker behind them.

A sandbox has no network. ``install`` makes the class ``socket.socket`` request each connection from the
broker, over an inherited socket (``SOCK_SEQPACKET``): ``Connect`` goes out, and one ``Answer`` comes back,
with a descriptor on success, which carries nothing but the bytes of that connection. Everything written in
Python works on top of it: ``http.client``, ``ssl``, ``asyncio``, ``requests``, ``httpx``. The broker alone
decides; user code that avoids this module gains nothing.

Names are resolved in the worker, when the connection is made; ``functory.workers.sandbox.guest.sockets``
describes what Python sees meanwhile.
"""

from __future__ import annotations

import errno
import os
import socket
import threading

import msgspec

from functory.workers.sandbox.guest import attempts, sockets
from functory.workers.sandbox.protocol.connect import MAX_CONNECT_SECONDS, Answer, Connect

_ANSWER_BYTES = 4096

# Made here: it looks types up in modules that are hidden from user code later.
_answer_decoder = msgspec.msgpack.Decoder(Answer)


class BrokerEndpoint:
    """The child's end of the broker's socket; None where nothing is granted. For any thread."""

    def __init__(self, fd: int | None) -> None:
        self._socket = None if fd is None else socket.socket(fileno=fd)
        if self._socket is not None:
            self._socket.setblocking(True)
            self._socket.set_inheritable(False)
        self._lock = threading.Condition()
        self._last_id = 0
        self._reading = False
        self._answers: dict[int, tuple[Answer, int | None]] = {}
        self._waiting: set[int] = set()
        os.register_at_fork(after_in_child=self._close_after_fork)

    def connect(self, host: str, port: int, timeout: float) -> int:
        """Return a descriptor of the connection; raises the OSError of a failed connect, or gaierror."""
        try:
            return self._connect(host, port, timeout)
        except PermissionError as error:
            attempts.refused_connection(str(error.strerror))
            raise

    def _connect(self, host: str, port: int, timeout: float) -> int:
        if self._socket is None:
            raise PermissionError(
                errno.EACCES,
                f"the function may not connect to {host}:{port}\nno host is granted to it\n"
                f'try: hosts=["{host}:{port}"]; a program that it starts has no network in any case',
            )
        timeout = min(max(timeout, 0.001), MAX_CONNECT_SECONDS)
        with self._lock:
            self._last_id += 1
            id_ = self._last_id
            request = Connect(id=id_, host=host, port=port, timeout=timeout)
            self._waiting.add(id_)
            try:
                self._socket.send(msgspec.msgpack.encode(request))
                answer, fd = self._wait_for_answer(id_)
            finally:
                self._waiting.discard(id_)
                _, left = self._answers.pop(id_, (None, None))
                if left is not None:
                    os.close(left)
        if answer.unresolved:
            raise socket.gaierror(socket.EAI_NONAME, answer.message)
        if answer.error:
            raise OSError(answer.error, answer.message)
        if fd is None:
            raise OSError(errno.EMFILE, "too many open files: the connection could not be taken over")
        return fd

    def _wait_for_answer(self, id_: int) -> tuple[Answer, int | None]:
        """Wait for one answer, under the lock: one thread reads for all, the others wait until it hands over."""
        while id_ not in self._answers:
            if self._reading:
                self._lock.wait()
                continue
            self._reading = True
            self._lock.release()
            try:
                answer, fd = self._read()
            finally:
                self._lock.acquire()
                self._reading = False
                self._lock.notify_all()
            if answer.id in self._waiting:
                self._answers[answer.id] = (answer, fd)
            elif fd is not None:
                # Its thread was interrupted and has continued.
                os.close(fd)
        return self._answers.pop(id_)

    def _read(self) -> tuple[Answer, int | None]:
        assert self._socket is not None
        data, fds, _, _ = socket.recv_fds(self._socket, _ANSWER_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the broker of granted hosts has closed")
        return _answer_decoder.decode(data), (fds[0] if fds else None)

    def _close_after_fork(self) -> None:
        """Close the socket in a process that user code forked: two readers would take each other's answers."""
        self._socket = None
        self._lock = threading.Condition()


def install(fd: int | None) -> None:
    """Make Python's sockets connect through ``fd``, the broker's socket; called once, before user code.

    With None every connection is refused, by a message that names what to grant.
    """
    sockets.patch_sockets(BrokerEndpoint(fd).connect)

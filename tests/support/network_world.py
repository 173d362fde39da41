"""Fixtures of network tests: servers on loopback, and user code in a confined process behind a connection broker.

The process is real and has the system-call filter of children, so it cannot make a socket.
"""

from __future__ import annotations

import datetime
import gc
import ipaddress
import json
import os
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from functory.workers.sandbox.network.connection_broker import ConnectionBroker
from functory.workers.sandbox.protocol.connect import Answer, Connect

ROOT = Path(__file__).parents[2]
LOOPBACK = ("127.0.0.0/8",)
PATIENCE = 20.0
MEGABYTE = 1_048_576

_BOOT = """
import json, os, sys
sys.path.insert(0, sys.argv[2])
from functory.workers.sandbox.confinement.seccomp import filter as seccomp
from functory.workers.sandbox.guest import http_clients, network
import concurrent.futures, threading, asyncio, ssl
source = sys.stdin.read()
names = {"FD": int(sys.argv[1]), **json.loads(sys.argv[3])}
profile = seccomp.Profile(name="child", network=True, subprocess=names.get("FORKS", False))
seccomp.load(seccomp.program(seccomp.architecture(), profile, pid=os.getpid()))
network.install(names["FD"])
http_clients.HttpClients().set_lineage(names.get("LINEAGE", {}))
exec(compile(source, "user code", "exec"), names)
print("\\n" + json.dumps(names.get("result")))
"""


def confined(door: socket.socket, source: str, **names: Any) -> Any:
    """Run ``source`` in a confined process that has ``door``. Returns its variable ``result``."""
    with started(door, source, **names) as process:
        return answer(process)


@contextmanager
def started(door: socket.socket, source: str, **names: Any) -> Iterator[subprocess.Popen[str]]:
    """Start the process; it is killed at the end. ``door`` is closed here, because the process has it."""
    with door:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, str(door.fileno()), str(ROOT), json.dumps(names)],
            pass_fds=[door.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"]},
        )
    assert process.stdin is not None and process.stdout is not None
    with process, suppress(BrokenPipeError):
        process.stdin.write(textwrap.dedent(source))
        process.stdin.close()
        try:
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    said = process.stdout.read()
    assert process.wait(PATIENCE) == 0
    return json.loads(said.splitlines()[-1])


class Names:
    """A resolver with a table: name to addresses, or to a function that returns them. It records the queries."""

    def __init__(self) -> None:
        self.table: dict[str, Sequence[str] | Callable[[], Sequence[str]]] = {
            "api.example.com": ["127.0.0.1"]
        }
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        found = self.table.get(host, [])
        return found() if callable(found) else found


class _Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self._reply(302, b"", location=self.path.removeprefix("/to/"))
        elif self.path == "/headers":
            self._reply(
                200, json.dumps([[name.lower(), value] for name, value in self.headers.items()]).encode()
            )
        elif self.path == "/address":
            self._reply(200, self.connection.getsockname()[0].encode())
        else:
            host = self.headers["Host"].encode()
            self._reply(200, b"GET " + self.path.encode() + b" of " + host)

    def do_POST(self) -> None:
        self._reply(200, self.rfile.read(int(self.headers["Content-Length"]))[::-1])

    def _reply(self, status: int, body: bytes, location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


@contextmanager
def web(context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve HTTP on all loopback addresses, over TLS with ``context``. Yields the port."""
    server = ThreadingHTTPServer(("0.0.0.0", 0), _Web)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def listener(address: str = "127.0.0.1", backlog: int = 64) -> Iterator[socket.socket]:
    """A listening socket. Accepted connections have a timeout, so that no test waits for ever."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind((address, 0))
        server.listen(backlog)
        server.settimeout(PATIENCE)
        yield server


def descriptors() -> int:
    """The number of open descriptors of this process, without those that only garbage still holds."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def accepted(server: socket.socket) -> socket.socket:
    connection, _ = server.accept()
    connection.settimeout(PATIENCE)
    return connection


def read_all(connection: socket.socket) -> bytes:
    """Read until the other side ends its direction."""
    parts = []
    while data := connection.recv(1 << 20):
        parts.append(data)
    return b"".join(parts)


class Authority:
    """A certificate authority for tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the test's authority")])
        certificate = self._certificate(self._name, self._key.public_key(), None)
        self.path = str(folder / "authority.pem")
        Path(self.path).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str) -> ssl.SSLContext:
        """A TLS context for a server, with a certificate for ``name``."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        path = self._folder / f"{name}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + self._certificate(subject, key.public_key(), name).public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, name: str | None
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=name is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if name is None:
            usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            try:
                alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
            except ValueError:
                alternative = x509.DNSName(name)
            builder = builder.add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def door(
    broker: ConnectionBroker, *grants: str, limit: int = 64 * MEGABYTE, run: str = "run"
) -> socket.socket:
    return broker.open(run, grants, limit)


class Raw:
    """A child's end of the door without Python's sockets, as hostile code would use it."""

    def __init__(self, broker: ConnectionBroker, *grants: str, **fields: Any) -> None:
        self.door = door(broker, *grants, **fields)
        self.door.settimeout(PATIENCE)
        self.last = 0

    def ask(self, host: str, port: int, **fields: Any) -> None:
        self.last += 1
        fields = {"id": self.last, "timeout": PATIENCE, **fields}
        self.door.send(msgspec.msgpack.encode(Connect(host=host, port=port, **fields)))

    def hear(self) -> tuple[Answer, socket.socket | None]:
        data, fds, _, _ = socket.recv_fds(self.door, 4096, 1)
        if not data:
            raise EOFError
        connection = socket.socket(fileno=fds[0]) if fds else None
        if connection is not None:
            connection.settimeout(PATIENCE)
        return msgspec.msgpack.decode(data, type=Answer), connection

    def connect(self, host: str, port: int, **fields: Any) -> socket.socket:
        self.ask(host, port, **fields)
        reply, connection = self.hear()
        assert connection is not None, reply
        return connection

    def refused(self, host: str, port: int) -> str:
        self.ask(host, port)
        reply, connection = self.hear()
        assert reply.error and connection is None
        return reply.message


def flood(source: socket.socket) -> None:
    """Send until the connection ends."""
    try:
        while True:
            source.sendall(b"x" * 65_536)
    except OSError:
        return


def drain(sink: socket.socket) -> int:
    """The number of bytes that arrive until the connection ends."""
    got = 0
    try:
        while data := sink.recv(MEGABYTE):
            got += len(data)
    except ConnectionError:
        pass
    return got

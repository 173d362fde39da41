"""``socket.socket`` without a network below it: connections come from the broker, as descriptors.

``patch_sockets`` changes the class itself, so that code that has imported it before has the same class, its
subclass ``ssl.SSLSocket`` included. A socket of the internet's families is a placeholder, one end of a local
pair, until ``connect`` puts the descriptor of the connection under its number. Unsupported operations
(datagrams, listening) are refused with a message; mere hints to a TCP connection (``setsockopt``) are
ignored.

A name gets a synthetic address, of a range that no host has (240.0.0.0/8, or 100::/64, RFC 6666), which leads
back to the name when it is connected to. The name is resolved only then.
"""

from __future__ import annotations

import _socket
import errno
import ipaddress
import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Any

Connect = Callable[[str, int, float], int]
"""A descriptor of the connection to a host and port within a number of seconds; raises OSError."""

_INET = (socket.AF_INET, socket.AF_INET6)
_KIND = 0xF  # the type of a socket without SOCK_NONBLOCK and SOCK_CLOEXEC, socket(2)
_HINTS = (socket.IPPROTO_TCP, socket.IPPROTO_IP, socket.IPPROTO_IPV6, socket.SOL_SOCKET)
_CONNECT_SECONDS = 30.0  # for a socket without a timeout
_CONNECT_SECONDS_NONBLOCKING = 10.0  # the longest time an event loop is blocked
_ANY = {socket.AF_INET: ("0.0.0.0", 0), socket.AF_INET6: ("::", 0, 0, 0)}  # noqa: S104 - shown, never bound
_LOCAL = {
    socket.AF_INET: "192.0.0.8",
    socket.AF_INET6: "100::",
}  # a host without an address: RFC 7600, RFC 6666
_FIRST_PORT, _PORTS = 49_152, 16_384  # RFC 6335 section 6
_PROTOCOLS: dict[int, int] = {
    socket.SOCK_STREAM: socket.IPPROTO_TCP,
    socket.SOCK_DGRAM: socket.IPPROTO_UDP,
}
_SERVICES = {"http": 80, "https": 443}
_NAME_LENGTH = 255
_Plain = _socket.socket


class SyntheticAddresses:
    """Synthetic addresses, given out in order, and the names that they belong to. For any thread."""

    V4 = int(ipaddress.IPv4Address("240.0.0.0"))
    V6 = int(ipaddress.IPv6Address("100::"))
    MAX_NAMES = 2**24 - 2

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []

    def address_for(self, name: str, family: int) -> str:
        """Return the address for a name, always the same one."""
        with self._lock:
            number = self._numbers.get(name)
            if number is None:
                if len(self._names) >= self.MAX_NAMES:
                    raise socket.gaierror(socket.EAI_MEMORY, "too many names")
                self._names.append(name)
                number = self._numbers[name] = len(self._names)
        if family == socket.AF_INET6:
            return str(ipaddress.IPv6Address(self.V6 + number))
        return str(ipaddress.IPv4Address(self.V4 + number))

    def name_for(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str | None:
        """Return the name of a synthetic address; None for an address of its own."""
        number = int(address) - (self.V4 if address.version == 4 else self.V6)
        return self._names[number - 1] if 0 < number <= len(self._names) else None


class Peers:
    """Both ends of each connection, by the number of its socket, which duplicates share. For any thread."""

    MAX_PEERS = (
        1024  # more than a sandbox has descriptors: an entry that falls out belongs to a closed socket
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: OrderedDict[int, tuple[tuple, tuple]] = OrderedDict()

    def put(self, fd: int, local: tuple, remote: tuple) -> None:
        inode = os.fstat(fd).st_ino
        with self._lock:
            self._ends[inode] = (local, remote)
            self._ends.move_to_end(inode)
            if len(self._ends) > self.MAX_PEERS:
                self._ends.popitem(last=False)

    def of(self, fd: int) -> tuple[tuple, tuple] | None:
        """Return the local and the remote address; None while there is no connection."""
        inode = os.fstat(fd).st_ino
        with self._lock:
            if inode in self._ends:
                self._ends.move_to_end(inode)
            return self._ends.get(inode)

    def forget(self, fd: int) -> None:
        """Forget a socket's ends: its number may come again, for a socket that is not connected."""
        inode = os.fstat(fd).st_ino
        with self._lock:
            self._ends.pop(inode, None)


class _Network:
    """Replaces the kernel's part of a connection."""

    def __init__(self, connect: Connect) -> None:
        self._ask = connect
        self._names = SyntheticAddresses()
        self._peers = Peers()
        self._ports = count()

    def placeholder(self, family: int, kind: int) -> int:
        """Make a descriptor that a connection will replace."""
        if family not in _INET or kind & _KIND != socket.SOCK_STREAM:
            raise OSError(
                errno.EAFNOSUPPORT,
                f"a function cannot open a socket of family {int(family)} and type {kind & _KIND}\n"
                "only TCP connections leave the sandbox, to granted hosts\n"
                'try: hosts=["HOST:PORT"], and a client that uses TCP',
            )
        ours, other = _socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        other.close()
        self._peers.forget(ours.fileno())
        return ours.detach()

    def connect(self, sock: Any, address: Any) -> None:
        if self._peers.of(sock.fileno()) is not None:
            raise OSError(errno.EISCONN, os.strerror(errno.EISCONN))
        host, port = _host_and_port(address)
        literal = _literal(host)
        requested = host if literal is None else self._names.name_for(literal) or str(literal)
        timeout = sock.gettimeout()
        if timeout is None:
            timeout = _CONNECT_SECONDS
        fd = self._ask(requested, port, timeout or _CONNECT_SECONDS_NONBLOCKING)
        try:
            os.dup2(fd, sock.fileno(), inheritable=False)
        finally:
            os.close(fd)
        # Blocking mode belongs to the socket that has come, not to its number.
        sock.settimeout(sock.gettimeout())
        remote = self._names.address_for(host, sock.family) if literal is None else str(literal)
        local = (_LOCAL[sock.family], _FIRST_PORT + next(self._ports) % _PORTS)
        rest = _ANY[sock.family][2:]
        self._peers.put(sock.fileno(), local + rest, (remote, port, *rest))

    def local(self, sock: Any) -> tuple:
        ends = self._peers.of(sock.fileno())
        return _ANY[sock.family] if ends is None else ends[0]

    def remote(self, sock: Any) -> tuple:
        ends = self._peers.of(sock.fileno())
        if ends is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return ends[1]

    def resolve(
        self,
        host: Any,
        port: Any,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as the original calls it
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple]:
        """Replace ``getaddrinfo``: a name gives its synthetic address, an address stays as it is."""
        number = _port(port)
        name = _default_host(family, flags) if host is None else _text(host)
        if (literal := _literal(name)) is not None:
            found = socket.AF_INET if literal.version == 4 else socket.AF_INET6
            if family not in (0, found):
                raise socket.gaierror(socket.EAI_ADDRFAMILY, "Address family for hostname not supported")
            address = str(literal)
        elif flags & socket.AI_NUMERICHOST or not 0 < len(name) <= _NAME_LENGTH:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        else:
            found = socket.AF_INET6 if family == socket.AF_INET6 else socket.AF_INET
            address = self._names.address_for(name, found)
        kind = type or socket.SOCK_STREAM
        canonical = name if flags & socket.AI_CANONNAME else ""
        return [
            (found, kind, proto or _PROTOCOLS.get(kind, 0), canonical, (address, number, *_ANY[found][2:]))
        ]

    def address_of(self, host: Any) -> str:
        """Replace ``gethostbyname``."""
        return self.resolve(host, 0, socket.AF_INET)[0][4][0]

    def addresses_of(self, host: Any) -> tuple[str, list[str], list[str]]:
        """Replace ``gethostbyname_ex``."""
        return _text(host), [], [self.address_of(host)]


def patch_sockets(connect: Connect) -> None:
    """Make every socket of this process connect through ``connect``. Once for each process."""
    network = _Network(connect)
    for method in _methods(network):
        method.__qualname__ = f"socket.{method.__name__}"
        setattr(socket.socket, method.__name__, method)
    # ``socket.getaddrinfo`` calls the one below it, so code that has imported it by name is served too.
    setattr(_socket, "getaddrinfo", network.resolve)  # noqa: B010 - the stubs call it a constant
    for module in (_socket, socket):
        setattr(module, "gethostbyname", network.address_of)  # noqa: B010
        setattr(module, "gethostbyname_ex", network.addresses_of)  # noqa: B010


def _methods(network: _Network) -> list[Callable]:
    """Return the methods of ``socket.socket`` that use the network. Sockets of other families keep theirs."""

    def __init__(
        self: Any,
        family: int = -1,
        type: int = -1,  # noqa: A002 - as the original calls it
        proto: int = -1,
        fileno: int | None = None,
    ) -> None:
        fresh = fileno is None
        if fresh:
            family = socket.AF_INET if family == -1 else family
            type = socket.SOCK_STREAM if type == -1 else type  # noqa: A001
            proto = 0 if proto == -1 else proto
            fileno = network.placeholder(family, type)
        _Plain.__init__(self, family, type, proto, fileno)
        self._io_refs = 0
        self._closed = False
        if fresh and type & socket.SOCK_NONBLOCK:
            self.setblocking(False)

    def connect(self: Any, address: Any) -> None:
        if self.family in _INET:
            network.connect(self, address)
        else:
            _Plain.connect(self, address)

    def connect_ex(self: Any, address: Any) -> int:
        if self.family not in _INET:
            return _Plain.connect_ex(self, address)
        try:
            network.connect(self, address)
        except socket.gaierror:
            raise
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def getpeername(self: Any) -> Any:
        return network.remote(self) if self.family in _INET else _Plain.getpeername(self)

    def getsockname(self: Any) -> Any:
        return network.local(self) if self.family in _INET else _Plain.getsockname(self)

    def bind(self: Any, address: Any) -> None:
        if self.family not in _INET:
            _Plain.bind(self, address)
        elif tuple(address[:2]) not in (("", 0), ("0.0.0.0", 0), ("::", 0)):  # noqa: S104
            raise OSError(
                errno.EADDRNOTAVAIL, "a function has no address of its own: it cannot bind or listen"
            )

    def listen(self: Any, backlog: int = 0) -> None:
        if self.family not in _INET:
            _Plain.listen(self, backlog)
        else:
            raise OSError(
                errno.EOPNOTSUPP, "a function cannot listen: only connections to granted hosts are made"
            )

    def setsockopt(self: Any, level: int, *rest: Any) -> None:
        if self.family not in _INET or level not in _HINTS:
            _Plain.setsockopt(self, level, *rest)

    def getsockopt(self: Any, level: int, option: int, *length: int) -> int | bytes:
        if self.family in _INET and level in _HINTS and level != socket.SOL_SOCKET:
            return bytes(length[0]) if length else 0
        return _Plain.getsockopt(self, level, option, *length)

    return [__init__, connect, connect_ex, getpeername, getsockname, bind, listen, setsockopt, getsockopt]


def _host_and_port(address: Any) -> tuple[str, int]:
    if not isinstance(address, tuple) or not 2 <= len(address) <= 4:
        raise TypeError(f"an address is a tuple (host, port), not {address!r}")
    port = address[1]
    if not isinstance(port, int):
        raise TypeError(f"a port is a number, not {type(port).__name__}")
    if not 0 <= port <= 65_535:
        raise OverflowError("connect(): port must be 0-65535.")
    host = _text(address[0])
    if not 0 < len(host) <= _NAME_LENGTH:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if port == 0:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nothing listens on port 0")
    return host, port


def _default_host(family: int, flags: int) -> str:
    """Return the address that a missing host means, getaddrinfo(3)."""
    if flags & socket.AI_PASSIVE:
        return _ANY[socket.AF_INET6 if family == socket.AF_INET6 else socket.AF_INET][0]
    return "::1" if family == socket.AF_INET6 else "127.0.0.1"


def _text(host: Any) -> str:
    return host.decode("ascii", "backslashreplace") if isinstance(host, bytes | bytearray) else str(host)


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _port(port: Any) -> int:
    """Parse a port as ``getaddrinfo`` does: a number, its digits, the name of a service, or None."""
    if port is None:
        return 0
    if isinstance(port, int):
        return port
    text = _text(port)
    if text.isascii() and text.isdigit():
        return int(text)
    if text in _SERVICES:
        return _SERVICES[text]
    try:
        return socket.getservbyname(text, "tcp")
    except OSError:
        raise socket.gaierror(socket.EAI_SERVICE, "Servname not supported for ai_socktype") from None

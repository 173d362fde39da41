"""Host grants: how a grant is written, what it means, and which connections it allows. Pure: no name is resolved.

A grant is one of

    api.example.com         that name, on ports 80 and 443
    api.example.com:8443    that name, on that port alone
    *.example.com           every name below example.com, at any depth, but not example.com itself
    203.0.113.7             that address; IPv6 in brackets where a port follows: [2001:db8::1]:8443
    *                       any public host

``parse`` reads one at save time; ``matching_grants`` and ``allows`` decide about one connection. Names are compared as
they go over the wire: lower case, without the final dot, internationalised names in their ASCII form (UTS 46,
non-transitional, https://www.unicode.org/reports/tr46/). The address of a granted name is checked where the name is
resolved.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

import idna

from functory.engine.errors import Invalid

WEB_PORTS = (80, 443)
NAME_LENGTH = 253  # RFC 1035 section 2.3.4, without the final dot

# RFC 952 does not allow underscores, but host names in use have them, and resolvers answer for them.
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Resolvers read 127.1, 0x7f.1 and 2130706433 as addresses (inet_aton(3)), so such words are not names.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")
_TRY = 'a name or address, with a port if it is not 80 or 443: "api.example.com", "api.example.com:8443"'


@dataclass(frozen=True)
class HostGrant:
    """One grant. ``name`` is normalised: a name, ``*.`` and a name, an address, or ``*``."""

    name: str
    ports: tuple[int, ...] = WEB_PORTS

    @property
    def is_any_host(self) -> bool:
        """True for ``*``, which means public hosts only."""
        return self.name == "*"

    def covers(self, host: str, port: int) -> bool:
        """Return True when the grant covers a connection to ``host``, as ``normalize`` gives it."""
        if port not in self.ports:
            return False
        if self.name.startswith("*."):
            return host.endswith(self.name[1:]) and not is_address(host)
        return self.is_any_host or host == self.name

    def __str__(self) -> str:
        """Return the shortest text of the grant; ``parse`` reads it back."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.ports == WEB_PORTS else f"{name}:{self.ports[0]}"


def parse(text: str) -> HostGrant:
    """Return the grant that ``text`` describes. :class:`Invalid` says what to write instead."""
    text = text.strip()
    if not text:
        raise _wrong(text, "it is empty")
    if "://" in text:
        rest = re.split(r"[/?#]", text.split("://", 1)[1])[0].rpartition("@")[2]
        raise _wrong(text, "it is a URL; a grant names a host without scheme and path", rest)
    if "@" in text:
        raise _wrong(text, "it contains a user name", text.rpartition("@")[2])
    if "/" in text:
        raise _wrong(text, "it contains a path; a grant covers the whole host", text.split("/", 1)[0])
    name, port = _split(text)
    if name == "*":
        return HostGrant("*", port)
    if name.startswith("*."):
        below = _name(name[2:], text)
        if "." not in below or is_address(below):
            raise _wrong(text, "a wildcard covers the names below a domain", '"*.example.com", or "*"')
        return HostGrant(f"*.{below}", port)
    if "*" in name:
        raise _wrong(text, "a wildcard must be the whole first part of a name", '"*.example.com"')
    return HostGrant(_name(name, text), port)


def normalize(host: str) -> str:
    """Return a host as grants hold it: an address in its shortest form, or a name; ``Invalid`` for anything else."""
    return _name(host, host)


def matching_grants(grants: Iterable[HostGrant], host: str, port: int) -> list[HostGrant]:
    """Return the grants that cover a connection to ``host``, as ``normalize`` gives it."""
    return [grant for grant in grants if grant.covers(host, port)]


def allows(grants: Iterable[HostGrant], host: str, port: int) -> bool:
    """Return True when one of ``grants`` covers a connection to ``host``, in any spelling; False for an invalid
    host.
    """
    try:
        return bool(matching_grants(grants, normalize(host), port))
    except Invalid:
        return False


def format_grant(host: str, port: int) -> str:
    """Return the text of the grant that would cover this connection."""
    return str(HostGrant(host, WEB_PORTS if port in WEB_PORTS else (port,)))


def _split(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the host and the ports of a grant."""
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or not is_address(name):
            raise _wrong(
                text, "the brackets must hold an IPv6 address; a port may follow", '"[2001:db8::1]:8443"'
            )
        return name, _ports(rest[1:], text) if rest else WEB_PORTS
    if text.count(":") > 1:
        if not is_address(text):
            raise _wrong(text, "it has more than one colon and is not an IPv6 address", _TRY)
        return text, WEB_PORTS
    name, colon, port = text.partition(":")
    return name, _ports(port, text) if colon else WEB_PORTS


def _ports(port: str, text: str) -> tuple[int, ...]:
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65_536:
        raise _wrong(text, f"{port!r} is not a port (a number from 1 to 65535)")
    return (int(port),)


def _name(host: str, text: str) -> str:
    if is_address(host):
        return str(ipaddress.ip_address(host))
    name = host
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError) as error:
            raise _wrong(text, f"it is not an internationalised name: {error}") from None
    name = name.lower().removesuffix(".")
    if len(name) > NAME_LENGTH:
        raise _wrong(text[:80] + "…", f"it has {len(name)} characters; names have at most {NAME_LENGTH}")
    labels = name.split(".")
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise _wrong(
                text, f"{label!r} is not a part of a host name" if label else "a part of the name is empty"
            )
    if _NUMBER.fullmatch(labels[-1]):
        raise _wrong(text, "it ends like a number and is not a complete IP address", '"203.0.113.7"')
    return name


@functools.lru_cache(maxsize=1024)  # asked several times for each connection of a run
def is_address(host: str) -> bool:
    """Return True when ``host`` is a complete IP address, without brackets and without a zone."""
    try:
        # A zone (fe80::1%eth0) names an interface of the worker, which no function may choose.
        return "%" not in host and bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def _wrong(text: str, why: str, try_: str = _TRY) -> Invalid:
    return Invalid(f"wrong host {text!r}", why, try_)

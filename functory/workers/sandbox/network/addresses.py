"""Permits the addresses that a granted host may lead to: public ones, and those in networks the operator lists.

A name can be made to resolve to anything, so the address that is connected to is checked. The tables
follow IANA's registries of special-purpose addresses (RFC 6890,
https://www.iana.org/assignments/iana-ipv4-special-registry and …/iana-ipv6-special-registry).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network

from functory.engine.errors import Invalid

Network = IPv4Network | IPv6Network

_NOT_PUBLIC_4 = [
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",
        "100.64.0.0/10",  # carriers' translation (RFC 6598); a cloud's metadata service is in it
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's agent service behind a public address
        "169.254.0.0/16",  # link-local, and with it most metadata services
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # the former relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
_PUBLIC_6 = IPv6Network("2000::/3")  # all that has been given out (RFC 4291 section 2.4)
_NOT_PUBLIC_6 = [
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocols, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "3fff::/20",
    )
]
_TRANSLATED = IPv6Network("64:ff9b::/96")  # NAT64 (RFC 6052): the last 32 bits are an IPv4 address


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse the operator's list of networks; ``Invalid`` names a wrong one."""
    found: list[Network] = []
    for text in texts:
        try:
            found.append(ip_network(text))
        except ValueError as error:
            raise Invalid(
                f"wrong private_networks {text!r}", str(error), "an address and a length: 10.1.0.0/16"
            ) from None
    return tuple(found)


# Most connections lead to a few addresses, and a check takes tens of microseconds.
@functools.lru_cache(maxsize=1024)
def permitted(text: str, private: tuple[Network, ...] = ()) -> bool:
    """Return True if a run may connect to the address ``text``: it is public, or in one of the ``private`` networks.

    False for any other text, and for an address with a zone.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    listed = any(address in network for network in private)
    if isinstance(address, IPv4Address):
        return listed or not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None or address.ipv4_mapped is not None:
        return False
    if address in _TRANSLATED:
        # Behind the operator's own translator; the address it leads to is checked like any other.
        return listed and permitted(str(IPv4Address(int(address) & 0xFFFFFFFF)), private)
    return listed or (address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6))

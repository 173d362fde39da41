"""Parses IP addresses and networks in texts.

IPv4 octets are decimal and may have leading zeros (``010.0.0.1`` is ``10.0.0.1``); an IPv6 text has no dots
and no zone, so ``::ffff:1.2.3.4`` and ``fe80::1%eth0`` are ordinary texts. This is event-ruler's reading.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address

# (4 or 6, the address as a number)
Address = tuple[int, int]
BITS = {4: 32, 6: 128}

_LONGEST = 64
_IPV4 = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")
_IPV6 = re.compile(r"[0-9a-fA-F:]*:[0-9a-fA-F:]*")
_MASK = re.compile(r"-?[0-9]{1,9}")


def parse_address(text: str) -> Address | None:
    """Return the address that ``text`` spells, or None."""
    # The first test keeps ordinary texts (and their memory) out of the cache.
    return _parse(text) if len(text) <= _LONGEST and (text[:1].isdigit() or ":" in text) else None


@lru_cache(maxsize=4096)
def _parse(text: str) -> Address | None:
    if _IPV4.fullmatch(text):
        number = 0
        for octet in map(int, text.split(".")):
            if octet > 255:
                return None
            number = number << 8 | octet
        return 4, number
    if _IPV6.fullmatch(text):
        try:
            return 6, int(IPv6Address(text))
        except AddressValueError:
            return None
    return None


def parse_network(text: str) -> tuple[int, int, int]:
    """Return (family, mask bits, masked number) of ``net/bits``; host bits are allowed and ignored.

    /32 and /128 are refused: a plain text already matches an address in every spelling. Raises ValueError with the
    reason.
    """
    net, slash, mask = text.partition("/")
    if not slash or "/" in mask:
        raise ValueError("one '/' is required")
    if not _MASK.fullmatch(mask):
        raise ValueError("the mask bits must be an integer")
    bits = int(mask)
    if bits < 0:
        raise ValueError("the mask bits must not be negative")
    address = parse_address(net)
    if address is None:
        raise ValueError(f'"{net[:_LONGEST]}" is not an IP address')
    family, number = address
    if bits >= BITS[family]:
        raise ValueError(f"the mask bits of IPv{family} must be less than {BITS[family]}")
    shift = BITS[family] - bits
    return family, bits, number >> shift << shift

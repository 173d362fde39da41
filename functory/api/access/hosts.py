"""The header ``Host``: a page of another site must not reach the API by a name of its own that it points at this
server (DNS rebinding).

Addresses are accepted as they are: such an attack needs a name. Names are accepted when they are known: those of this
machine if the server listens there alone, ``host``, the host of ``public_url``, and ``trusted_hosts``.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from fastapi import Request

from functory.api import callers
from functory.api.problem_details import UnknownHost
from functory.engine.settings import Settings


def check(settings: Settings, request: Request) -> None:
    """Refuse a request with a name that is not known. Raises :class:`UnknownHost`."""
    given = request.headers.getlist("host")
    name = _name(given[0]) if len(given) == 1 else ""
    if not is_known(settings, name):
        raise UnknownHost(
            f"{name[:100]!r} is not a name of this server",
            "a web page could point a name of its own at it",
            "set FUNCTORY_PUBLIC_URL, or add the name to FUNCTORY_TRUSTED_HOSTS",
        )


def is_known(settings: Settings, name: str) -> bool:
    """True for an address, and for a name of this server."""
    if _is_address(name):
        # Another machine's address on a server that only this machine reaches is no request of a browser here.
        return not callers.is_loopback(settings.host) or callers.is_loopback(name)
    known = {settings.host.lower(), *(host.lower() for host in settings.trusted_hosts)}
    if settings.public_url is not None:
        known.add((urlsplit(settings.public_url).hostname or "").lower())
    return name in known - {""} or callers.is_loopback(name)


def _name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

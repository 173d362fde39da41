"""The cookie of a login.

Over TLS it is ``__Host-functory``: browsers take it from this host alone, for all of its paths, and never send it
without TLS (RFC 6265bis, section 4.1.3.2). Without TLS, which only this machine may do, it is ``functory``.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import Request, Response

from functory.api import callers
from functory.engine.access.logins import LONGEST
from functory.engine.errors import Refused
from functory.engine.settings import Settings

SECURE, PLAIN = "__Host-functory", "functory"


def is_secure(settings: Settings, request: Request) -> bool:
    """True when the browser reaches the server over TLS: here, or at the proxy that ``public_url`` names."""
    public = settings.public_url or ""
    return request.url.scheme == "https" or (
        public.startswith("https://") and urlsplit(public).netloc == request.headers.get("host")
    )


def check_transport(settings: Settings, request: Request) -> None:
    """Refuse a login whose password and cookie could be read on the way. Raises :class:`Refused`."""
    if not is_secure(settings, request) and not callers.is_loopback(request.url.hostname or ""):
        raise Refused(
            "a login needs TLS",
            "your password would be sent over the network as it is",
            "put a proxy with TLS before the server, and set FUNCTORY_PUBLIC_URL to its https:// address",
        )


def read(settings: Settings, request: Request) -> str | None:
    """Return the cookie that was sent; None without one."""
    return request.cookies.get(SECURE if is_secure(settings, request) else PLAIN)


def set_(settings: Settings, request: Request, response: Response, text: str) -> None:
    """Let the browser keep the cookie of a new login."""
    secure = is_secure(settings, request)
    response.set_cookie(
        SECURE if secure else PLAIN,
        text,
        max_age=int(LONGEST.total_seconds()),
        path="/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def clear(settings: Settings, request: Request, response: Response) -> None:
    """Let the browser forget the cookie."""
    secure = is_secure(settings, request)
    response.delete_cookie(
        SECURE if secure else PLAIN, path="/", secure=secure, httponly=True, samesite="strict"
    )

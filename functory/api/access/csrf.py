"""Requests that a web page of another site makes a browser send: they carry the cookie, and are refused.

With a cookie every method but GET and HEAD needs ``Origin`` equal to our own, ``Sec-Fetch-Site: same-origin`` where it
is sent, and ``Content-Type: application/json``, which a form cannot send. Bearer tokens are exempt: browsers do not
send them by themselves. The body of a request is not looked at.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import Request

from functory.api.problem_details import Forbidden
from functory.engine.settings import Settings
from functory.engine.telemetry import server_metrics

SAFE = ("GET", "HEAD")


def check(settings: Settings, request: Request) -> None:
    """Refuse a request that may come from another site. Raises :class:`Forbidden`."""
    if request.method in SAFE:
        return
    headers = request.headers
    if headers.get("origin") not in _own_origins(settings, request):
        raise _foreign("the header Origin is not this server's")
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise _foreign("the browser says that another site sends it")
    # A request without a body needs the type, too: a form can send an empty one.
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _foreign("its Content-Type is not application/json")


def _own_origins(settings: Settings, request: Request) -> set[str]:
    found = {f"{request.url.scheme}://{request.headers.get('host', '')}"}
    if settings.public_url is not None:
        public = urlsplit(settings.public_url)
        found.add(f"{public.scheme}://{public.netloc}")
    return found


def _foreign(why: str) -> Forbidden:
    server_metrics.auth_failures.labels("origin").inc()
    return Forbidden(
        "same-origin", what="the request may come from another site", why=why, try_="programs send a token"
    )

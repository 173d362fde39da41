"""Decides what a caller of the server may read or write: by a bearer token, or because it is on this machine."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Sequence

from fastapi import Request, Response
from pydantic import SecretStr

from functory.api.problem_details import problem
from functory.engine.settings import Settings
from functory.engine.telemetry import server_metrics

# Headers that proxies add (RFC 7239, RFC 9110 section 7.6.3, and what came before them).
_OF_PROXIES = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


def sends_token(authorization: Sequence[str], token: SecretStr) -> bool:
    """True when the headers ``Authorization`` are one, and it holds this bearer token (RFC 6750, section 2.1)."""
    scheme, _, given = (authorization[0] if len(authorization) == 1 else "").partition(" ")
    fits = hmac.compare_digest(_hash(given.strip()), _hash(token.get_secret_value()))
    return scheme.lower() == "bearer" and fits


def is_on_this_machine(settings: Settings, request: Request) -> bool:
    """True when only this machine reaches the server, and a program of this machine sends the request, which names the
    server so.

    A web page that a user of this machine opens can send requests, too, but under the page's own host. A proxy on this
    machine passes on requests of others, and may call the server by the address at which it reaches it: nginx does
    unless its configuration sets another Host. So a server with a ``public_url`` has no such caller, and neither a
    header of proxies nor HTTP/1.0 (nginx's default) comes from one.
    """
    host = request.headers.getlist("host")
    return (
        settings.public_url is None
        and is_loopback(settings.host)
        and len(host) == 1
        and is_loopback(_without_port(host[0]))
        and request.scope["http_version"] != "1.0"
        and not any(name in request.headers for name in _OF_PROXIES)
    )


def may_observe(settings: Settings, request: Request) -> bool:
    """True for a caller that may read metrics, the description of the API, and which parts are not ready."""
    if settings.metrics_token is None:
        return is_on_this_machine(settings, request)
    return sends_token(request.headers.getlist("authorization"), settings.metrics_token)


def refuse_observer(settings: Settings) -> Response:
    """The response to a caller that may not."""
    if settings.metrics_token is None:
        return problem(
            403,
            detail="no token is set, so this is for programs of this machine only, and not through a proxy; "
            "set FUNCTORY_METRICS_TOKEN and send it as a bearer token, or use FUNCTORY_METRICS_PORT",
        )
    server_metrics.auth_failures.labels("token").inc()
    return problem(401, detail="send the token of this server", headers={"www-authenticate": "Bearer"})


def is_loopback(host: str) -> bool:
    """True for the name or address of a loopback interface."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

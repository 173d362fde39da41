"""Addresses of requests: they are in the logs of proxies and in the history of browsers, so they hold no token."""

from __future__ import annotations

from urllib.parse import unquote

from fastapi import Request

from functory.engine.access import credentials
from functory.engine.errors import Invalid


def refuse_token_in_address(request: Request) -> None:
    """Refuse an address with a token in it. Raises :class:`Invalid`, whose message does not have the token."""
    if credentials.has_token(unquote(f"{request.url.path}?{request.url.query}")):
        raise Invalid(
            "a token does not belong into an address",
            "addresses are in the logs of proxies and in the history of browsers",
            "revoke this token, and send a new one in the header Authorization: Bearer",
        )

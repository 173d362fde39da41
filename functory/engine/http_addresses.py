"""The address of an HTTP server of this machine, as others write it."""

from __future__ import annotations

from urllib.parse import quote


def http_url(host: str, port: int) -> str:
    """Return ``http://host:port``; an IPv6 address gets its brackets (RFC 3986, section 3.2.2, and RFC 6874)."""
    shown = f"[{quote(host, safe=':')}]" if ":" in host else host
    return f"http://{shown}:{port}"

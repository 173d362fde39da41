"""Payloads as downloads: the JSON text as it is stored, that no browser takes for a page."""

from __future__ import annotations

import hashlib

from fastapi import Request, Response


def answer(request: Request, text: str, name: str) -> Response:
    """The response with a payload under this file name; 304 when the caller has it already."""
    body = text.encode("utf-8", "surrogatepass")
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {
        "etag": tag,
        "cache-control": "private, no-cache",
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": "sandbox; default-src 'none'",
        "x-content-type-options": "nosniff",
    }
    known = [one.strip() for one in request.headers.get("if-none-match", "").split(",")]
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)

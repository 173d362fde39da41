"""Reads the body of a request with limits on its bytes and its time."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

# A sender that needs longer than this for its body holds a connection that others could use.
READ_TIMEOUT_SECONDS = 20.0


async def read(request: Request, max_bytes: int, timeout: float = READ_TIMEOUT_SECONDS) -> bytes:
    """Read the body as it was sent. Raises HTTPException: 413, 415 for a compressed body, 408, 400.

    A declared length is used only to refuse at once; the bytes that arrive are counted.
    """
    encodings = ", ".join(request.headers.getlist("content-encoding")).strip().lower()
    if encodings not in ("", "identity"):
        # A few bytes can unpack to gigabytes, and signatures cover the bytes that were sent.
        raise HTTPException(415, "compressed bodies are not read", {"accept-encoding": "identity"})
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:20]) > max_bytes:
        raise _too_large(max_bytes)
    found = bytearray()
    try:
        async with asyncio.timeout(timeout):
            async for piece in request.stream():
                found += piece
                if len(found) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        raise HTTPException(
            408, f"the body did not come within {timeout:g} seconds", {"connection": "close"}
        ) from None
    except ClientDisconnect:
        # The client is gone; a request without any answer would count as a defect.
        raise HTTPException(400, "the sender went away") from None
    return bytes(found)


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"at most {limit:,} bytes are allowed", {"connection": "close"})

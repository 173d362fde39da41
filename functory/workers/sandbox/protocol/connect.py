"""Requests for a connection, from the child to the connection broker, and the answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

FRAME_BYTES = 1024  # of a request: a name of 253 characters and all the rest fit in

MAX_CONNECT_SECONDS = 60.0


class Connect(msgspec.Struct, tag_field="t", tag="connect", forbid_unknown_fields=True, kw_only=True):
    """Requests a connection. ``id`` grows strictly; ``timeout`` is in seconds."""

    id: Annotated[int, Meta(ge=1, le=2**53)]
    host: Annotated[str, Meta(min_length=1, max_length=255)]
    port: Annotated[int, Meta(ge=1, le=65_535)]
    timeout: Annotated[float, Meta(gt=0, le=MAX_CONNECT_SECONDS)]


class Answer(msgspec.Struct, tag_field="t", tag="answer", kw_only=True):
    """Answers a ``Connect``: ``error`` is 0 and a descriptor is attached, or ``error`` is an errno."""

    id: int
    error: int = 0
    message: str = ""
    unresolved: bool = False
    """The name leads nowhere: a ``socket.gaierror``, as from a resolver."""

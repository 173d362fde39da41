"""Idempotency-Key: a request that is sent again makes nothing a second time.

The header is that of draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="A request with a key that was used before makes nothing and returns what the first one made.",
    ),
]

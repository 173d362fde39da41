"""The time that a GET of the API may read: its reading transactions take at most :data:`READ_SECONDS` together.

A person does not wait longer, and a read that takes longer uses the database that the engine needs. What cannot answer
in this time is a job: a batch, a backtest. Requests that change something are not limited, for what they read decides
what they write.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from fastapi import Request

from functory.engine.database import read_limit

READ_SECONDS = 2.0

F = TypeVar("F", bound=Callable[..., Any])

_UNLIMITED: set[Callable[..., Any]] = set()


def unlimited(handler: F) -> F:
    """Let a GET read as long as it needs (a decorator, below that of the route): its answer is one whole payload, or a
    stream.
    """
    _UNLIMITED.add(handler)
    return handler


def limit(request: Request) -> AbstractContextManager[None]:
    """The context in which a request is handled. A longer read raises
    :class:`functory.engine.errors.ReadTooLong`, which becomes a 503.
    """
    is_read = request.method in ("GET", "HEAD") and request.scope.get("endpoint") not in _UNLIMITED
    return read_limit.of(READ_SECONDS if is_read else None)

"""Starts threads of the background where the system may have none left.

The limit of threads (``ulimit -u``, ``TasksMax=`` of systemd, the control group of a container) can be reached
for a short time. What was to start then must start later: a flag that says "it runs" is set only when it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import structlog

from functory.engine.errors import Unavailable

log = structlog.get_logger(__name__)

ADVICE = "raise the limit of threads: ulimit -u, TasksMax= of systemd, or pids.max of a control group"

# What the system has refused, and not given since: each is said once.
_refused: set[str] = set()


def try_start(target: Callable[..., Any], name: str, *args: Any) -> threading.Thread | None:
    """Start a daemon thread. None when the system gives no more threads: ask again when it is needed next."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        if target.__qualname__ not in _refused:
            _refused.add(target.__qualname__)
            log.warning(
                "no thread from the system, asked again later",
                thread=name,
                reason=str(error),
                hint=ADVICE,
            )
        return None
    _refused.discard(target.__qualname__)
    return thread


def none_left(what: str) -> Unavailable:
    """Return the error for ``what`` needs a thread that the system does not give."""
    return Unavailable(what, "the system gives this process no more threads", ADVICE)

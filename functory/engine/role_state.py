"""Whether the role in this process is ready and makes progress: what process supervisors ask.

Kubernetes asks ``/healthz`` and ``/readyz`` on the metrics port (:mod:`functory.roles.process`), systemd gets messages
(:mod:`functory.engine.systemd_notify`). A role reports each change once, and both see the same.
"""

from __future__ import annotations

from collections.abc import Callable

from functory.engine import systemd_notify

_ready = False
# None during the start.
_is_progressing: Callable[[], bool] | None = None


def report_ready(is_progressing: Callable[[], bool]) -> None:
    """Report that this role works. ``is_progressing()`` is false once one of its threads hangs."""
    global _ready, _is_progressing
    _ready, _is_progressing = True, is_progressing
    systemd_notify.ready(is_progressing)


def report_waiting(text: str) -> None:
    """Report what the start of this role waits for."""
    systemd_notify.status(text)


def report_stopping() -> None:
    """Report that this role ends."""
    global _ready
    _ready = False
    systemd_notify.stopping()


def is_alive() -> bool:
    """False when the role hangs, and a new process is the cure. A role that waits for its database is alive."""
    return _is_progressing is None or _is_progressing()


def is_ready() -> bool:
    """True from the ready line to the begin of the end, while the role makes progress."""
    return _ready and is_alive()

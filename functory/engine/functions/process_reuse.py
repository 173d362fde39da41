"""Decides whether the process of an execution may run the next one of the same version. Pure.

The author of a function decides it with ``reuse``. Without that a process is kept where its code has no effect but
through its worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from functory.engine.access.grants import NOTHING, RIGHTS, Grants
from functory.engine.functions.version_row import Version


def declared_reuse(reuse: bool, declared: Mapping[str, Any]) -> bool | None:
    """Return what the author of a version declared as ``reuse``; None for nothing. Takes these fields of it."""
    if reuse:
        return True
    return False if declared.get("reuse") else None


def is_pure(codes: Iterable[Version], granted: Grants = NOTHING) -> bool:
    """Return True if versions that run in one process have no right, ask for none, and none declares ``reuse=False``.

    A preload is no right: all executions of its environment share it.
    """
    return not granted.only(RIGHTS) and not any(
        declared_reuse(code.reuse, code.declared) is False or code.declared_grants.only(RIGHTS)
        for code in codes
    )

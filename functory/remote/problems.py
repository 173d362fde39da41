"""Answers that are errors (problem details, RFC 9457) as the errors that the engine raises in its own process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine import problem_advice
from functory.engine.errors import (
    Conflict,
    FunctoryError,
    Invalid,
    NotFound,
    Refused,
    Unavailable,
    VersionChanged,
    WaitTimeout,
)

_KINDS: dict[int, type[FunctoryError]] = {
    400: Invalid, 401: Refused, 403: Refused, 404: NotFound, 405: Invalid, 408: Unavailable, 409: Conflict,
    412: VersionChanged, 413: Invalid, 415: Invalid, 422: Invalid, 429: Unavailable, 431: Invalid, 502: Unavailable,
    503: Unavailable, 504: WaitTimeout,
}  # fmt: skip
# The rights that a caller needs are granted on the server.
_NEEDS_LOGIN = 401


def error_of(status: int, members: Mapping[str, Any], server: str) -> FunctoryError:
    """The error that an answer with this ``status`` and these members of problem details stands for."""
    kind = _KINDS.get(status, FunctoryError)
    what, why, try_ = (_text(members.get(name)) for name in ("title", "detail", "try"))
    if isinstance(faults := members.get("errors"), list):
        why = "\n".join([why, *filter(None, map(_fault, faults))]) if why else "\n".join(map(_fault, faults))
    what = what or f"{server} answered with status {status}"
    if try_ == problem_advice.of_status(status):
        try_ = ""
    if status == _NEEDS_LOGIN and not try_:
        try_ = f"functory login server {server}, or set FUNCTORY_TOKEN"
    if kind is VersionChanged:
        base, current = (
            one if isinstance(one := members.get(key), int) else 0 for key in ("base", "current")
        )
        return VersionChanged(what, why, try_, base=base, current=current)
    return kind(what, why, try_)


def _fault(fault: Any) -> str:
    if not isinstance(fault, Mapping):
        return ""
    where = fault.get("where")
    place = ".".join(map(str, where[1:])) if isinstance(where, list) else ""
    return f"{place}: {_text(fault.get('what'))}" if place else _text(fault.get("what"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

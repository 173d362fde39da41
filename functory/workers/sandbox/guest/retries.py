"""What an exception says about further attempts: ``Final``, ``RetryAfter``, and the ``Retry-After`` of an HTTP error.

A child reports it with its error; :mod:`functory.engine.executions.retry_or_dead` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from functory.engine.serialization.python_values import escape_surrogates

# Services that ask for patience: too many requests, and unavailable (RFC 9110, section 10.2.3; RFC 6585, section 4).
_STATUSES = (429, 503)
_MAX_TYPES = 100
_MAX_ERRORS = 100  # of an exception group
_ROOTS = (object, BaseException)


class Final(Exception):
    """No further attempt can help: the execution ends as failed, whatever retries are left.

    ``raise Final("the card is blocked")``, or a subclass, or ``raise Final("…") from error``.
    """

    __module__ = "functory"


class RetryAfter(Exception):
    """Try again after ``seconds``, if a retry is left. A wait of more than a day is a day; a negative one is none.

    Raises :class:`TypeError` or :class:`ValueError` for what is not a number.
    """

    __module__ = "functory"

    def __init__(self, seconds: float, message: str = "") -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise TypeError(f"RetryAfter takes a number of seconds, not {seconds!r}")
        if seconds != seconds:
            raise ValueError("RetryAfter takes a number of seconds, not nan")
        self.seconds = seconds
        super().__init__(message or f"to be tried again after {seconds:g} s")


class Request(NamedTuple):
    """The classes of an error as ``module:name``, whether it is final, and the seconds that it asks to wait."""

    types: list[str]
    final: bool
    after: float | None


def request_of(error: BaseException, now: float) -> Request:
    """Read an error, and those that an exception group holds. ``now`` is the Unix time.

    Of several waits the longest counts.
    """
    errors = list(_members(error))
    types = dict.fromkeys(_name(kind) for one in errors for kind in type(one).__mro__ if kind not in _ROOTS)
    waits = [wait for one in errors if (wait := _wait(one, now)) is not None]
    final = any(isinstance(one, Final) for one in errors)
    return Request(list(types)[:_MAX_TYPES], final, max(waits, default=None))


def _members(error: BaseException) -> Iterator[BaseException]:
    """Give an error and all that it groups."""
    waiting, given = [error], 0
    while waiting and given < _MAX_ERRORS:
        one = waiting.pop(0)
        given += 1
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions


def _name(kind: type) -> str:
    return escape_surrogates(f"{kind.__module__}:{kind.__qualname__}")[:500]


def _wait(error: BaseException, now: float) -> float | None:
    if isinstance(error, RetryAfter):
        return min(max(float(min(error.seconds, 1e9)), 0.0), 1e9)
    try:
        return _wait_of_response(error, now)
    except Exception:
        # Attributes of an exception are user code.
        return None


def _wait_of_response(error: BaseException, now: float) -> float | None:
    """Return the wait of an HTTP error that carries its response, or is it (urllib, requests, httpx, aiohttp)."""
    for holder in (getattr(error, "response", None), error):
        statuses = (getattr(holder, name, None) for name in ("status_code", "status", "code"))
        headers: Any = getattr(holder, "headers", None)
        if any(status in _STATUSES for status in statuses if isinstance(status, int)) and headers is not None:
            return _seconds(_header(headers), now)
    return None


def _header(headers: Any) -> str | None:
    """Return ``Retry-After``; the libraries' mappings ignore case, a plain one does not."""
    if isinstance(headers, Mapping):
        found = next((value for name, value in headers.items() if str(name).lower() == "retry-after"), None)
    else:
        found = headers.get("Retry-After")
    return found if isinstance(found, str) else None


def _seconds(text: str | None, now: float) -> float | None:
    """Return the wait of a ``Retry-After``: whole seconds, or a date. None for no wait, and for what is neither."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        wait = float(text)
    else:
        from email.utils import parsedate_to_datetime  # rarely needed

        wait = parsedate_to_datetime(text).timestamp() - now
    return wait if 0 < wait < 1e9 else None

"""Requests to one server: connections that stay open, the token, repetitions, errors.

The standard library's client is used: it is loaded in a tenth of the time of the others, which every command of the
command line would pay. Its connections are shared by the threads of a process, each used by one at a time.
"""

from __future__ import annotations

import http.client
import random
import select
import ssl
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from functory._version import __version__
from functory.engine.errors import FunctoryError, Invalid, Unavailable, Uncertain
from functory.remote import problems, retries

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
# A server closes an idle connection after some seconds; a request is not begun on one that may be closing.
IDLE_SECONDS = 3.0
# More connections than this are closed instead of kept.
KEPT = 8

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Methods that change nothing, or the same thing again.
_HARMLESS = ("GET", "HEAD")

Query = Mapping[str, Any]


class Answer:
    """The answer to a request: its status, its headers by lower-case name, and its body."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class Connection:
    """Sends requests to ``/api/v1`` of the server at ``url`` with ``token``, from any thread.

    ``sleep`` and ``draw`` (a number from 0 to 1) are for tests.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = ANSWER_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.url = checked_url(url)
        parts = urlsplit(self.url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port
        self._prefix = f"{parts.path.rstrip('/')}/api/v1"
        self._token = _checked_token(token)
        if token and not self._secure and self._host not in _LOOPBACK:
            warnings.warn(f"the token goes to {self.url} without encryption: use https", stacklevel=4)
        self._timeout = timeout
        self._sleep = sleep
        self._draw = draw
        self._tls = ssl.create_default_context() if self._secure else None
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []
        self._lock = threading.Lock()
        self._dated: tuple[str | None, float] = (None, 0.0)

    def __repr__(self) -> str:
        return f"Connection({self.url!r})"

    def server_time(self) -> datetime:
        """The server's time, by the date of its last answer: to the second, and early rather than late."""
        from email.utils import parsedate_to_datetime

        date, at = self._dated
        if date is None:
            self.request("GET", "/me")
            date, at = self._dated
        try:
            told = parsedate_to_datetime(date or "")
        except ValueError:
            return datetime.now(UTC)
        return told + timedelta(seconds=time.monotonic() - at)

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Answer:
        """Send a request and return its answer of a good status.

        ``query`` leaves out None; a list gives several parameters. ``body`` is sent as JSON: a value, or its bytes.
        ``repeatable`` says whether the request may arrive twice; by default only reading may. Raises the error that the
        server answered, :class:`Unavailable` when it cannot be reached, and :class:`Uncertain` when a request that is
        not repeatable got no answer.
        """
        again = method in _HARMLESS if repeatable is None else repeatable
        target = self._target(path, query)
        sent = encoded(body)
        attempt = 1
        while True:
            try:
                answer = self._exchange(method, target, sent, headers or {})
            except _NotSent as error:
                if attempt >= retries.ATTEMPTS:
                    raise self._unreachable(error) from None
                pause = retries.pause_before(attempt + 1, self._draw())
            except (OSError, http.client.HTTPException) as error:
                if not again:
                    raise Uncertain(
                        f"{self.url} gave no answer",
                        f"{_said(error)}; it is not known whether the request was executed",
                        "look before you repeat it",
                    ) from None
                if attempt >= retries.ATTEMPTS:
                    raise self._unreachable(error) from None
                pause = retries.pause_before(attempt + 1, self._draw())
            else:
                waits = retries.pause_after(
                    answer.status, answer.headers.get("retry-after"), attempt, self._draw()
                )
                if waits is None or not (again or answer.status == http.client.TOO_MANY_REQUESTS):
                    return self._good(answer)
                pause = waits
            self._sleep(pause)
            attempt += 1

    def _target(self, path: str, query: Query | None) -> str:
        pairs = [(name, value) for name, given in (query or {}).items() for value in _values(given)]
        return self._prefix + path + (f"?{urlencode(pairs)}" if pairs else "")

    def _headers(self, given: Mapping[str, str], body: bytes | None) -> dict[str, str]:
        made = {"accept": "application/json", "user-agent": f"functory/{__version__}", **given}
        if body is not None:
            made["content-type"] = "application/json"
        if self._token is not None:
            made["authorization"] = f"Bearer {self._token}"
        return made

    def _exchange(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        connection = self._take() or self._open()
        try:
            connection.request(method, target, body=body, headers=self._headers(headers, body))
            raw = connection.getresponse()
            answer = Answer(raw.status, _lower(raw), raw.read())
        except BaseException:
            connection.close()
            raise
        self._dated = answer.headers.get("date"), time.monotonic()
        if raw.will_close:
            connection.close()
        else:
            self._keep(connection)
        return answer

    def _open(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=CONNECT_SECONDS, context=self._tls
            )
        else:
            made = http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_SECONDS)
        try:
            made.connect()
        except OSError as error:
            made.close()
            raise _NotSent(_said(error)) from None
        made.sock.settimeout(self._timeout)
        return made

    def _take(self) -> http.client.HTTPConnection | None:
        """A kept connection that the server has not closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, since = self._idle.pop()
            # Something to read before a request: the end of the connection.
            if time.monotonic() - since < IDLE_SECONDS and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < KEPT:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()

    def _good(self, answer: Answer) -> Answer:
        if 200 <= answer.status < 300:
            return answer
        if 300 <= answer.status < 400:
            raise Invalid(
                f"{self.url} sends requests elsewhere",
                f"to {answer.headers.get('location', 'an address that it does not name')}",
                "use that address of the server",
            )
        try:
            members = msgspec.json.decode(answer.body)
        except ValueError:
            members = None
        if not isinstance(members, dict):
            raise Unavailable(
                f"{self.url} does not answer as Functory does",
                f"status {answer.status} without a reason",
                "check the address of the server",
            )
        raise problems.error_of(answer.status, members, self.url)

    def _unreachable(self, error: BaseException) -> FunctoryError:
        return Unavailable(f"{self.url} cannot be reached", _said(error), "check the address and the server")


class _NotSent(OSError):
    """No connection: the server has seen nothing of the request."""


def new_key() -> str:
    """An idempotency key for one intention: every repetition of its request carries it."""
    return uuid.uuid4().hex


def checked_url(url: str) -> str:
    """The address of a server without a slash at its end. Raises :class:`Invalid`; the message never has a password."""
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        raise Invalid(
            "the address of the server cannot be read", try_="https://functory.example.com"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(
            "the address of the server is not an http or https URL", try_="https://functory.example.com"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise Invalid(
            "the address of the server holds more than an address",
            "a user, a password, a query or a fragment in it would be written to logs",
            "give the token by FUNCTORY_TOKEN",
        )
    return url.strip().rstrip("/")


def encoded(body: Any) -> bytes | None:
    """The JSON text of a body; bytes are JSON text already."""
    return body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)


def _checked_token(token: str | None) -> str | None:
    if token is None or not token.strip():
        return None
    text = token.strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise Invalid(
            "the token cannot be sent",
            "it has characters that no token has",
            "functory token create NAME --user USER",
        )
    return text


def _values(given: Any) -> Sequence[str]:
    if given is None:
        return ()
    if isinstance(given, list | tuple | set | frozenset):
        return [_text(one) for one in given]
    return (_text(given),)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _lower(answer: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.getheaders()}


def _said(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return str(text) if text else type(error).__name__

"""Requests to the HTTP API without a socket, by a caller of any role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fastapi import Request
from fastapi.testclient import TestClient

from functory.api import create_app
from functory.api.access.rights import OF_ROLE, Caller, Right, Role
from functory.client.functory import Functory


def caller(
    role: Role = "admin",
    *,
    rights: Sequence[Right] = (),
    labels: Sequence[str] | None = None,
    name: str = "ada",
) -> Caller:
    """A caller of this role, with ``rights`` beside those of the role."""
    limited = None if labels is None else tuple(labels)
    return Caller(name, "user", role, OF_ROLE[role] | frozenset(rights), limited)


class ApiClient:
    """Sends requests to ``/api/v1`` as the caller of :meth:`as_`; an admin at first."""

    def __init__(self, functory: Functory) -> None:
        self._caller = caller()
        app = create_app(functory, authenticate=self._authenticate)
        # Errors of the routes are answers, as they are for a caller.
        self._client = TestClient(app, raise_server_exceptions=False, base_url="http://127.0.0.1")

    def _authenticate(self, _request: Request) -> Caller:
        return self._caller

    @contextmanager
    def as_(self, role: Role = "admin", **more: Any) -> Iterator[ApiClient]:
        """Send the requests in the block as this caller (:func:`caller`)."""
        before, self._caller = self._caller, caller(role, **more)
        try:
            yield self
        finally:
            self._caller = before

    def send(self, method: str, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        """The JSON value of the answer, which must have this status. ``more``: params, headers."""
        answer = self.answer(method, path, body, **more)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def answer(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The whole answer."""
        return self._client.request(method, f"/api/v1{path}", json=body, **more)

    def get(self, path: str, status: int = 200, **params: Any) -> Any:
        """The JSON value that a GET answers."""
        return self.send("GET", path, status=status, params=params or None)

    def post(self, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        """The JSON value that a POST answers."""
        return self.send("POST", path, body, status, **more)

    def put(self, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        """The JSON value that a PUT answers."""
        return self.send("PUT", path, body, status, **more)

"""Errors over HTTP: RFC 9457 problem details, the same for our errors, wrong requests and defects."""

from __future__ import annotations

import math
from datetime import UTC
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from functory.api.request_metrics import route_of
from functory.engine import problem_advice
from functory.engine.access.logins import TooManyAttempts, WrongPassword
from functory.engine.database.clock import new_id
from functory.engine.errors import (
    AlreadyDecided,
    AmbiguousId,
    Conflict,
    FunctoryError,
    Invalid,
    NotFound,
    ReadTooLong,
    Refused,
    Unavailable,
    VersionChanged,
    WaitTimeout,
)
from functory.engine.serialization import json_codec
from functory.engine.serialization.json_schema import SchemaMismatch
from functory.engine.telemetry import server_metrics
from functory.engine.telemetry.log_config import mask

log = structlog.get_logger("functory.api")

MEDIA_TYPE = "application/problem+json"
# Longer than a client of ours waits by itself (functory/remote/retries.py): a read that was too long is not repeated.
LONG_READ_PAUSE_SECONDS = 10


class Forbidden(Refused):
    """The caller has not what this ``needs``: a right of its role, unless ``what`` says another thing."""

    def __init__(self, needs: str, role: str = "", *, what: str = "", why: str = "", try_: str = "") -> None:
        super().__init__(
            what or f"this needs the right {needs}",
            why or f"your role is {role}",
            try_ or "ask an admin of this installation",
        )
        self.needs = needs


class Unauthorized(Refused):
    """It is not known who sends the request."""


class UnknownHost(Invalid):
    """The request names a host that is not this server's."""


_STATUS: tuple[tuple[type[FunctoryError], int], ...] = (
    (UnknownHost, 421), (Invalid, 400), (Unauthorized, 401), (WrongPassword, 401), (TooManyAttempts, 429),
    (Refused, 403), (NotFound, 404), (VersionChanged, 412), (Conflict, 409), (Unavailable, 503), (WaitTimeout, 504),
)  # fmt: skip


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` with problem details."""

    @app.exception_handler(FunctoryError)
    def ours(request: Request, error: FunctoryError) -> JSONResponse:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        more: dict[str, Any] = {"try": error.try_} if error.try_ else {}
        if isinstance(error, WrongPassword | TooManyAttempts):
            server_metrics.auth_failures.labels("password").inc()
        if isinstance(error, Forbidden):
            more["needs"] = error.needs
            _record(request, error)
        if isinstance(error, NotFound) and error.pruned_before is not None:
            more["pruned_before"] = f"{error.pruned_before.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        if isinstance(error, AmbiguousId):
            more["candidates"] = error.candidates
        if isinstance(error, SchemaMismatch):
            more["errors"] = [{"pointer": pointer, "what": mask(what)} for pointer, what in error.places]
        if isinstance(error, VersionChanged):
            more |= {"base": error.base, "current": error.current}
        if isinstance(error, AlreadyDecided):
            at = error.decided_at
            more["decided_by"] = error.decided_by
            more["decided_at"] = None if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            more["trace"] = _log_defect(request, error)
        headers: dict[str, str] = {}
        if status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        if isinstance(error, TooManyAttempts):
            headers["retry-after"] = str(math.ceil(error.retry_after))
        if isinstance(error, ReadTooLong):
            # Or a client would repeat at once what is as long the next time.
            headers["retry-after"] = str(LONG_READ_PAUSE_SECONDS)
        return problem(status, title=mask(error.what), detail=mask(error.why), headers=headers, **more)

    @app.exception_handler(HTTPException)
    def plain(_request: Request, error: HTTPException) -> JSONResponse:
        return problem(
            error.status_code,
            detail="" if error.detail == _phrase(error.status_code) else error.detail,
            headers=dict(error.headers or {}),
        )

    @app.exception_handler(RequestValidationError)
    def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        # The values that were sent are left out: they may be secrets.
        faults = [
            {"where": [str(part) for part in fault["loc"]], "what": fault["msg"]} for fault in error.errors()
        ]
        return problem(422, detail="the request does not have the required form", errors=faults)

    @app.exception_handler(Exception)
    def defect(request: Request, error: Exception) -> JSONResponse:
        trace = _log_defect(request, error)
        return problem(500, detail="this is a defect; the server's log has the details", trace=trace)


def _log_defect(request: Request, error: Exception) -> str:
    """Log an error of the server. Returns the value by which its line is found."""
    trace = new_id()
    log.error("request failed", trace=trace, method=request.method, path=request.url.path, exc_info=error)
    return trace


def _record(request: Request, error: Forbidden) -> None:
    """Count the refused attempt in the audit: one entry for a caller, a route and a minute."""
    caller = getattr(request.state, "caller", None)
    address = request.client.host if request.client is not None else "unknown"
    author, origin = (caller.name, caller.origin) if caller else ("", f"http {address}")
    # Not the path: a stranger could make any number of entries.
    action = f"{request.method} {route_of(request.scope) or ''}"[:64]
    try:
        request.app.state.refused_attempts.record(author, action, request.url.path, origin)
    except FunctoryError as failure:
        log.error(
            "refused attempt not in the audit",
            author=author,
            action=action,
            needs=error.needs,
            why=str(failure),
        )


def problem(
    status: int, *, title: str = "", detail: str = "", headers: dict[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A response with the members of RFC 9457, section 3.1; ``more`` are extension members (3.2). Each has ``try``."""
    members = {"type": "about:blank", "title": title or _phrase(status), "status": status}
    if detail:
        members["detail"] = detail
    return _Problem(
        members | {"try": problem_advice.of_status(status)} | more,
        status_code=status,
        media_type=MEDIA_TYPE,
        headers=headers,
    )


class _Problem(JSONResponse):
    """Names of what was asked for may hold half of a character: it is escaped."""

    def render(self, content: Any) -> bytes:
        return json_codec.encode_stored(content)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"

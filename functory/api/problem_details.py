"""Errors over HTTP: RFC 9457 problem details, the same for our errors, wrong requests and defects."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from functory.engine.errors import (
    Conflict,
    FunctoryError,
    Invalid,
    NotFound,
    Refused,
    Unavailable,
    WaitTimeout,
)
from functory.engine.telemetry.log_config import mask

log = structlog.get_logger("functory.api")

MEDIA_TYPE = "application/problem+json"

_STATUS: tuple[tuple[type[FunctoryError], int], ...] = (
    (Invalid, 400), (Refused, 403), (NotFound, 404), (Conflict, 409), (Unavailable, 503), (WaitTimeout, 504),
)  # fmt: skip


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` with problem details."""

    @app.exception_handler(FunctoryError)
    def ours(_request: Request, error: FunctoryError) -> JSONResponse:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        more: dict[str, Any] = {"try": error.try_} if error.try_ else {}
        return problem(status, title=mask(error.what), detail=mask(error.why), **more)

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
        log.error("request failed", method=request.method, path=request.url.path, exc_info=error)
        return problem(500, detail="this is a defect; the server's log has the details")


def problem(
    status: int, *, title: str = "", detail: str = "", headers: dict[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A response with the members of RFC 9457, section 3.1; ``more`` are extension members (3.2)."""
    members = {"type": "about:blank", "title": title or _phrase(status), "status": status}
    if detail:
        members["detail"] = detail
    return JSONResponse(members | more, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"

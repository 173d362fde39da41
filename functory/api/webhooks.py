"""``POST /webhooks/NAME``: passes requests to :mod:`functory.triggers.sources.webhooks.receiver`."""

from __future__ import annotations

import asyncio
import contextlib
import time

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from functory.api import request_body
from functory.api.problem_details import problem
from functory.client.functory import Functory
from functory.engine.errors import FunctoryError, Unavailable
from functory.engine.sources.webhooks import Webhooks
from functory.engine.telemetry import metrics, server_metrics, traces
from functory.triggers.sources.webhooks import Request as WebhookRequest
from functory.triggers.sources.webhooks import WebhookReceiver, WebhookResponse

log = structlog.get_logger("functory.api")

# Seconds after which a sender may try again while the database is unavailable.
RETRY_AFTER_SECONDS = 5

_REASONS = {413: "too_large", 415: "content_type", 408: "slow"}
# Of a request that is not read: a sender that went away is none.
_REFUSALS = {413: "too_large", 415: "encoding", 408: "slow"}


def mount(
    app: FastAPI, functory: Functory, *, body_seconds: float = request_body.READ_TIMEOUT_SECONDS
) -> None:
    """Add the route to ``app``. A body must come within ``body_seconds``."""
    receiver = WebhookReceiver(
        Webhooks(functory.database),
        functory.secrets,
        functory.database.clock,
        functory.settings.max_event_bytes,
    )

    # The event loop itself keeps no strong reference to a task.
    problem_tasks: set[asyncio.Task[None]] = set()

    def count(answer: WebhookResponse) -> None:
        pause = receiver.count_refusal(answer)
        if pause is not None:
            # After the answer: a stranger could measure the time.
            task = asyncio.create_task(_record_refusals(receiver, answer, pause))
            problem_tasks.add(task)
            task.add_done_callback(problem_tasks.discard)

    @app.put("/webhooks/{name}", tags=["webhooks"], status_code=202)
    @app.post("/webhooks/{name}", tags=["webhooks"], status_code=202)
    async def webhook(name: str, request: Request) -> Response:
        """Store the event of a request. Answers 202 with its id once it is committed."""
        began = time.perf_counter()
        try:
            raw = await request_body.read(request, functory.settings.max_event_bytes, body_seconds)
            received = WebhookRequest(
                request.method,
                [(key.decode("latin-1"), value.decode("latin-1")) for key, value in request.headers.raw],
                request.url.query,
                raw,
            )
            answer = await run_in_threadpool(receiver.receive, name, received)
        except HTTPException as error:
            _record_metrics(request, error.status_code, _REASONS.get(error.status_code, "gone"), began)
            if error.status_code in _REFUSALS:
                # The answer is known without the database.
                with contextlib.suppress(Unavailable):
                    refusal = _REFUSALS[error.status_code]
                    count(await run_in_threadpool(receiver.refuse_unread, name, error.status_code, refusal))
            raise
        except Unavailable as error:
            log.warning("webhook request not stored, answered 503", why=error.reason)
            answer = WebhookResponse(
                503,
                "unavailable",
                detail="it could not be stored; send it again",
                retry_after=RETRY_AFTER_SECONDS,
            )
        _record_metrics(request, answer.status, answer.reason, began)
        count(answer)
        return _response(answer)


def _response(answer: WebhookResponse) -> Response:
    if answer.status < 400:
        return JSONResponse(dict(answer.body), status_code=answer.status)
    headers: dict[str, str] = {}
    if answer.retry_after is not None:
        headers["retry-after"] = str(answer.retry_after)
    return problem(answer.status, detail=answer.detail, headers=headers)


def _record_metrics(request: Request, status: int, reason: str, began: float) -> None:
    server_metrics.webhook_requests.labels(f"{status // 100}xx", reason).inc()
    trace = traces.exemplar_of_request(request.headers.raw)
    metrics.observe(server_metrics.webhook_seconds, time.perf_counter() - began, trace)
    if status >= 400:
        server_metrics.events_rejected.labels(server_metrics.rejection(status)).inc()
    elif reason == "duplicate":
        server_metrics.events_rejected.labels(reason).inc()


async def _record_refusals(receiver: WebhookReceiver, answer: WebhookResponse, pause: float) -> None:
    # Strangers may cause many refusals: their number is written now and then, with the problem of the first one.
    await asyncio.sleep(pause)
    try:
        await run_in_threadpool(receiver.record_refusals, answer)
    except FunctoryError as error:
        log.warning("webhook problem not stored", why=error.reason)

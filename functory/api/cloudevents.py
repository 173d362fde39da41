"""``POST /events``: CloudEvents 1.0.2 in binary, structured and batch mode (HTTP binding, section 3).

An event of the same source and id is stored once. A batch is stored as a whole or not at all. A sender needs
``events_token``. Without that setting only this machine may send, and only to a server that listens on loopback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from functory.api import callers, request_body
from functory.api.problem_details import problem
from functory.api.webhooks import RETRY_AFTER_SECONDS
from functory.client.functory import Functory
from functory.engine.errors import Invalid, Unavailable
from functory.engine.events import cloudevents, trace_origins
from functory.engine.events.cloudevents import Inbox, IncomingEvent
from functory.engine.events.lineage_tokens import TRACESTATE, LineageToken, LineageTokens
from functory.engine.serialization import media_types
from functory.engine.settings import Settings
from functory.engine.telemetry import server_metrics, traces

log = structlog.get_logger("functory.api")

# Size of an envelope without its data.
ENVELOPE_BYTES = 65_536
# Size of a batch: each of its events may be as large as a single one, and a server holds the batches of its senders in
# memory.
BATCH_BYTES = 16 * 1024 * 1024
LineageReader = Callable[[IncomingEvent], LineageToken | None]

# At most this number of a batch's faults is listed in an answer.
MAX_LISTED_ERRORS = 100


def mount(
    app: FastAPI, functory: Functory, *, body_seconds: float = request_body.READ_TIMEOUT_SECONDS
) -> None:
    """Add the route to ``app``. A body must come within ``body_seconds``."""
    inbox = Inbox(functory.database, functory.settings.max_event_bytes)
    tokens = LineageTokens(functory.secrets.derive_keys)
    settings = functory.settings

    @app.post("/events", tags=["events"], status_code=202)
    async def events(request: Request) -> Response:
        """Store CloudEvents. Answers 202 with their ids once they are committed."""
        refused = authorization_error(settings, request)
        if refused is not None:
            _count_refused("unknown", refused.status_code)
            return refused
        mode = "unknown"
        try:
            headers = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in request.headers.raw]
            mode = content_mode(headers)
            largest = settings.max_event_bytes + ENVELOPE_BYTES
            if mode == "batch":
                largest = max(largest, BATCH_BYTES)
            raw = await request_body.read(request, largest, body_seconds)
            now = functory.database.clock.now()
            return await run_in_threadpool(
                lambda: _ingest(inbox, mode, headers, raw, _lineage_reader(tokens, headers, now))
            )
        except (HTTPException, Invalid) as error:
            _count_refused(mode, error.status_code if isinstance(error, HTTPException) else 400)
            raise
        except Unavailable as error:
            server_metrics.events_rejected.labels(server_metrics.rejection(503)).inc()
            log.warning("events not stored, answered 503", why=error.reason)
            return problem(
                503,
                detail="it could not be stored; send it again",
                headers={"retry-after": str(RETRY_AFTER_SECONDS)},
            )


def authorization_error(settings: Settings, request: Request) -> Response | None:
    """The response to a caller that may not send events; None for one that may."""
    if settings.events_token is None:
        if callers.is_on_this_machine(settings, request):
            return None
        return problem(
            403,
            detail="no token is set, so events are taken from programs of this machine only, and not through a proxy; "
            "set FUNCTORY_EVENTS_TOKEN and send it as a bearer token",
        )
    if callers.sends_token(request.headers.getlist("authorization"), settings.events_token):
        return None
    server_metrics.auth_failures.labels("token").inc()
    return problem(401, detail="send the token of this server", headers={"www-authenticate": "Bearer"})


def content_mode(headers: Sequence[tuple[str, str]]) -> str:
    """``binary``, ``structured`` or ``batch``, by the content type. Raises HTTPException (415)."""
    given = [value for name, value in headers if name == "content-type"]
    try:
        kind = media_types.media_type(given[0]) if given else ""
    except media_types.UnsupportedMediaType as error:
        if "application/cloudevents" in given[0].lower():
            raise HTTPException(415, str(error)) from None
        kind = ""
    if kind == cloudevents.STRUCTURED:
        mode = "structured"
    elif kind == cloudevents.BATCH:
        mode = "batch"
    elif kind.startswith("application/cloudevents"):
        raise HTTPException(415, f"{cloudevents.STRUCTURED} and {cloudevents.BATCH} are read")
    else:
        mode = "binary"
    if len(given) > 1:
        raise HTTPException(415, "the request has two content types")
    return mode


def _ingest(
    inbox: Inbox, mode: str, headers: Sequence[tuple[str, str]], raw: bytes, lineage_of: LineageReader
) -> Response:
    if mode == "batch":
        return _ingest_batch(inbox, headers, raw, lineage_of)
    one = (
        cloudevents.parse_binary(headers, raw)
        if mode == "binary"
        else cloudevents.parse_structured(media_types.read_json(raw))
    )
    ((id_, known),) = inbox.ingest([_traced(one, headers)], [lineage_of(one)])
    _count_received(mode, [known])
    return JSONResponse({"event": id_, "duplicate": known}, status_code=202)


def _traced(one: IncomingEvent, headers: Sequence[tuple[str, str]]) -> IncomingEvent:
    """An event with the trace context of its request, while traces are recorded."""
    if traces.recorder is None:
        return one
    return replace(one, extensions=trace_origins.with_header(one.extensions, headers) or {})


def _ingest_batch(
    inbox: Inbox, headers: Sequence[tuple[str, str]], raw: bytes, lineage_of: LineageReader
) -> Response:
    given = media_types.read_json(raw)
    if not isinstance(given, list) or len(given) > cloudevents.MAX_BATCH:
        raise Invalid(
            "this is no batch of events", f"a batch is a JSON array of at most {cloudevents.MAX_BATCH} events"
        )
    taken: list[IncomingEvent] = []
    faults: list[dict[str, Any]] = []
    for number, value in enumerate(given):
        try:
            one = cloudevents.parse_structured(value)
            inbox.check(one)
            taken.append(_traced(one, headers))
        except Invalid as error:
            faults.append({"index": number, "what": error.what, "why": error.why})
    if faults:
        _count_refused("batch", 400)
        return problem(
            400,
            title="the batch was not taken",
            detail=f"{len(faults)} of its {len(given)} events cannot be taken; none was",
            errors=faults[:MAX_LISTED_ERRORS],
        )
    answers = inbox.ingest(taken, [lineage_of(one) for one in taken]) if taken else []
    _count_received("batch", [known for _, known in answers])
    return JSONResponse(
        {"events": [{"event": id_, "duplicate": known} for id_, known in answers]}, status_code=202
    )


def _lineage_reader(
    tokens: LineageTokens, headers: Sequence[tuple[str, str]], now: datetime
) -> LineageReader:
    """Make the function that gives the execution which sent an event. It is named by the event's own attribute, which
    goes with it through other systems (the CloudEvents extension Distributed Tracing), or by the request."""
    of_request = tokens.verify(headers, now)

    def read(one: IncomingEvent) -> LineageToken | None:
        state = one.extensions.get(TRACESTATE)
        return (tokens.verify([(TRACESTATE, state)], now) if isinstance(state, str) else None) or of_request

    return read


def _count_refused(mode: str, status: int) -> None:
    server_metrics.events_received.labels(mode, "refused").inc()
    server_metrics.events_rejected.labels(server_metrics.rejection(status)).inc()


def _count_received(mode: str, known: Sequence[bool]) -> None:
    for result, count in (("duplicate", sum(known)), ("accepted", len(known) - sum(known))):
        if count:
            server_metrics.events_received.labels(mode, result).inc(count)
    if any(known):
        server_metrics.events_rejected.labels("duplicate").inc(sum(known))

"""``/stream``: changes of rows, log lines and the numbers of the top bar as server-sent events, while they happen."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, FastAPI, Header, Query, Request
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from functory.api import bounded_reads
from functory.api.access.authentication import still_valid
from functory.api.access.rights import Viewer
from functory.api.bounded_connection import allow_long_answer
from functory.api.engine import Engine
from functory.api.paging import StrictRoute
from functory.api.stream import topics as stream_topics
from functory.api.stream.bar import Bar
from functory.api.stream.feed import Feed, StreamRefused
from functory.api.stream.subscriber import Subscriber
from functory.client.functory import Functory
from functory.engine.executions import listing

router = APIRouter(prefix="/stream", tags=["stream"], route_class=StrictRoute)

# A client that reads nothing for this long is cut off.
READ_SECONDS = 30.0


@router.get(
    "",
    operation_id="stream.open",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Frames, until one side ends it."}},
)
@bounded_reads.unlimited
async def open_(
    request: Request,
    engine: Engine,
    caller: Viewer,
    topics: Annotated[
        str,
        Query(
            description="bar, executions, events, tree:<id>, execution:<id>, logs:<id>; with commas between."
        ),
    ],
    last_event_id: Annotated[
        str | None, Header(description="The id of the last frame, to go on behind it.")
    ] = None,
) -> Response:
    """Open a stream of changes. Open it before you read what it changes: from then on it leaves nothing out."""
    wanted = stream_topics.parse(topics)
    feed = _feed_of(request.app, engine)
    try:
        client = await feed.subscribe(caller, wanted, last_event_id)
    except StreamRefused as refused:
        raise HTTPException(429, str(refused), {"retry-after": "10"}) from None
    allow_long_answer(request.scope, READ_SECONDS)
    return _EventStream(feed, client)


def _feed_of(app: FastAPI, engine: Functory) -> Feed:
    """The feed of this application; the first stream makes it. Only called on the event loop."""
    feed: Feed | None = getattr(app.state, "feed", None)
    if feed is None:
        feed = app.state.feed = Feed(
            engine.database,
            still_valid=lambda caller: still_valid(engine, caller),
            visible=lambda ids, scope: listing.visible_ids(engine.database, ids, scope),
            bar=Bar(engine),
        )
    return feed


class _EventStream(StreamingResponse):
    """The frames of a client, which is forgotten when the connection ends, however it ends."""

    def __init__(self, feed: Feed, client: Subscriber) -> None:
        super().__init__(
            client.frames(),
            media_type="text/event-stream",
            # Proxies would collect the frames.
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._feed = feed
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.remove(self._client)

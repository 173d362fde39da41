"""Rows of webhooks: the source that a request is for, its rate, and the event that the request becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import pace, source
from functory.engine.database.transaction import Tx
from functory.engine.events import receipts
from functory.engine.events.receipts import IncomingEvent
from functory.engine.sources import store as source_store
from functory.engine.telemetry import metrics

CONTROL = "webhook"
# The source's row says when it last brought an event, to this precision: not every request rewrites it.
LAST_EVENT_PRECISION = timedelta(seconds=10)


@dataclass(frozen=True)
class WebhookRateLimit:
    """``limit`` events in ``period`` seconds, ``burst`` of them at once."""

    limit: int
    period: float
    burst: int


@dataclass(frozen=True)
class WebhookResult:
    """What a request came to: its event, new or ``duplicate``; or the seconds after which one is taken again."""

    event_id: str = ""
    duplicate: bool = False
    retry_after: float = 0.0


class Webhooks:
    """Webhooks as the server asks for them; :class:`functory.engine.sources.store.Sources` keeps what is configured."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # When each webhook's row was written here last, and which problem was cleared then.
        self._noted: dict[str, tuple[datetime, datetime | None]] = {}

    def all(self) -> list[dict[str, Any]]:
        """The rows of all webhooks that are not deleted, paused ones too."""
        with self._database.read() as tx:
            return tx.rows(sa.select(source).where(source.c.kind == "webhook", source.c.state != "deleted"))

    def generation(self) -> int:
        """A number that is another one after a change of sources or secrets that this process has heard of."""
        return self._database.wakeup.generation("sources")

    def ingest(
        self, row: Mapping[str, Any], arrival: IncomingEvent, rate_limit: WebhookRateLimit | None
    ) -> WebhookResult:
        """Write the event of a request, once for each key, within the rate. Returns when it is durable.

        What has come before is answered with its event, and costs nothing of the rate. Raises :class:`Unavailable`.
        """
        if rate_limit is None:
            taken = self._database.group_commit(lambda tx: self._ingest(tx, row, arrival, None))
        else:
            # Alone: a shared transaction would hold the rates of several webhooks, locked in any order.
            with self._database.write() as tx:
                taken = self._ingest(tx, row, arrival, rate_limit)
        if taken.event_id and not taken.duplicate:
            metrics.source_events.labels(metrics.kind_label(row["kind"])).inc()
        return taken

    def set_problem(self, source_id: str, problem: str) -> None:
        """Note why a request was not taken; the next one that is taken clears it."""
        with self._database.write() as tx:
            tx.execute(
                sa.update(source)
                .where(source.c.id == source_id)
                .values(problem=problem[:2000], problem_at=tx.now)
            )

    def _ingest(
        self, tx: Tx, row: Mapping[str, Any], arrival: IncomingEvent, rate: WebhookRateLimit | None
    ) -> WebhookResult:
        if rate is not None:
            before = None if arrival.key is None else receipts.find_event_id(tx, row["id"], arrival.key)
            if before is not None:
                return WebhookResult(before, duplicate=True)
            wait = _acquire_one(tx, row, rate)
            if wait > 0:
                return WebhookResult(retry_after=wait)
        (event_id,) = receipts.ingest(tx, row["id"], source_store.event_source(row), [arrival])
        if event_id is None:
            return WebhookResult(
                str(receipts.find_event_id(tx, row["id"], arrival.key or "")), duplicate=True
            )
        if self._worth_noting(tx.now, row):
            tx.execute(
                sa.update(source)
                .where(source.c.id == row["id"])
                .values(last_event_at=tx.now, problem=None, problem_at=None)
            )
        return WebhookResult(event_id)

    def _worth_noting(self, now: datetime, row: Mapping[str, Any]) -> bool:
        """Whether the row is to say that an event came: not each time, and at once when it tells of a problem."""
        written, cleared = self._noted.get(row["id"], (row["last_event_at"], None))
        if (
            written is not None
            and now - written <= LAST_EVENT_PRECISION
            and row["problem_at"] in (None, cleared)
        ):
            return False
        self._noted[row["id"]] = (now, row["problem_at"])
        return True


def seconds_until_allowed(
    next_allowed_at: datetime | None, now: datetime, limit: WebhookRateLimit
) -> tuple[float, datetime]:
    """GCRA (ITU-T I.371, virtual scheduling) for one request: the seconds until it conforms, 0 when it does, and
    the moment that is kept then."""
    step = limit.period / limit.limit
    moment = max(next_allowed_at or now, now)
    wait = (moment - now).total_seconds() - step * (limit.burst - 1)
    # A microsecond is what the database keeps of a moment.
    return (wait, moment) if wait > 1e-6 else (0.0, moment + timedelta(seconds=step))


def _acquire_one(tx: Tx, row: Mapping[str, Any], limit: WebhookRateLimit) -> float:
    """Take one from the webhook's rate, or say how long there is nothing to take."""
    place = (pace.c.trigger_id == row["id"], pace.c.control == CONTROL, pace.c.key == "")
    statement = sa.select(pace.c.next_at).where(*place).with_for_update()
    next_at = tx.scalar(statement)
    if next_at is None:
        first = {"trigger_id": row["id"], "control": CONTROL, "key": "", "text": row["name"], "dropped": 0}
        # Another server may write the row first: then it is waited for here.
        tx.insert_missing(pace, [first | {"next_at": tx.now}])
        next_at = tx.scalar(statement)
    wait, moment = seconds_until_allowed(next_at, tx.now, limit)
    if wait > 0:
        tx.execute(sa.update(pace).where(*place).values(dropped=pace.c.dropped + 1))
    else:
        tx.execute(sa.update(pace).where(*place).values(next_at=moment))
    return wait

"""Stored webhooks: the source of a request, its rate limit, and the event that the request becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import source
from functory.engine.database.transaction import Tx
from functory.engine.events import receipts
from functory.engine.events.lineage_tokens import LineageToken, find_cause
from functory.engine.events.receipts import IncomingEvent
from functory.engine.flow_control.controls import RateLimit
from functory.engine.flow_control.rate_limits import RateLimits
from functory.engine.serving_address import server_url
from functory.engine.settings import Settings
from functory.engine.sources import refusals
from functory.engine.sources import store as source_store
from functory.engine.telemetry import metrics

# Precision of ``last_event_at`` in the source's row: not every request rewrites the row.
LAST_EVENT_PRECISION = timedelta(seconds=10)


def webhook_url(settings: Settings, name: str) -> str:
    """Return the address of a webhook, as senders reach it."""
    base = (settings.public_url or server_url(settings)).rstrip("/")
    return f"{base}/webhooks/{name}"


@dataclass(frozen=True)
class WebhookResult:
    """The result of a request: its event, new or ``duplicate``, or the seconds until the next one is allowed."""

    event_id: str = ""
    duplicate: bool = False
    retry_after: float = 0.0


class Webhooks:
    """Reads webhooks and ingests their requests, for the server."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # By webhook: when this process last wrote its row, and the time of the problem that it cleared.
        self._noted: dict[str, tuple[datetime, datetime | None]] = {}

    def all(self) -> list[dict[str, Any]]:
        """Return the rows of all webhooks that are not deleted, including paused ones."""
        with self._database.read() as tx:
            return tx.rows(sa.select(source).where(source.c.kind == "webhook", source.c.state != "deleted"))

    def generation(self) -> int:
        """Return a number that changes after each change of sources or secrets that reaches this process."""
        return self._database.wakeup.generation("sources")

    def ingest(
        self,
        row: Mapping[str, Any],
        arrival: IncomingEvent,
        rate_limit: RateLimit | None,
        lineage: LineageToken | None = None,
    ) -> WebhookResult:
        """Write the event of a request, once for each key, within the rate limit. Returns when it is durable.

        A repeated key is answered with its event and does not count towards the limit. ``lineage`` names the execution
        that made the request. Raises :class:`Unavailable`.
        """
        if rate_limit is None:
            with metrics.transaction("ingest"):
                taken = self._database.group_commit(lambda tx: self._ingest(tx, row, arrival, None, lineage))
        else:
            # Alone: a shared transaction would lock the rate limits of several webhooks in any order.
            with metrics.transaction("ingest"), self._database.write() as tx:
                taken = self._ingest(tx, row, arrival, rate_limit, lineage)
        if taken.event_id and not taken.duplicate:
            metrics.source_events.labels(metrics.kind_label(row["kind"])).inc()
        return taken

    def record_refusals(self, source_id: str, problem: str, numbers: Mapping[str, int]) -> None:
        """Store why a request was refused, and count it with others by reason
        (:data:`functory.engine.sources.refusals.REASONS`); the next accepted one clears the problem.
        """
        with self._database.write() as tx:
            tx.execute(
                sa.update(source)
                .where(source.c.id == source_id)
                .values(
                    problem=problem[:2000],
                    problem_at=tx.now,
                    **refusals.counted(tx, source_id, numbers),
                )
            )

    def _ingest(
        self,
        tx: Tx,
        row: Mapping[str, Any],
        arrival: IncomingEvent,
        limit: RateLimit | None,
        lineage: LineageToken | None,
    ) -> WebhookResult:
        if limit is not None:
            before = receipts.find_event_id(tx, row["id"], arrival)
            if before is not None:
                return WebhookResult(before, duplicate=True)
            limits = RateLimits(tx, "webhook", [(row["id"], limit)])
            retry_after = limits.acquire(row["id"], limit)
            limits.write()
            if retry_after:
                return WebhookResult(retry_after=retry_after)
        if lineage is not None:
            arrival = replace(arrival, cause=find_cause(tx, lineage))
        (event_id,) = receipts.ingest(tx, row["id"], source_store.event_source(row), [arrival])
        if event_id is None:
            return WebhookResult(str(receipts.find_event_id(tx, row["id"], arrival)), duplicate=True)
        if self._worth_noting(tx.now, row):
            tx.execute(
                sa.update(source)
                .where(source.c.id == row["id"])
                .values(last_event_at=tx.now, problem=None, problem_at=None)
            )
        return WebhookResult(event_id)

    def _worth_noting(self, now: datetime, row: Mapping[str, Any]) -> bool:
        """Return True when the row needs a new ``last_event_at``: now and then, and at once when the row has a
        problem.
        """
        written, cleared = self._noted.get(row["id"], (row["last_event_at"], None))
        if (
            written is not None
            and now - written <= LAST_EVENT_PRECISION
            and row["problem_at"] in (None, cleared)
        ):
            return False
        self._noted[row["id"]] = (now, row["problem_at"])
        return True

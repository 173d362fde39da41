"""Embedder: a service that has vectors made of memories and functions, so that a search finds them by their meaning."""

from __future__ import annotations

import structlog

from functory.engine.agents.embedding_calls import EmbeddingCalls
from functory.engine.database.connection import Database
from functory.engine.service import Service
from functory.engine.settings import Settings

log = structlog.get_logger("functory.embedder")

# Seconds between two looks: usually, while calls are on their way, and after one that failed.
USUAL_SECONDS, BUSY_SECONDS, FAILED_SECONDS = 10.0, 0.5, 300.0
# Rounds after which all texts are looked at again: other processes have calls that failed, too.
ROUNDS = 60


class Embedder(Service):
    """Queues calls for what has no vector yet, and stores what they return. Without ``embedding_model`` it only stores
    what was asked for before.
    """

    name, topic, poll_seconds = "embedder", None, USUAL_SECONDS

    def __init__(self, database: Database, settings: Settings) -> None:
        self._calls = EmbeddingCalls(database, settings)
        self._monotonic = database.clock.monotonic
        self._rest_until = 0.0
        self._rounds = 0
        self._is_busy = False

    def run_once(self) -> bool:
        """Store and queue some. Always False: what is queued waits for a gateway. Raises :class:`Unavailable`."""
        self._rounds += 1
        if self._rounds % ROUNDS == 0:
            self._calls.look_at_all()
        _, failed = self._calls.store_ended()
        if failed:
            log.warning("calls for embeddings failed", calls=failed, retry_in=FAILED_SECONDS)
            self._rest_until = self._monotonic() + FAILED_SECONDS
        if self._monotonic() >= self._rest_until:
            self._calls.queue_missing()
        self._is_busy = self._calls.open_calls() > 0
        return False

    def next_due(self) -> float | None:
        """Return the seconds until the next look."""
        return BUSY_SECONDS if self._is_busy else None

"""The batch publisher: publishes events from the memory of the process that has just written them.

    with database.write() as tx:
        ...
        publisher.put(tx, rows)

The transaction writes one row of the outbox for the batch, with a claim. After the commit a thread publishes the batch
and waits once for all its confirms, while the writer goes on. The row is deleted in the writer's next transaction, or
by the thread when no other comes. After a crash or a failure the claim ends, and any outbox publisher
(:mod:`functory.engine.maintenance.outbox_publisher`) publishes the batch from the database.

Batches are published in the order of their commits. When the broker fails, or cannot keep up, batches stay in the
database until nothing waits there any more, and until others have published what this process has left to them: a batch
of the memory never overtakes one that waits. Nor does one that is left to others overtake those of the memory: its
claim ends when they have been published.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from functory.engine import threads
from functory.engine.database.connection import Database, Tx
from functory.engine.errors import Unavailable
from functory.engine.events import outbox
from functory.engine.events.event_row import EventRow
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics

log = structlog.get_logger("functory.publisher")

# Most events that wait for the broker in memory.
MAX_EVENTS = 4000
# Most events of one round: they are encoded and confirmed together.
ROUND_EVENTS = 500
# A batch waits this long (seconds) for the next ones. The start and the end of a short execution then cost one round
# and one wait for the broker, and the thread that has written the batch first does what executions wait for.
LINGER_SECONDS = 0.004
# Rows of confirmed batches are deleted in the writer's next transaction; after this time (seconds) in one of their own.
DELETE_SECONDS = 0.25
# After a failure: events are left to the outbox for this time (seconds).
RETRY_SECONDS = 1.0
# A sweep waits this long (seconds) for older batches of the memory.
SWEEP_WAIT_SECONDS = 10.0
# At the end: how long (seconds) the last batches may take.
CLOSE_SECONDS = 3.0


class Publisher(Protocol):
    """What sends events to the broker; see :class:`functory.engine.events.exchange.EventPublisher`."""

    def publish(self, rows: Sequence[EventRow]) -> Sequence[int]:
        """Send events in order, and wait until the broker has confirmed them. Returns the sizes of the messages."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True)
class Batch:
    """Events of a committed transaction, and their rows in the outbox.

    ``era`` is the number of failures before the transaction began.
    """

    outbox_ids: Sequence[str]
    rows: Sequence[EventRow]
    era: int


@dataclass
class _Mode:
    """How the batches of an open transaction are published: from memory (``direct``) or by others. ``looked``: it had
    to ask the database. ``failures`` is the number of failures before. ``held_back``: others may have them only when
    nothing is left in the memory.
    """

    direct: bool
    looked: bool
    failures: int
    held_back: bool = False


class PublishesEvents(Protocol):
    """How a process publishes the events that its transactions write or route."""

    def put(self, tx: Tx, rows: Sequence[EventRow]) -> None:
        """Let these events be published, in order, when the transaction has committed."""
        ...


class OutboxOnly:
    """Leaves all events to the outbox publisher."""

    def put(self, tx: Tx, rows: Sequence[EventRow]) -> None:
        """See :class:`PublishesEvents`."""
        outbox.put(tx, [row.id for row in rows])


class NotPublished:
    """Publishes nothing: there is no broker that a subscriber could reach."""

    def put(self, tx: Tx, rows: Sequence[EventRow]) -> None:
        """Do nothing."""


def without_thread(settings: Settings) -> PublishesEvents:
    """Return how a process without a batch publisher publishes."""
    return OutboxOnly() if settings.publishes else NotPublished()


class BatchPublisher:
    """Publishes the batches of this process in a thread. Safe to use from many threads.

    ``monotonic`` is the clock of its pauses, in seconds.
    """

    def __init__(
        self,
        database: Database,
        publisher: Publisher,
        claim_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._claim_seconds = claim_seconds
        self._monotonic = monotonic
        self._database = database
        self._publisher = publisher
        self._changed = threading.Condition()
        self._waiting: deque[Batch] = deque()
        self._waiting_events = 0
        self._confirmed: list[str] = []
        self._confirmed_at = 0.0
        # False while older batches may wait in the database. Then a transaction has to look.
        self._direct = False
        # Open transactions whose batches are left to others, as far as it is known.
        self._indirect = 0
        # Batches that others may have when nothing is left in the memory.
        self._held_back: list[str] = []
        # The first and the last id of the batches that were left to others; None when they have been published.
        self._left: tuple[str, str] | None = None
        # By the id of the transaction.
        self._modes: dict[int, _Mode] = {}
        # Older batches are being published from the database.
        self._sweeping = 0
        self._failures = 0
        self._failed_at = -RETRY_SECONDS
        self._publishing = False
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, tx: Tx, rows: Sequence[EventRow]) -> None:
        """See :class:`PublishesEvents`: from memory, if no older batch waits in the database."""
        if not rows:
            return
        mode = self._modes.get(id(tx)) or self._begin(tx)
        confirmed = self._take_confirmed(tx)
        event_ids = [row.id for row in rows]
        seconds = self._claim_seconds if mode.direct or mode.held_back else None
        ids = outbox.put(tx, event_ids, claim_seconds=seconds)
        if mode.direct:
            tx.at_end(lambda committed: self._add(Batch(ids, rows, mode.failures)) if committed else None)
        elif mode.held_back:
            tx.at_end(lambda committed: self._hold_back(ids) if committed else None)
        else:
            tx.at_end(lambda committed: self._leave(ids) if committed else None)
        if confirmed:
            outbox.mark_published(tx, confirmed)

    def _begin(self, tx: Tx) -> _Mode:
        """Decide how the batches of a transaction are published."""
        with self._changed:
            if self._closed or self._waiting_events >= MAX_EVENTS:
                self._direct = False
            mode = _Mode(self._direct, not self._direct, self._failures)
            self._indirect += not mode.direct
            self._modes[id(tx)] = mode

        def end(committed: bool) -> None:
            with self._changed:
                del self._modes[id(tx)]
                self._indirect -= not mode.direct
                if committed and mode.looked and mode.direct and mode.failures == self._failures:
                    # What others have to publish before is known: nothing, and no open transaction adds to it.
                    self._direct = not self._indirect and self._left is None and not self._sweeping

        tx.at_end(end)
        if mode.looked and self._may_publish(tx):
            with self._changed:
                mode.direct = True
                self._indirect -= 1
        elif mode.looked:
            with self._changed:
                mode.held_back = self._in_memory()
        return mode

    def _take_confirmed(self, tx: Tx) -> list[str]:
        """Take the rows of confirmed batches, which this transaction deletes."""
        with self._changed:
            confirmed, self._confirmed = self._confirmed, []

        def end(committed: bool) -> None:
            if not committed:
                with self._changed:
                    self._confirmed += confirmed

        if confirmed:
            tx.at_end(end)
        return confirmed

    def _may_publish(self, tx: Tx) -> bool:
        """Return True when no older batch waits in the database."""
        with self._changed:
            rested = self._monotonic() - self._failed_at >= RETRY_SECONDS
            if self._sweeping or not rested or self._closed or self._waiting_events >= MAX_EVENTS:
                return False
            left = self._left
        if outbox.has_unclaimed(tx) or (left is not None and outbox.has_any(tx, *left)):
            return False
        with self._changed:
            if self._left == left:
                self._left = None
        return True

    def _leave(self, ids: Sequence[str]) -> None:
        """Remember batches that others publish."""
        with self._changed:
            first, last = self._left or (ids[0], ids[0])
            self._left = min(first, *ids), max(last, *ids)

    def _hold_back(self, ids: Sequence[str]) -> None:
        """Leave batches to others as soon as nothing is left in the memory."""
        self._leave(ids)
        with self._changed:
            self._held_back += ids
            self._wake_thread()

    def _in_memory(self) -> bool:
        return bool(self._waiting or self._held_back) or self._publishing

    def _add(self, batch: Batch) -> None:
        """Let the thread publish a batch."""
        with self._changed:
            self._waiting.append(batch)
            self._waiting_events += len(batch.rows)
            self._wake_thread()

    def _wake_thread(self) -> None:
        if self._thread is None:
            self._thread = threads.try_start(self._run, "functory-publish")
        self._changed.notify_all()

    @contextlib.contextmanager
    def sweeping(self) -> Iterator[None]:
        """Publish batches from the database: meanwhile batches of the memory do not overtake them, nor they those."""
        with self._changed:
            self._sweeping += 1
            if not self._direct:
                self._changed.wait_for(lambda: not self._waiting and not self._publishing, SWEEP_WAIT_SECONDS)
        try:
            yield
        finally:
            with self._changed:
                self._sweeping -= 1

    def close(self) -> None:
        """Publish what waits, for at most ``CLOSE_SECONDS``, and leave the rest to others."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS)
        with contextlib.suppress(Unavailable):
            self._release()
            self._delete_confirmed()
        self._publisher.close()

    def wait_until_published(self, timeout: float = 10.0) -> bool:
        """Wait until no batch is in memory. Returns whether that came true in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_memory(), timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting and self._closed:
                    return
                if not self._waiting and not self._held_back:
                    self._changed.wait(self._pause())
                if self._waiting and self._waiting_events < ROUND_EVENTS:
                    self._changed.wait_for(self._is_urgent, LINGER_SECONDS)
                batches = self._take()
            try:
                if batches:
                    self._publish(batches)
                elif self._held_back:
                    self._release()
                elif self._pause() == 0.0:
                    self._delete_confirmed()
            except Unavailable as error:
                log.debug("the database is unavailable, rows of the outbox stay", why=error.why)
                self._rest()
            except Exception:
                log.exception("a batch could not be published, it waits in the outbox")
                self._rest()

    def _is_urgent(self) -> bool:
        return self._closed or self._waiting_events >= ROUND_EVENTS

    def _rest(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, RETRY_SECONDS)

    def _pause(self) -> float | None:
        """Return the seconds until confirmed batches are to be deleted; None when there are none."""
        if not self._confirmed:
            return None
        return max(0.0, DELETE_SECONDS - (self._monotonic() - self._confirmed_at))

    def _take(self) -> list[Batch]:
        batches: list[Batch] = []
        count = 0
        while self._waiting and (not batches or self._fits(batches[0], count)):
            batches.append(self._waiting.popleft())
            count += len(batches[-1].rows)
        self._waiting_events -= count
        self._publishing = bool(batches)
        return batches

    def _fits(self, first: Batch, count: int) -> bool:
        following = self._waiting[0]
        return following.era == first.era and count + len(following.rows) <= ROUND_EVENTS

    def _publish(self, batches: Sequence[Batch]) -> None:
        try:
            if batches[0].era < self._failures:
                # Older ones wait in the database.
                self._release(batches)
                return
            try:
                publish(self._publisher, [row for batch in batches for row in batch.rows])
            except Unavailable as error:
                log.warning("the broker is unavailable, events wait in the outbox", why=error.why)
                with self._changed:
                    self._direct, self._failed_at = False, self._monotonic()
                    self._failures += 1
                    self._leave([id_ for batch in batches for id_ in batch.outbox_ids])
                self._release(batches)
                return
            with self._changed:
                self._confirmed += [id_ for batch in batches for id_ in batch.outbox_ids]
                self._confirmed_at = self._monotonic()
        finally:
            with self._changed:
                self._publishing = False
                self._changed.notify_all()

    def _release(self, batches: Sequence[Batch] = ()) -> None:
        """Leave these batches and all that wait in memory to others, and what was held back because of them."""
        with self._changed:
            left = [id_ for batch in (*batches, *self._waiting) for id_ in batch.outbox_ids]
            self._waiting.clear()
            self._waiting_events = 0
            if left:
                self._leave(left)
            # Until the database has it: what comes meanwhile is held back, too.
            self._held_back[:0] = left
            ids = [*self._held_back]
        if ids:
            with self._database.write() as tx:
                outbox.claim(tx, ids, None)
            with self._changed:
                del self._held_back[: len(ids)]
                self._changed.notify_all()

    def _delete_confirmed(self) -> None:
        with self._changed:
            ids, self._confirmed = self._confirmed, []
        if not ids:
            return
        try:
            with self._database.write() as tx:
                outbox.mark_published(tx, ids)
        except BaseException:
            with self._changed:
                self._confirmed += ids
                self._confirmed_at = self._monotonic()
            raise


def publish(publisher: Publisher, rows: Sequence[EventRow]) -> None:
    """Publish events and count them. Raises :class:`Unavailable`."""
    start = time.perf_counter()
    try:
        sizes = publisher.publish(rows)
    except Exception:
        metrics.outbox_publish.labels("error").observe(time.perf_counter() - start)
        raise
    metrics.outbox_publish.labels("ok").observe(time.perf_counter() - start)
    for row in rows:
        metrics.events_published.labels(metrics.type_label(row.type)).inc()
    for size in sizes:
        metrics.event_size.observe(size)

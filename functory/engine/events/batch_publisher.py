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
claim ends when they have been published. :mod:`functory.engine.events.batch_ways` decides which way a batch takes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import structlog

from functory.engine import threads
from functory.engine.database.connection import Database, Tx
from functory.engine.errors import Unavailable
from functory.engine.events import outbox
from functory.engine.events.batch_ways import BatchWays, Passage, Way
from functory.engine.events.event_publishing import Publisher, publish
from functory.engine.events.event_row import EventRow

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


@dataclass(frozen=True)
class Batch:
    """Events of a committed transaction, their rows in the outbox, and the era in which it began."""

    outbox_ids: Sequence[str]
    rows: Sequence[EventRow]
    era: int


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
        self._ways = BatchWays()
        # Batches that others may have when nothing is left in the memory.
        self._held_back: list[str] = []
        # True while the broker is asked to take a round.
        self._publishing = False
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, tx: Tx, rows: Sequence[EventRow]) -> None:
        """Let these events be published after the commit: from memory, if no older batch waits in the database."""
        if not rows:
            return
        passage = self._ways.of(id(tx)) or self._begin(tx)
        confirmed = self._take_confirmed(tx)
        event_ids = [row.id for row in rows]
        seconds = None if passage.way is Way.LEFT else self._claim_seconds
        ids = outbox.put(tx, event_ids, claim_seconds=seconds)
        tx.at_end(lambda committed: self._send_off(passage, ids, rows) if committed else None)
        if confirmed:
            outbox.mark_published(tx, confirmed)

    def _begin(self, tx: Tx) -> Passage:
        """Decide which way the batches of a transaction take."""
        with self._changed:
            room = not self._closed and self._waiting_events < MAX_EVENTS
            passage = self._ways.begin(id(tx), room=room)
            asks = passage.way is Way.LEFT and room and self._ways.may_ask(self._monotonic())
            left = self._ways.left

        def end(committed: bool) -> None:
            with self._changed:
                self._ways.end(id(tx), committed=committed)

        tx.at_end(end)
        if passage.way is Way.LEFT:
            waits = not asks or outbox.has_unclaimed(tx) or (left is not None and outbox.has_any(tx, *left))
            with self._changed:
                if waits:
                    self._ways.may_wait(passage, memory_in_use=self._in_memory())
                else:
                    self._ways.found_none(passage, left)
        return passage

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

    def _send_off(self, passage: Passage, ids: Sequence[str], rows: Sequence[EventRow]) -> None:
        """Let a committed batch take its way."""
        with self._changed:
            if passage.way.from_memory:
                self._waiting.append(Batch(ids, rows, passage.era))
                self._waiting_events += len(rows)
            else:
                self._ways.leave(ids)
            if passage.way is Way.HELD_BACK:
                self._held_back += ids
            if passage.way is not Way.LEFT:
                self._wake_thread()

    def _in_memory(self) -> bool:
        return bool(self._waiting or self._held_back) or self._publishing

    def _wake_thread(self) -> None:
        if self._thread is None:
            self._thread = threads.try_start(self._run, "functory-publish")
        self._changed.notify_all()

    @contextlib.contextmanager
    def sweeping(self) -> Iterator[None]:
        """Publish batches from the database: meanwhile batches of the memory do not overtake them, nor they those."""
        with self._changed:
            self._ways.begin_sweep()
            if not self._ways.sure:
                self._changed.wait_for(lambda: not self._waiting and not self._publishing, SWEEP_WAIT_SECONDS)
        try:
            yield
        finally:
            with self._changed:
                self._ways.end_sweep()

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
            if batches[0].era < self._ways.era:
                # Older ones wait in the database.
                self._release(batches)
                return
            try:
                publish(self._publisher, [row for batch in batches for row in batch.rows])
            except Unavailable as error:
                log.warning("the broker is unavailable, events wait in the outbox", why=error.why)
                with self._changed:
                    self._ways.rest(self._monotonic() + RETRY_SECONDS)
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
                self._ways.leave_memory(left)
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

"""Wake-up signals: a hint that there may be work, never the work itself.

A role waits on a topic (one of ``TOPICS``) for at most its poll interval. A transaction signals its topics after the
commit. A lost wake-up costs one poll interval.

Threads of one process share a condition variable; :mod:`functory.engine.database.notifications` connects processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

# PostgreSQL: the beginning of the names of the channels, and the channel of wake-ups that name their topics.
CHANNEL = "functory_wakeup"
TOPICS = (
    "access", "answers", "backtests", "batches", "cancels", "events", "executions", "finished", "flow", "gate", "llm",
    "logs", "outbox", "sagas", "sources",
)  # fmt: skip


def channel(topic: str) -> str:
    """Return PostgreSQL's channel of a topic: a process is not woken for what it does not wait for."""
    return f"{CHANNEL}_{topic}"


class Wakeup:
    """Topics with a generation number each: a signal raises it, a waiter waits for a newer one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The waiting threads by topic: a signal wakes no thread that waits for something else.
        self._waiting: dict[str, list[threading.Condition]] = {topic: [] for topic in TOPICS}
        self._generation: dict[str, int] = dict.fromkeys(TOPICS, 0)
        # The topics that this process has asked for, and what is called when there is a new one.
        self.wanted: set[str] = set()
        self.on_wanted: Callable[[], None] = lambda: None
        # Factor of the poll interval of roles; above 1 only while wake-ups of other processes arrive
        # (``functory.engine.database.notifications``).
        self.poll_multiplier = 1.0

    def signal(self, topics: Iterable[str]) -> None:
        """Wake every waiter of ``topics`` in this process."""
        topics = [topic for topic in topics if topic in self._generation]
        if not topics:
            return
        with self._lock:
            for topic in topics:
                self._generation[topic] += 1
                for waiting in self._waiting[topic]:
                    waiting.notify()

    def generation(self, *topics: str) -> int:
        """Return the number of the topics now. Read it *before* looking for work and pass it to :meth:`wait`."""
        if not self.wanted.issuperset(topics):
            self.wanted.update(topics)
            self.on_wanted()
        return self._sum(topics)

    def wait(self, topic: str | Sequence[str], seen: int, timeout: float) -> int:
        """Return as soon as one of the topics is newer than ``seen``, at the latest after ``timeout`` seconds."""
        topics = (topic,) if isinstance(topic, str) else topic
        deadline = time.monotonic() + timeout
        with self._lock:
            if self._sum(topics) == seen:
                self._wait(topics, seen, deadline)
            return self._sum(topics)

    def _sum(self, topics: Sequence[str]) -> int:
        return sum(self._generation[topic] for topic in topics)

    def _wait(self, topics: Sequence[str], seen: int, deadline: float) -> None:
        woken = threading.Condition(self._lock)
        for topic in topics:
            self._waiting[topic].append(woken)
        try:
            while self._sum(topics) == seen:
                left = deadline - time.monotonic()
                if left <= 0 or not woken.wait(left):
                    break
        finally:
            for topic in topics:
                self._waiting[topic].remove(woken)

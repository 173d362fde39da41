"""Live feed of ``functory dev``: one line per event.

The lines come from the event rows, so the feed covers every process that shares the data file.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from functory.client.functory import Functory
from functory.engine.errors import FunctoryError
from functory.engine.events.store import RESERVED
from functory.engine.serialization.control_characters import one_line

# Events that are read at a time. A larger burst is not shown in full.
PAGE = 100
MAX_SEEN_IDS = 2000

_FAILURE_TYPES = (
    "execution.failed",
    "execution.timed_out",
    "execution.dead",
    "execution.expired",
    "worker.lost",
    "trigger.failed",
)
_HIDDEN_TYPES = ("execution.started",)
# Events for the router wake the first one; those that need no router come with the end of an attempt.
_TOPICS = ("events", "executions", "finished")


class EventFeed:
    """Calls ``show(line)`` for each event after :meth:`start`, on a thread of its own."""

    def __init__(self, functory: Functory) -> None:
        self._functory = functory
        self._seen: deque[str] = deque(maxlen=MAX_SEEN_IDS)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, show: Callable[[str], None]) -> None:
        """Show events from now on."""
        self._seen.extend(row["id"] for row in self._functory.events.list(limit=PAGE))
        self._thread = threading.Thread(target=self._watch, args=(show,), name="functory-feed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show the remaining events, then stop."""
        self._stopping.set()
        self._functory.database.wakeup.signal(["events"])
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _watch(self, show: Callable[[str], None]) -> None:
        wakeup = self._functory.database.wakeup
        while True:
            last = self._stopping.is_set()
            generation = wakeup.generation(*_TOPICS)
            try:
                self._show_new(show)
            except FunctoryError:
                # The roles log an unavailable database; the next round shows the missed events.
                self._stopping.wait(1.0)
            if last:
                return
            wakeup.wait(_TOPICS, generation, 1.0)

    def _show_new(self, show: Callable[[str], None]) -> None:
        seen = set(self._seen)
        page = self._functory.events.list(limit=PAGE, payloads=True)
        rows = [row for row in reversed(page) if row["id"] not in seen]
        if len(rows) == PAGE and seen:
            show(f"  {'':8}  … more events than lines; functory event list shows all")
        for row in rows:
            self._seen.append(row["id"])
            if row["type"] not in _HIDDEN_TYPES:
                show(format_event(row))


def format_event(row: Mapping[str, Any]) -> str:
    """Format an event: local time, mark, type, subject."""
    mark = "✗" if row["type"] in _FAILURE_TYPES else "■" if row["type"] == "trigger.suppressed" else " "
    time = row["time"].astimezone().strftime("%H:%M:%S")
    return f"  {time}  {mark} {_sanitize(row['type']):<26} {_sanitize(_event_summary(row))}".rstrip()


def _event_summary(row: Mapping[str, Any]) -> str:
    data = row["data"] if isinstance(row["data"], Mapping) else {}
    family = row["type"].split(".")[0]
    if family == "execution":
        parts = [f"{data.get('function')} v{data.get('version')}"]
        if data.get("duration_seconds") is not None:
            parts.append(f"{data['duration_seconds'] * 1000:.0f} ms")
        error = data.get("error")
        if isinstance(error, Mapping):
            parts.append(f"{error.get('type')}: {error.get('message')}")
        return "  ".join(parts)
    if row["type"] == "trigger.suppressed":
        return (
            f"{data.get('trigger')}  stopped by {data.get('reason')} (limit {data.get('limit')})  "
            + " → ".join(data.get("chain") or ())
        )
    if row["type"] == "trigger.failed":
        many = f"  ({data['count']} failed matches)" if data.get("count", 1) > 1 else ""
        return f"{data.get('trigger')}  {data.get('reason')}: {data.get('error')}{many}"
    if family == "function" and data.get("version") is not None:
        return f"{row['subject']} v{data['version']}"
    return (
        ""
        if row["subject"] is None
        else str(row["subject"])
        if family in RESERVED
        else f"subject {row['subject']}"
    )


def _sanitize(text: str) -> str:
    """Cut to 160 characters without control characters: names and messages come from outside."""
    cut = text if len(text) <= 160 else text[:159] + "…"
    return one_line(cut)

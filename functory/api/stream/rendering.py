"""The changed rows of one turn as frames: made once for all clients that see the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.api.access.rights import Caller
from functory.api.redaction import hide
from functory.api.stream import frames
from functory.api.stream.subscriber import Frame, Subscriber
from functory.api.stream.topics import Topic, rows_for
from functory.engine.executions.changes import Changes
from functory.rows.events import PAYLOADS_OF_ROW, EventRow
from functory.rows.executions import ExecutionRow, LogLine

# What decides how rows are shown: whether the caller reads payloads, and its labels.
View = tuple[bool, tuple[str, ...] | None]
# A page or a change of a list is not larger than this.
MAX_ROWS_OF_A_FRAME = 500


class Rendering:
    """The frames of changed events and executions. Rows are read when a client needs them."""

    def __init__(self, changes: Changes, events: Sequence[str], executions: Sequence[str], at: str) -> None:
        self._changes = changes
        self._events, self._executions = events, executions
        self._at = at
        self._rows: dict[View, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
        self._frames: dict[tuple[View, str], list[Frame]] = {}

    def frames(self, client: Subscriber) -> list[Frame]:
        """Return what the client gets of the changes."""
        if not self._events and not self._executions:
            return []
        return [frame for topic in client.topics for frame in self._of_topic(client.caller, topic)]

    def _of_topic(self, caller: Caller, topic: Topic) -> list[Frame]:
        if topic.kind in ("bar", "logs"):
            return []
        key = (view_of(caller), topic.text)
        if key not in self._frames:
            given = rows_for(topic, *self._of_view(caller))
            self._frames[key] = [
                Frame(frames.rows(topic.text, part, self._at), topic.text, len(part))
                for start in range(0, len(given), MAX_ROWS_OF_A_FRAME)
                if (part := given[start : start + MAX_ROWS_OF_A_FRAME])
            ]
        return self._frames[key]

    def _of_view(self, caller: Caller) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        view = view_of(caller)
        if view not in self._rows:
            events = self._changes.events(self._events, caller.labels)
            executions = self._changes.executions(self._executions, caller.labels)
            self._rows[view] = (
                [_shown(EventRow, "event", hide(caller, row, *PAYLOADS_OF_ROW)) for row in events],
                [_shown(ExecutionRow, "execution", hide(caller, row, "about")) for row in executions],
            )
        return self._rows[view]


def view_of(caller: Caller) -> View:
    """Return what two callers have in common that get the same frames."""
    return caller.reads_payloads, caller.labels


def lines(caller: Caller, topic: Topic, rows: Sequence[Mapping[str, Any]], at: str) -> Frame:
    """Return the frame of log lines."""
    shown = [LogLine.model_validate(hide(caller, row, "text")).model_dump(mode="json") for row in rows]
    return Frame(frames.frame("log", {"execution": topic.id_, "lines": shown}, at), topic.text, len(rows))


def resync(topic: Topic, at: str) -> Frame:
    """Return the frame that asks the client to read anew what it shows of a topic."""
    return Frame(frames.frame("resync", {"topic": topic.text}, at), topic.text)


def skipped(topic: Topic, number: int, at: str) -> Frame:
    """Return the frame that says how many rows of a list were left out."""
    return Frame(frames.frame("skipped", {"topic": topic.text, "n": number}, at), topic.text, number)


def _shown(form: type[EventRow] | type[ExecutionRow], kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    # A tree has rows of both kinds.
    return {"kind": kind} | form.model_validate(row).model_dump(mode="json")

"""Reads what has changed since the last turn, and hands it to the clients of the stream.

Ids are made before the commit, so the rows behind the highest id are not all that is new: each turn looks at the ids of
the last seconds, and leaves out those that it has taken before. Rows are whole and read anew, so that a row that comes
twice is harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from functory.api.stream import frames, rendering
from functory.api.stream.rendering import Rendering
from functory.api.stream.subscriber import Frame, Subscriber
from functory.api.stream.topics import LISTS, Topic
from functory.api.stream.window import LONG_LOOK_EVERY, LONG_SECONDS, Window
from functory.engine.access.scopes import Scope
from functory.engine.database.clock import lowest_id
from functory.engine.executions.changes import Changes, Touched
from functory.engine.telemetry import server_metrics

# Each turn looks this far back; every few seconds one looks as far as the window remembers.
SHORT_SECONDS = 5.0
# Rows of one turn. The others are counted, and said to be left out.
MAX_ROWS = 500
# Ids of one look: what fifty seconds of a busy installation make.
MAX_IDS = 300_000
# Rows of a gap over which a client resumes. With more of them it reads anew.
MAX_RESUMED = 2000
# Lines of one execution in one turn, and those that a new stream begins with.
MAX_LINES, FIRST_LINES = 500, 200
# Events that no router has decided about are looked at again: at most this number of them, for this time (seconds).
MAX_PENDING, PENDING_SECONDS = 2000, 60.0
# The numbers of the top bar are read this often (seconds).
BAR_SECONDS = 1.0


@dataclass(frozen=True)
class _Look:
    """What a look has found: the new ids, the newest first, at a time and with its cursor."""

    now: datetime
    at: str
    events: Sequence[str]
    executions: Sequence[str]
    complete: bool
    long_look_at: float


class Reader:
    """What was read so far. Its methods are called by one thread.

    ``bar`` returns the numbers of the top bar in a scope, ``monotonic`` is a clock in seconds, ``send`` gives a client
    the frames of a turn and its cursor.
    """

    def __init__(
        self,
        changes: Changes,
        bar: Callable[[Scope], Mapping[str, Any]],
        monotonic: Callable[[], float],
        send: Callable[[Subscriber, Sequence[Frame], str], None],
    ) -> None:
        self._changes = changes
        self._bar = bar
        self._monotonic = monotonic
        self._send = send
        self._bar_at = float("-inf")
        # The last numbers by scope.
        self._bars: dict[tuple[str, ...] | None, bytes] = {}
        self.forget()

    def forget(self) -> None:
        """Begin anew: no client was sent anything."""
        self._window = Window()
        # Events without a decision, and until when they are looked at.
        self._pending: dict[str, float] = {}
        self._read_at: datetime | None = None
        self._long_look_at = float("-inf")

    @property
    def waits(self) -> bool:
        """True while something is expected that sends no wake-up."""
        return bool(self._pending)

    def turn(self, clients: Sequence[Subscriber], new: Sequence[Subscriber]) -> bool:
        """Send changes to all clients; ``new`` ones also get what they have missed. True when more is left to read.

        After an error nothing was sent, and the next turn reads the same again.
        """
        look = self._look()
        out: dict[Subscriber, list[Frame]] = {client: [] for client in (*clients, *new)}
        if not look.complete:
            for client, found in out.items():
                found += [
                    rendering.resync(topic, look.at)
                    for topic in client.topics
                    if topic.kind not in ("bar", "logs")
                ]
        # What was there before the first client came is no change.
        self._add_changes(out, look if self._read_at is not None else replace(look, events=[], executions=[]))
        for client in new:
            out[client] += self._missed(client, look)
        positions, more = self._add_lines(out, look.at)
        self._add_bar(out, new, look.at)
        self._remember(look)
        for client, id_, position in positions:
            client.lines[id_] = position
        for client, found in out.items():
            self._send(client, found, look.at)
        return more

    def _look(self) -> _Look:
        """Read the ids that are new."""
        clock = self._monotonic()
        is_long = clock - self._long_look_at >= LONG_LOOK_EVERY
        seconds = LONG_SECONDS if is_long else SHORT_SECONDS
        # After an outage of the database, the look goes back to the last turn.
        since = None if self._read_at is None else self._read_at - timedelta(seconds=seconds)
        found = self._changes.recent(seconds, MAX_IDS, since)
        complete = found.complete
        if self._read_at is not None:
            complete &= (found.now - self._read_at).total_seconds() <= frames.RESUMED_SECONDS
        return _Look(
            found.now,
            frames.cursor(found.now),
            self._window.new(found.events),
            self._window.new(found.executions),
            complete,
            clock if is_long else self._long_look_at,
        )

    def _remember(self, look: _Look) -> None:
        if self._read_at is not None:
            late = lowest_id(self._read_at - timedelta(seconds=SHORT_SECONDS))
            server_metrics.stream_late_rows.inc(sum(id_ < late for id_ in (*look.events, *look.executions)))
        self._window.add((*look.events, *look.executions))
        self._window.prune(look.now)
        self._read_at, self._long_look_at = look.now, look.long_look_at

    def _add_changes(self, out: Mapping[Subscriber, list[Frame]], look: _Look) -> None:
        """Add the rows that have changed; of too many only the newest."""
        if not any(topic.kind not in ("bar", "logs") for client in out for topic in client.topics):
            self._pending.clear()
            return
        left_out = {
            "events": max(0, len(look.events) - MAX_ROWS),
            "executions": max(0, len(look.executions) - MAX_ROWS),
        }
        touched = self._touched(look.events[:MAX_ROWS], look.executions[:MAX_ROWS])
        made = Rendering(self._changes, touched.events, touched.executions, look.at)
        for client, given in out.items():
            given.extend(made.frames(client))
            if any(left_out.values()):
                given.extend(frame for one in client.topics for frame in _left_out(one, left_out, look.at))

    def _touched(self, event_ids: Sequence[str], execution_ids: Sequence[str]) -> Touched:
        """Return the ids of changed rows. Events get a decision later: they are looked at again until then."""
        now = self._monotonic()
        settled = self._changes.settled(self._pending)
        for id_ in [*settled, *(id_ for id_, until in self._pending.items() if until < now)]:
            self._pending.pop(id_, None)
        if not event_ids and not execution_ids:
            return Touched(settled, [], [])
        touched = self._changes.touched(event_ids, execution_ids)
        for id_ in touched.pending:
            if len(self._pending) < MAX_PENDING:
                self._pending[id_] = now + PENDING_SECONDS
        return Touched([*dict.fromkeys((*touched.events, *settled))], touched.executions, [])

    def _missed(self, client: Subscriber, look: _Look) -> list[Frame]:
        """Return what a client has missed since its cursor, or for which topics it has to read anew."""
        if client.resume is None:
            return []
        rest = [topic for topic in client.topics if topic.kind != "bar"]
        lost = [topic for topic in rest if topic.kind == "logs" and topic.after is None]
        found: list[Frame] = []
        time = frames.time_of(client.resume, look.now)
        gap = None
        if time is not None:
            gap = self._changes.since(time - timedelta(seconds=LONG_SECONDS), MAX_RESUMED + 1)
            if len(gap.events) + len(gap.executions) > MAX_RESUMED:
                gap = None
        if gap is None:
            lost = rest
        else:
            touched = self._changes.touched(gap.events, gap.executions)
            found = Rendering(self._changes, touched.events, touched.executions, look.at).frames(client)
        return [*found, *(rendering.resync(topic, look.at) for topic in lost)]

    def _add_lines(
        self, out: Mapping[Subscriber, list[Frame]], at: str
    ) -> tuple[list[tuple[Subscriber, str, tuple[int, int]]], bool]:
        """Add new log lines. Returns the new positions of the clients, and whether more lines are left."""
        wanted = [(client, topic) for client in out for topic in client.topics if topic.kind == "logs"]
        known = {(client, topic.id_): client.lines.get(topic.id_, topic.after) for client, topic in wanted}
        least: dict[str, tuple[int, int]] = {}
        for (_, id_), position in known.items():
            if position is not None:
                least[id_] = min(position, least.get(id_, position))
        read = {id_: self._changes.lines(id_, position, MAX_LINES) for id_, position in least.items()}
        positions: list[tuple[Subscriber, str, tuple[int, int]]] = []
        for client, topic in wanted:
            position = known[client, topic.id_]
            if position is None:
                rows = self._changes.last_lines(topic.id_, FIRST_LINES)
            else:
                rows = [row for row in read[topic.id_] if (row["fence"], row["seq"]) > position]
            if rows:
                position = rows[-1]["fence"], rows[-1]["seq"]
                out[client].append(rendering.lines(client.caller, topic, rows, at))
            # Before its first line a denied request may have the number 0.
            positions.append((client, topic.id_, position or (0, -1)))
        return positions, any(len(rows) == MAX_LINES for rows in read.values())

    def _add_bar(self, out: Mapping[Subscriber, list[Frame]], new: Sequence[Subscriber], at: str) -> None:
        """Add the numbers of the top bar when they have changed, and for new clients."""
        watching = [client for client in out if client.has("bar")]
        if not watching:
            return
        views = {client.caller.labels for client in watching}
        before = self._bars
        if self._monotonic() - self._bar_at >= BAR_SECONDS or not views.issubset(before):
            self._bars = {labels: orjson.dumps(self._bar(labels)) for labels in views}
            self._bar_at = self._monotonic()
        for client in watching:
            labels = client.caller.labels
            if client in new or self._bars[labels] != before.get(labels):
                out[client].append(Frame(frames.frame("bar", orjson.loads(self._bars[labels]), at), "bar"))


def _left_out(topic: Topic, left_out: Mapping[str, int], at: str) -> list[Frame]:
    """Return the frame that says that rows of a topic were left out."""
    if topic.kind in LISTS:
        number = left_out[topic.kind]
        return [rendering.skipped(topic, number, at)] if number else []
    return [rendering.resync(topic, at)] if topic.kind in ("tree", "execution") else []

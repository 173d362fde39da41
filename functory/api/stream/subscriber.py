"""One client of the stream: what waits for it, and how it ends. Its methods are called on the server's event loop."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from functory.api.access.rights import Caller
from functory.api.stream import frames
from functory.api.stream.topics import LISTS, Topic
from functory.engine.telemetry import server_metrics

# Turns of the reader whose frames wait for a client that reads slowly.
MAX_WAITING = 20
# Seconds after which an idle stream gets a comment, so that proxies keep it open.
COMMENT_SECONDS = 15.0


@dataclass(frozen=True)
class Frame:
    """A frame of one topic, and the number of rows that a client misses without it."""

    data: bytes
    topic: str
    rows: int = 0


@dataclass(eq=False)
class Subscriber:
    """A client with its topics. ``resume`` is the cursor that it has sent; None for a new stream.

    ``opened`` is done when the reader has taken it in: from then on it misses nothing.
    """

    caller: Caller
    topics: tuple[Topic, ...]
    resume: str | None
    loop: asyncio.AbstractEventLoop
    opened: asyncio.Future[None]
    # Of each execution whose log it follows: the fence and number of the last line. The reader alone uses it.
    lines: dict[str, tuple[int, int]] = field(default_factory=dict)
    ended: bool = False
    # The cursors of the first turn, and of the last one.
    _first_at: str = ""
    _at: str = ""
    _waiting: deque[Sequence[Frame]] = field(default_factory=deque)
    # Rows by topic that were dropped, and the cursor of the newest turn of them.
    _missed: Counter[str] = field(default_factory=Counter)
    _missed_at: str = ""
    # Topics that have ended, which the client does not know yet.
    _gone: list[str] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def login(self) -> tuple[str, str]:
        """What streams are counted by, and checked for its end: the login, token, or the owner."""
        caller = self.caller
        return caller.kind, caller.login_id or caller.token_id or caller.name

    def has(self, kind: str) -> bool:
        """True when one of its topics is of this kind."""
        return any(topic.kind == kind for topic in self.topics)

    def push(self, new: Sequence[Frame], at: str) -> None:
        """Let the frames of one turn wait for the client. With too many turns, all are dropped and counted instead."""
        if self.ended:
            return
        self._first_at = self._first_at or at
        if new and len(self._waiting) >= MAX_WAITING:
            self._missed_at = self._at
            bar: list[Frame] = []
            for dropped in [one for turn in self._waiting for one in turn]:
                if dropped.topic == "bar":
                    # Only the newest numbers count.
                    bar = [dropped]
                else:
                    self._missed[dropped.topic] += dropped.rows
                    server_metrics.stream_dropped_rows.inc(dropped.rows)
            self._waiting.clear()
            new = [*bar, *new]
        self._at = at
        if new:
            self._waiting.append(new)
            self._more.set()

    def drop(self, topic: str) -> None:
        """End one topic: nothing of it that waits is sent any more, only ``gone``. The others go on."""
        self._waiting = deque([one for one in turn if one.topic != topic] for turn in self._waiting)
        self._missed.pop(topic, None)
        self._gone.append(topic)
        self._more.set()

    def open(self) -> None:
        """Let the stream begin: the reader has taken the client in."""
        if not self.opened.done():
            self.opened.set_result(None)

    def end(self) -> None:
        """End the stream: nothing that waits is sent any more, only ``bye``."""
        self.ended = True
        self._waiting.clear()
        self._missed.clear()
        self._gone.clear()
        self._more.set()
        if not self.opened.done():
            self.opened.set_result(None)

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield what the client gets, until it ends."""
        if not self.ended:
            yield frames.opening(self._first_at)
        while not self.ended:
            try:
                async with asyncio.timeout(COMMENT_SECONDS):
                    await self._more.wait()
            except TimeoutError:
                yield frames.comment(self._at)
                continue
            self._more.clear()
            while not self.ended and (data := self._next()):
                yield data
        yield frames.BYE

    def _next(self) -> bytes:
        """Take the next bytes: topics that have ended and what was missed come first, then one turn after the other."""
        if self._gone:
            gone, self._gone = self._gone, []
            # Without a cursor: what waits was not sent yet.
            return b"".join(frames.frame("gone", {"topic": topic}) for topic in gone)
        if self._missed:
            missed, self._missed = self._missed, Counter()
            return b"".join(_told(topic, number, self._missed_at) for topic, number in missed.items())
        while self._waiting:
            # A turn whose topics have all ended has no frame left.
            if turn := self._waiting.popleft():
                return b"".join(one.data for one in turn)
        return b""


def _told(topic: str, number: int, at: str) -> bytes:
    """Return the frame for rows that were not sent: of a list their number, of one tree or execution that it has to be
    read anew.
    """
    if topic in LISTS:
        return frames.frame("skipped", {"topic": topic, "n": number}, at)
    return frames.frame("resync", {"topic": topic}, at)

"""Which way the batches of a transaction take to the broker, so that no batch overtakes another. Without effects.

What a transaction's batches do, by its way:

| way | its batches |
|---|---|
| SURE | go from memory: it was known that no older batch waits in the database |
| ASKED | go from memory: the database was asked, and none waits there |
| LEFT | are left to others. A transaction that has not asked yet goes this way, too |
| HELD_BACK | are left to others when nothing is in the memory any more, because the memory is older |

The process is *sure* while no older batch can wait in the database. What happens, and what it changes:

| what happens | the process | the transaction |
|---|---|---|
| a transaction begins | is not sure any more if the memory has no room | SURE in a sure process, else LEFT |
| the answer: nothing older waits | forgets what it had left | LEFT → ASKED |
| the answer, or no question: something may wait | | LEFT → HELD_BACK if the memory is in use |
| batches are left to others | is not sure, and remembers them | |
| batches of the memory are left to others | begins a new era, too: what began before goes behind them | |
| the broker fails | rests | |
| a sweep begins or ends | asks nothing meanwhile, and does not become sure | |
| an ASKED transaction of this era commits | is sure if nothing else is LEFT, HELD_BACK, left or swept | ends |
| another transaction ends | | ends |
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

# The first and the last id of rows of the outbox.
Span = tuple[str, str]


class Way(enum.Enum):
    """The way of an open transaction's batches: see above."""

    SURE = enum.auto()
    ASKED = enum.auto()
    LEFT = enum.auto()
    HELD_BACK = enum.auto()

    @property
    def from_memory(self) -> bool:
        """Whether this process publishes the batches itself."""
        return self in (Way.SURE, Way.ASKED)


@dataclass
class Passage:
    """The way of one open transaction, and the era in which it began."""

    way: Way
    era: int


class BatchWays:
    """Decides the ways of one process. Its caller lets one thread at a time in.

    ``sure``: no older batch waits in the database. ``era``: how often batches of the memory were left to others.
    ``left``: the batches that were left to others; None when these have been published.
    """

    def __init__(self) -> None:
        self.sure = False
        self.era = 0
        self.left: Span | None = None
        self._rests_until = float("-inf")
        self._sweeps = 0
        self._open: dict[int, Passage] = {}

    def of(self, transaction: int) -> Passage | None:
        """Return the passage of a transaction that has begun. Needs no lock."""
        return self._open.get(transaction)

    def begin(self, transaction: int, *, room: bool) -> Passage:
        """Begin a transaction. ``room``: the memory takes more batches."""
        self.sure = self.sure and room
        passage = self._open[transaction] = Passage(Way.SURE if self.sure else Way.LEFT, self.era)
        return passage

    def may_ask(self, now: float) -> bool:
        """Return whether an answer of the database could let batches go from memory. ``now``: in seconds."""
        return not self._sweeps and now >= self._rests_until

    def found_none(self, passage: Passage, asked: Span | None) -> None:
        """Let a transaction go from memory: the database has no free batch, and none of ``asked``, which was ``left``
        before the question.
        """
        passage.way = Way.ASKED
        if self.left == asked:
            self.left = None

    def may_wait(self, passage: Passage, *, memory_in_use: bool) -> None:
        """Leave the batches of a transaction to others: older ones may wait in the database."""
        passage.way = Way.HELD_BACK if memory_in_use else Way.LEFT

    def end(self, transaction: int, *, committed: bool) -> None:
        """End a transaction."""
        passage = self._open.pop(transaction)
        if committed and passage.way is Way.ASKED and passage.era == self.era:
            others = any(not one.way.from_memory for one in self._open.values())
            self.sure = not (others or self.left or self._sweeps)

    def leave(self, ids: Sequence[str]) -> None:
        """Remember batches that others publish."""
        first, last = self.left or (ids[0], ids[0])
        self.left = min(first, *ids), max(last, *ids)
        self.sure = False

    def leave_memory(self, ids: Sequence[str]) -> None:
        """Remember batches of the memory that others publish now."""
        self.leave(ids)
        self.era += 1

    def rest(self, until: float) -> None:
        """Ask nothing until this time, in seconds: the broker has failed."""
        self._rests_until = until

    def begin_sweep(self) -> None:
        """Begin to publish older batches from the database."""
        self._sweeps += 1

    def end_sweep(self) -> None:
        """End one sweep."""
        self._sweeps -= 1

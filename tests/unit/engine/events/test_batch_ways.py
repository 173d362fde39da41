"""Which way a batch takes: the table of the decisions, and that in any order of steps no batch overtakes another."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from functory.engine.errors import Unavailable
from functory.engine.events import batch_publisher
from functory.engine.events.batch_publisher import BatchPublisher
from functory.engine.events.batch_ways import BatchWays, Way
from functory.engine.events.event_row import EventRow
from tests.support.event_rows import event_row

LEFT_BATCH = ("b1", "b1")

# Random orders of steps for each seed.
SCHEDULES = 200


def sure() -> BatchWays:
    ways = BatchWays()
    ways.sure = True
    return ways


def asking(left: bool = False) -> BatchWays:
    ways = BatchWays()
    if left:
        ways.leave(["b1"])
    ways.found_none(ways.begin(1, room=True), ways.left)
    return ways


def test_a_transaction_is_sure_in_a_sure_process_that_has_room() -> None:
    assert sure().begin(1, room=True).way is Way.SURE
    assert BatchWays().begin(1, room=True).way is Way.LEFT
    full = sure()
    assert full.begin(1, room=False).way is Way.LEFT
    assert full.begin(2, room=True).way is Way.LEFT, "what the first one leaves waits in the database"


def test_the_answer_of_the_database_decides_the_way() -> None:
    ways = BatchWays()
    ways.leave(["b1"])
    passage = ways.begin(1, room=True)
    ways.may_wait(passage, memory_in_use=False)
    assert passage.way is Way.LEFT
    ways.may_wait(passage, memory_in_use=True)
    assert passage.way is Way.HELD_BACK
    ways.found_none(passage, LEFT_BATCH)
    assert passage.way is Way.ASKED
    assert ways.left is None


def test_what_was_left_after_the_question_is_still_left() -> None:
    ways = BatchWays()
    passage = ways.begin(1, room=True)
    ways.leave(["b2", "b1"])
    ways.found_none(passage, None)
    assert ways.left == ("b1", "b2")


@pytest.mark.parametrize(
    ("meanwhile", "is_sure"),
    [
        (lambda ways: None, True),
        (lambda ways: ways.begin(2, room=True), False),
        (lambda ways: ways.leave(["b1"]), False),
        (lambda ways: ways.begin_sweep(), False),
        (lambda ways: (ways.begin_sweep(), ways.end_sweep()), True),
        (lambda ways: ways.leave_memory(["b1"]), False),
    ],
)
def test_the_process_is_sure_when_a_transaction_has_asked_and_nothing_came_between(
    meanwhile: Callable[[BatchWays], Any], is_sure: bool
) -> None:
    ways = asking()
    meanwhile(ways)
    ways.end(1, committed=True)
    assert ways.sure is is_sure


def test_a_transaction_that_failed_or_left_its_batches_makes_no_process_sure() -> None:
    failed = asking()
    failed.end(1, committed=False)
    left = BatchWays()
    left.begin(1, room=True)
    left.end(1, committed=True)
    assert not failed.sure
    assert not left.sure
    assert left.of(1) is None


@pytest.mark.parametrize(
    "event",
    [
        lambda ways: ways.leave(["b1"]),
        lambda ways: ways.leave_memory(["b1"]),
        lambda ways: ways.begin(1, room=False),
    ],
)
def test_a_sure_process_is_not_sure_for_ever(event: Callable[[BatchWays], Any]) -> None:
    ways = sure()
    event(ways)
    assert not ways.sure


def test_nothing_is_asked_while_the_broker_rests_or_a_sweep_runs() -> None:
    ways = BatchWays()
    ways.rest(5.0)
    assert [ways.may_ask(now) for now in (4.9, 5.0)] == [False, True]
    ways.begin_sweep()
    assert not ways.may_ask(6.0)
    ways.end_sweep()
    assert ways.may_ask(6.0)


def test_a_transaction_of_an_era_that_has_ended_makes_no_process_sure() -> None:
    ways = asking()
    ways.leave_memory(["b1"])
    ways.left = None
    ways.end(1, committed=True)
    assert not ways.sure


class Transaction:
    """An open transaction with one batch, and what it does at its end."""

    def __init__(self) -> None:
        self.id = ""
        self.began = 0
        self.row: tuple[str, bool] | None = None
        self.ends: list[Callable[[bool], None]] = []

    def at_end(self, call: Callable[[bool], None]) -> None:
        self.ends.append(call)


class Toy:
    """A process with a batch publisher, a toy of the database and the broker, and a publisher of another process.

    ``steps`` are drawn numbers: each chooses what happens next, also in the middle of a longer step.
    """

    def __init__(self, steps: Sequence[int]) -> None:
        self._steps = iter(steps)
        self.now = 0
        # Whether each row of the outbox is free, by its id.
        self.outbox: dict[str, bool] = {}
        self.open: list[Transaction] = []
        self.done: dict[str, tuple[int, int]] = {}
        self.published: list[str] = []
        self._claimed_by_other: str | None = None
        self._fails = False
        self.batches = BatchPublisher(self, self, 30, monotonic=lambda: self.now)  # type: ignore[arg-type]
        self.batches._thread = threading.current_thread()

    # The outbox, in the place of its module.

    def put(self, tx: Transaction, event_ids: Sequence[str], *, claim_seconds: float | None) -> list[str]:
        tx.row = (event_ids[0], claim_seconds is None)
        return [event_ids[0]]

    def has_unclaimed(self, tx: Transaction) -> bool:
        found = any(self.outbox.values())
        self.step(inside=True)
        return found

    def has_any(self, tx: Transaction, first: str, last: str) -> bool:
        return any(first <= id_ <= last for id_ in self.outbox)

    def claim(self, tx: Any, ids: Sequence[str], seconds: None) -> None:
        self.outbox |= {id_: True for id_ in ids if id_ in self.outbox}

    def mark_published(self, tx: Any, ids: Sequence[str]) -> None:
        for id_ in ids:
            self.outbox.pop(id_, None)

    # The database and the broker.

    @contextmanager
    def write(self) -> Iterator[None]:
        self.step(inside=True)
        yield

    def publish(self, rows: Sequence[EventRow]) -> list[int]:
        fails = self._fails
        self.step(inside=True)
        if fails:
            raise Unavailable("the broker cannot be used")
        self.published += [row.id for row in rows]
        return []

    # What happens.

    def step(self, *, inside: bool = False) -> bool:
        """Let the next thing happen. ``inside``: the publisher's thread or a transaction is in the middle of a step."""
        number = next(self._steps, None)
        if number is None:
            return False
        self.now += 1
        what = number % 8
        if what in (0, 1):
            self.begin()
        elif what in (2, 3) and self.open:
            self.end(self.open[number // 8 % len(self.open)], number < 100)
        elif what == 4:
            self.other()
        elif what == 5 and not (self.batches._waiting or self.batches._publishing):
            with self.batches.sweeping():
                self.step(inside=True)
                self.other()
        elif not inside:
            self.thread(fails=what == 6)
        return True

    def begin(self) -> None:
        tx = Transaction()
        tx.began, tx.id = self.now, f"e{self.now:04d}"
        self.batches.put(tx, [event_row(tx.id)])  # type: ignore[arg-type]
        self.open.append(tx)

    def end(self, tx: Transaction, commits: bool) -> None:
        self.open.remove(tx)
        if commits and tx.row:
            self.outbox[tx.row[0]] = tx.row[1]
        for call in tx.ends:
            self.step(inside=True)
            call(commits)
        if commits:
            self.now += 1
            self.done[tx.id] = (tx.began, self.now)

    def other(self) -> None:
        """Another process claims the oldest free batch, or publishes the one that it has claimed."""
        if self._claimed_by_other is not None:
            self.published.append(self._claimed_by_other)
            del self.outbox[self._claimed_by_other]
            self._claimed_by_other = None
        elif free := sorted(id_ for id_, is_free in self.outbox.items() if is_free):
            self._claimed_by_other = free[0]
            self.outbox[free[0]] = False

    def thread(self, *, fails: bool) -> None:
        self._fails = fails
        if batches := self.batches._take():
            self.batches._publish(batches)
        elif self.batches._held_back:
            self.batches._release()

    def finish(self) -> None:
        """End what is open, and let everything be published."""
        while self.step():
            pass
        for tx in [*self.open]:
            self.end(tx, True)
        while self.batches._in_memory():
            self.thread(fails=False)
        self.batches._delete_confirmed()
        while self.outbox:
            self.other()


@pytest.mark.parametrize("seed", range(20))
def test_no_batch_overtakes_one_that_was_committed_before_it_began(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_publisher, "MAX_EVENTS", 3)
    monkeypatch.setattr(batch_publisher, "RETRY_SECONDS", 3)
    # Each failure is a warning otherwise.
    monkeypatch.setattr(batch_publisher, "log", Mock())
    rng = random.Random(seed)
    for _ in range(SCHEDULES):
        toy = Toy([rng.randrange(110) for _ in range(rng.randrange(10, 70))])
        monkeypatch.setattr(batch_publisher, "outbox", toy)
        toy.finish()
        place = {id_: toy.published.index(id_) for id_ in toy.done}
        for earlier, (_, committed) in toy.done.items():
            for later, (began, _) in toy.done.items():
                if committed < began:
                    assert place[earlier] < place[later], (earlier, later, toy.published)

"""Group commit: each thread gets its turn, also beside threads that begin again at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from functory.engine.database.group_commit import MAX_GROUP_SIZE, GroupCommit, _GroupedWork
from tests.support.patience import patient

WAIT = patient(60.0)


class Transaction:
    """Counts the pieces of work that share it."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def savepoint(self) -> Any:
        return nullcontext()


class Database:
    """Transactions whose commit waits until it is ``open``."""

    def __init__(self, at_once: int = 1) -> None:
        self.committed: list[list[Any]] = []
        self.open = threading.Event()
        self.open.set()
        self.group = GroupCommit(self.write, nullcontext(), at_once)  # type: ignore[arg-type]

    @contextmanager
    def write(self) -> Iterator[Any]:
        tx = Transaction()
        yield tx
        assert self.open.wait(WAIT)
        time.sleep(0.0005)
        self.committed.append(tx.pieces)

    def run(self, piece: Any) -> Any:
        return self.group.run(lambda tx: tx.pieces.append(piece) or piece)  # type: ignore[attr-defined]


def started(act: Any, *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=act, args=arguments, daemon=True)
    thread.start()
    return thread


def ended(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive(), "it waits"


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_thread_is_not_passed_by_others_that_begin_again_at_once(at_once: int) -> None:
    database = Database(at_once)
    stop = threading.Event()

    def again() -> None:
        while not stop.is_set():
            database.run("again")

    passed: list[int] = []

    def once(number: int) -> None:
        before = len(database.committed)
        database.run(number)
        place = next(at for at, pieces in enumerate(database.committed) if number in pieces)
        passed.append(len(database.committed) - before)
        assert place >= before

    busy = [started(again) for _ in range(4)]
    for number in range(50):
        ended(started(once, number))
    stop.set()
    ended(*busy)
    # Commits while it waited: those under way and its own, and some more on a machine with little time.
    assert len(passed) == 50
    assert max(passed) < 200


def test_those_that_wait_share_the_next_commit() -> None:
    database = Database()
    database.open.clear()
    first = started(database.run, "first")
    waiting = [started(database.run, number) for number in range(MAX_GROUP_SIZE + 3)]
    pause = threading.Event()
    while len(database.group._waiting) < len(waiting):
        pause.wait(0.005)
    database.open.set()
    ended(first, *waiting)
    assert [len(pieces) for pieces in database.committed] == [1, MAX_GROUP_SIZE, 3]


def test_the_end_of_a_group_with_an_error_lets_the_next_one_work() -> None:
    database = Database()

    def broken(tx: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.group.run(broken)
    assert database.run("after") == "after"


def test_an_interrupted_thread_leaves_its_place_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt comes when the thread has just got its place."""
    database = Database()
    database.open.clear()
    first = started(database.run, "first")
    pause = threading.Event()
    while database.group._places:
        pause.wait(0.005)

    class Interrupted:
        """A lock whose wait is interrupted once it is released."""

        def __init__(self) -> None:
            self.released = threading.Event()

        def acquire(self) -> None:
            assert self.released.wait(WAIT)
            raise KeyboardInterrupt

        def release(self) -> None:
            self.released.set()

    waiting = threading.Event()
    real = _GroupedWork

    def made(work: Any) -> _GroupedWork:
        ticket = real(work)
        ticket.signal = Interrupted()  # type: ignore[assignment]
        waiting.set()
        return ticket

    interrupted: list[bool] = []

    def second() -> None:
        with pytest.raises(KeyboardInterrupt):
            database.run("second")
        interrupted.append(True)

    monkeypatch.setattr("functory.engine.database.group_commit._GroupedWork", made)
    thread = started(second)
    assert waiting.wait(WAIT)
    while not database.group._waiting:
        pause.wait(0.005)
    monkeypatch.undo()
    database.open.set()
    ended(first, thread)
    assert (interrupted, database.run("after")) == ([True], "after")

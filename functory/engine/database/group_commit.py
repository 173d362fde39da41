"""Group commit: threads of one process share a transaction, because a commit costs a disk sync.

Threads that arrive while others commit queue up, and the first of them runs the work of all of them under one commit.
Each has a savepoint of its own: an error undoes only its own writes and is raised in its own thread.

A thread that has committed passes its place on to the one that waits longest. A thread that begins again at once queues
up behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from functory.engine.database.driver_errors import DriverErrorTranslation, is_deadlock
from functory.engine.database.transaction import Tx
from functory.engine.errors import Unavailable

# The most transactions of one process that share a commit.
MAX_GROUP_SIZE = 64
# PostgreSQL ends one of two transactions that wait for each other. The ended one is tried again this many times.
DEADLOCK_TRIES = 3

T = TypeVar("T")


class _GroupedWork:
    """A piece of work that waits for its turn in a shared transaction."""

    def __init__(self, work: Callable[[Tx], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.has_place = False
        # Released when another thread has done it, or has passed its place on to this one.
        self.signal = threading.Lock()
        self.signal.acquire()


class GroupCommit:
    """The shared transactions of one process; ``write`` opens one. ``at_once`` is the number of them at the same time:
    with more than one, a thread can work while the database works for another one.
    """

    def __init__(
        self,
        write: Callable[[], AbstractContextManager[Tx]],
        driver_errors: DriverErrorTranslation,
        at_once: int = 1,
    ) -> None:
        self._write = write
        self._driver_errors = driver_errors
        self._waiting: list[_GroupedWork] = []
        self._lock = threading.Lock()
        self._places = at_once

    def run(self, work: Callable[[Tx], T]) -> T:
        """Run ``work`` in a transaction that it may share. Returns its result once it is durable."""
        own = _GroupedWork(work)
        with self._lock:
            has_place = self._places > 0
            if has_place:
                self._places -= 1
            else:
                self._waiting.append(own)
        if not has_place:
            try:
                own.signal.acquire()
            except BaseException:
                # An interrupted thread neither keeps a place in the queue nor one that it was given.
                self._leave(own)
                raise
        if not own.done:
            self._lead(own)
        if own.error is not None:
            raise own.error
        return own.result

    def _lead(self, own: _GroupedWork) -> None:
        """Run the work of this thread and of those that wait, and pass the place on."""
        with self._lock:
            others = self._waiting[: MAX_GROUP_SIZE - 1]
            self._waiting = self._waiting[MAX_GROUP_SIZE - 1 :]
        try:
            self._run_group([own, *others])
        finally:
            with self._lock:
                self._pass_on()

    def _pass_on(self) -> None:
        """Give a place to the thread that waits longest. The lock is held."""
        if self._waiting:
            following = self._waiting.pop(0)
            following.has_place = True
            following.signal.release()
        else:
            self._places += 1

    def _leave(self, own: _GroupedWork) -> None:
        with self._lock:
            if own in self._waiting:
                self._waiting.remove(own)
            elif own.has_place:
                self._pass_on()

    def _run_group(self, tickets: list[_GroupedWork]) -> None:
        try:
            self._run_in_one_transaction(tickets)
            for _ in range(DEADLOCK_TRIES):
                # Two processes locked the same rows in different orders. One by one, the orders cannot cross.
                for ticket in tickets:
                    if is_deadlock(ticket.error):
                        ticket.error = None
                        self._run_in_one_transaction([ticket])
        finally:
            for ticket in tickets:
                ticket.done = True
                ticket.signal.release()

    def _run_in_one_transaction(self, tickets: Sequence[_GroupedWork]) -> None:
        """Run the work of ``tickets`` in one transaction; each ends with its result or its error."""
        if not tickets:
            return
        try:
            with self._write() as tx:
                for ticket in tickets:
                    if len(tickets) == 1:
                        ticket.result = ticket.work(tx)
                        continue
                    try:
                        with self._driver_errors, tx.savepoint():
                            ticket.result = ticket.work(tx)
                    except Unavailable:
                        raise
                    except Exception as error:
                        ticket.error = error
        except BaseException as error:
            # Nothing was committed, so every piece of work gets the error.
            for ticket in tickets:
                ticket.error = ticket.error or error
            if not isinstance(error, Exception):
                raise

"""Group commit: threads of one process share a transaction, because a commit costs a disk sync.

Threads that arrive while others commit queue up, and the next one runs the work of all of them under one commit. Each
has a savepoint of its own: an error undoes only its own writes and is raised in its own thread.
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
        # A thread runs it. That thread releases the lock at the end.
        self.taken = False
        self.running = threading.Lock()
        self.running.acquire()


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
        self._waiting_lock = threading.Lock()
        self._places = threading.BoundedSemaphore(at_once)

    def run(self, work: Callable[[Tx], T]) -> T:
        """Run ``work`` in a transaction that it may share. Returns its result once it is durable."""
        ticket = _GroupedWork(work)
        with self._waiting_lock:
            self._waiting.append(ticket)
        while not ticket.taken:
            with self._places:
                with self._waiting_lock:
                    if ticket.taken:
                        break
                    taken, self._waiting = self._waiting[:MAX_GROUP_SIZE], self._waiting[MAX_GROUP_SIZE:]
                    for one in taken:
                        one.taken = True
                self._run_group(taken)
        ticket.running.acquire()
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

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
                ticket.running.release()

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

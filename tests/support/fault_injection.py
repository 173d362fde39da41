"""Injects database faults: connections fail before or after a statement, or before or after a commit.

A fault after the commit is the hardest one: the commit is done and reported as failed, so the caller cannot know its
outcome. The faults are injected at the calls of the driver. So the engine's own code runs unchanged, and sees the
driver's own errors::

    with Faults(database, seed=7, rates=Rates(committed=0.05)) as faults:
        ...
    with Faults(database) as faults:
        faults.once("committed", "UPDATE execution")

A generator with a seed draws the faults. Threads share it, so a seed repeats the faults but may hit other threads. An
exception that leaves the block has a note that lists the injected faults.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, fields
from random import Random
from types import TracebackType
from typing import Any

from sqlalchemy import event as hooks

from functory.engine.database import driver_rows
from functory.engine.database.connection import Database

# The number of injected faults that are shown.
RECENT = 40


@dataclass(frozen=True)
class Rates:
    """The probability of each kind of fault: at statements (before, after, lost) and commits (uncommitted,
    committed)."""

    before: float = 0.0  # the statement does not run, and an error is reported
    after: float = 0.0  # the statement runs, and fails
    lost: float = 0.0  # the connection is lost, and its transaction
    uncommitted: float = 0.0  # the commit is not done, and fails
    committed: float = 0.0  # the commit is done, and fails


KINDS = tuple(field.name for field in fields(Rates))


class Faults:
    """The faults of one :class:`Database` inside a ``with`` block."""

    def __init__(self, database: Database, seed: int = 0, rates: Rates | None = None) -> None:
        self.seed = seed
        self.rates = rates or Rates()
        self.step = 0  # statements and commits so far
        self.injected: Counter[str] = Counter()
        self._database = database
        self._random = Random(seed)
        self._lock = threading.Lock()
        self._once: list[tuple[str, str]] = []
        self._recent: deque[str] = deque(maxlen=RECENT)
        self._sent: dict[int, list[str]] = {}  # the statements of each open transaction, by its connection
        self._engine: Any = None

    def __enter__(self) -> Faults:
        self._engine = self._database.engine
        for name, hook in self._hooks:
            hooks.listen(self._engine, name, hook)
        dialect = self._engine.dialect
        commit, rollback = dialect.do_commit, dialect.do_rollback

        def do_commit(connection: Any) -> None:
            self._commit(connection, commit)

        def do_rollback(connection: Any) -> None:
            self._sent.pop(id(connection.dbapi_connection), None)
            rollback(connection)

        dialect.do_commit, dialect.do_rollback = do_commit, do_rollback
        if self._database.dialect == "postgresql":
            self._run_usually = driver_rows.run
            driver_rows.run = self._run
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, hook in self._hooks:
            hooks.remove(self._engine, name, hook)
        if self._database.dialect == "postgresql":
            driver_rows.run = self._run_usually
        # The instance's attributes hid the methods of the class.
        del self._engine.dialect.do_commit, self._engine.dialect.do_rollback
        if error is not None:
            error.add_note(str(self))

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.injected.items())) or "none"
        lines = [f"faults with seed {self.seed} at step {self.step}: {counts}", *self._recent]
        return "\n  ".join(lines)

    def once(self, kind: str, match: str) -> None:
        """Inject one fault at the next statement with ``match`` in its text, or at the commit of its transaction."""
        assert kind in KINDS
        with self._lock:
            self._once.append((kind, match))

    def stop(self) -> None:
        """Inject no more faults."""
        with self._lock:
            self.rates = Rates()
            self._once.clear()

    @property
    def waiting(self) -> bool:
        """True while a fault requested with :meth:`once` has not happened yet."""
        return bool(self._once)

    @property
    def _hooks(self) -> tuple[tuple[str, Any], ...]:
        return ("do_execute", self._execute), ("do_executemany", self._execute_many)

    def _execute(self, cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        connection = context.root_connection.connection.dbapi_connection
        return self._statement(cursor.execute, connection, statement, parameters)

    def _run(self, cursor: Any, statement: str, parameters: Any) -> None:
        """Run a statement that goes past SQLAlchemy."""
        self._statement(cursor.execute, cursor.connection, statement, parameters)
        self._run_usually(cursor, statement, parameters)

    def _execute_many(self, cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        connection = context.root_connection.connection.dbapi_connection
        return self._statement(cursor.executemany, connection, statement, parameters)

    def _statement(self, execute: Any, connection: Any, statement: str, parameters: Any) -> bool:
        together = [*_kept_back(connection), statement]
        kind = self._draw(("before", "after", "lost"), together, statement)
        self._sent.setdefault(id(connection), []).extend(together)
        if kind is None:
            return False
        if kind == "lost":
            self._sent.pop(id(connection), None)
            connection.close()
            raise self._closed()
        if kind == "after":
            execute(statement, parameters)
        raise self._error(kind)

    def _commit(self, connection: Any, commit: Any) -> None:
        kept_back = _kept_back(connection.dbapi_connection)
        sent = [*self._sent.pop(id(connection.dbapi_connection), []), *kept_back]
        kind = (
            self._draw(("uncommitted", "committed"), sent, f"COMMIT of {len(sent)} statements")
            if sent
            else None
        )
        if kind == "uncommitted":
            connection.rollback()
            raise self._error(kind)
        commit(connection)
        if kind == "committed":
            raise self._error(kind)

    def _draw(self, kinds: tuple[str, ...], statements: list[str], text: str) -> str | None:
        with self._lock:
            self.step += 1
            for ordered in self._once:
                kind, match = ordered
                if kind in kinds and any(match in statement for statement in statements):
                    self._once.remove(ordered)
                    break
            else:
                drawn = self._random.random()
                for kind in kinds:
                    drawn -= getattr(self.rates, kind)
                    if drawn < 0:
                        break
                else:
                    return None
            self.injected[kind] += 1
            thread = threading.current_thread().name
            self._recent.append(f"{self.step} {thread}: {kind}: {' '.join(text.split())[:120]}")
            return kind

    def _error(self, kind: str) -> Exception:
        dbapi = self._engine.dialect.dbapi
        return dbapi.OperationalError(f"injected fault ({kind}, seed {self.seed}, step {self.step})")

    def _closed(self) -> Exception:
        """The driver's error for a lost connection; SQLAlchemy recognises SQLite's error by its text."""
        dbapi = self._engine.dialect.dbapi
        if self._database.dialect == "sqlite":
            return dbapi.ProgrammingError("Cannot operate on a closed database.")
        return dbapi.OperationalError(f"injected loss of the connection (seed {self.seed}, step {self.step})")


def _kept_back(connection: Any) -> list[str]:
    """The statements that PostgreSQL gets together with the next one, or with the commit."""
    return [
        statement for statement, *_ in getattr(connection, "unsent", ()) if not statement.startswith("BEGIN")
    ]

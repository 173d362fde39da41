"""One open transaction: what every service of the engine writes and reads through."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult, Dialect
from sqlalchemy.exc import SQLAlchemyError

from functory.engine.database import sqlite_rows
from functory.engine.database.clock import ServerIds
from functory.engine.database.typed_rows import TypedRow

R = TypeVar("R", bound=TypedRow)

# From this number of rows on, COPY takes PostgreSQL and its client less time than INSERT.
COPY_ROWS = 4

_SAVEPOINT = sa.text("SAVEPOINT functory_part")
_RELEASE = sa.text("RELEASE SAVEPOINT functory_part")
_ROLL_BACK = sa.text("ROLLBACK TO SAVEPOINT functory_part")


class Tx:
    """One open transaction: ``execute`` statements, ``wake`` roles after the commit."""

    def __init__(
        self, connection: Connection, now: datetime, new_id: Callable[[], str], dialect: str
    ) -> None:
        self.connection = connection
        self.now = now
        self.new_id = new_id
        self.dialect = dialect
        # Transactions write side by side, so rows that must not change meanwhile have to be locked. SQLite has one
        # writer at a time.
        self.writes_concurrently = dialect == "postgresql"
        self.topics: set[str] = set()
        self._ends: list[Callable[[bool], None]] = []
        # True when the commit itself sends the wake-ups to other processes.
        self.notified = False

    def follow(self, id_: str) -> None:
        """Let :attr:`new_id` make only ids above ``id_`` from now on: its row is the cause of what is written next."""
        if isinstance(self.new_id, ServerIds):
            self.new_id.follow(id_)

    def execute(self, statement: sa.Executable, rows: Any = None) -> CursorResult[Any]:
        """Run one statement; ``rows`` is a mapping or a sequence of them (then in one batch)."""
        return self.connection.execute(statement, rows)

    def later(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> Callable[[], list[tuple[Any, ...]]]:
        """Run a statement whose rows are needed only later, with parameters in the form ``:name`` (and CAST,
        not ``::``). Returns a function
        for its rows, which may be called after the next statement or the commit.

        On PostgreSQL it takes no round trip: it is sent with the next statement or with the commit, which raises its
        errors. The values are the driver's.
        """
        if self.dialect == "postgresql":
            driver: Any = self.connection.connection.driver_connection
            text = _for_driver(self.connection.dialect, statement)
            cursor = driver.later(text, dict(parameters or {}))
            return lambda: [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        result = self.execute(sa.text(statement), dict(parameters or {}))
        rows = [tuple(row) for row in result] if result.returns_rows else []
        return lambda: rows

    def send(self) -> None:
        """Send what waits for the next statement, so that its rows can be read."""
        if self.dialect == "postgresql":
            driver: Any = self.connection.connection.driver_connection
            driver.send_unsent()

    def execute_later(self, statement: sa.Executable, values: Mapping[str, Any]) -> None:
        """Run one statement that has no answer. On PostgreSQL it takes no round trip, as with :meth:`later`."""
        if self.dialect == "postgresql":
            driver: Any = self.connection.connection.driver_connection
            driver.later(*self._for_driver(statement, values))
        else:
            self.execute(statement, values)

    def _for_driver(self, statement: sa.Executable, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        text, converters, constants = _compiled_for_driver(self.connection.dialect, statement)
        given = {
            name: values[name] if convert is None else convert(values[name]) for name, convert in converters
        }
        return text, given | constants

    def at_end(self, call: Callable[[bool], None]) -> None:
        """Call ``call`` after the end of the transaction: with True after its commit, with False when it failed, also
        if the outcome of the commit is not known.
        """
        self._ends.append(call)

    @contextmanager
    def ending(self) -> Iterator[Tx]:
        """Run what was registered with :meth:`at_end` when the block ends, which is the whole transaction."""
        try:
            yield self
        except BaseException:
            self._end(False)
            raise
        self._end(True)

    def _end(self, committed: bool, first: int = 0) -> None:
        ends, self._ends[first:] = self._ends[first:], []
        for call in ends:
            call(committed)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Let an error in the block undo only what the block has written, its wake-ups, and what it does at the end."""
        driver: Any = self.connection.connection.driver_connection if self.dialect == "postgresql" else None
        topics, kept = set(self.topics), len(self._ends)
        if driver is None:
            self.execute(_SAVEPOINT)
        else:
            driver.later(str(_SAVEPOINT))
        try:
            yield
            self.execute(_RELEASE)
        except BaseException:
            self.topics = topics
            self._end(False, kept)
            if driver is None or not driver.take_back(str(_SAVEPOINT)):
                # Without a connection there is nothing to undo: the first error is the one to report.
                with suppress(SQLAlchemyError):
                    self.execute(_ROLL_BACK)
            raise

    def rows(self, statement: sa.Executable, values: Any = None) -> list[dict[str, Any]]:
        """Return all rows of a statement as dictionaries."""
        return _mappings(self.connection.execute(statement, values))

    def all(self, type_: type[R], statement: sa.Executable, values: Any = None) -> list[R]:
        """Return all rows of a statement that selects the columns of ``type_``
        (:func:`functory.engine.database.typed_rows.columns`) as typed rows.
        """
        return [type_(*row) for row in self.connection.execute(statement, values)]

    def one(self, type_: type[R], statement: sa.Executable, values: Any = None) -> R | None:
        """Return the first row of a statement as a typed row (:meth:`all`), or None."""
        row = self.connection.execute(statement, values).first()
        return None if row is None else type_(*row)

    def values(
        self, statement: sa.Executable, values: Mapping[str, Any], columns: Sequence[sa.ColumnElement[Any]]
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a statement that returns ``columns`` as tuples: as :meth:`rows`, for many rows."""
        if self.dialect != "postgresql":
            return [tuple(row) for row in self.connection.execute(statement, values)]
        from functory.engine.database import driver_rows

        text, given = self._for_driver(statement, values)
        return driver_rows.fetch_all(self.connection, text, given, columns)

    def first(self, statement: sa.Executable, values: Any = None) -> dict[str, Any] | None:
        """Return the first row of a statement, or None."""
        row = self.connection.execute(statement, values).mappings().first()
        return dict(row) if row is not None else None

    def pairs(self, statement: sa.Executable) -> dict[Any, Any]:
        """Return the first two columns of every row, as a dictionary."""
        return {row[0]: row[1] for row in self.connection.execute(statement)}

    def scalar(self, statement: sa.Executable, values: Any = None) -> Any:
        """Return the first column of the first row, or None."""
        return self.connection.execute(statement, values).scalar()

    def insert(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Insert ``rows`` (all with the same keys) in one batch; nothing for none.

        On PostgreSQL few rows are sent with the next statement that has an answer, or with the commit, and so are their
        errors.
        """
        if self.dialect == "postgresql" and rows:
            from functory.engine.database import row_copy

            write = row_copy.copy_rows if len(rows) >= COPY_ROWS else row_copy.insert_later
            write(self.connection, table, rows)
        elif rows:
            sqlite_rows.insert_rows(self.connection, table, rows)

    def insert_later(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Insert ``rows`` as :meth:`insert` does. On PostgreSQL they are sent with the next statement that has an
        answer, or with the commit, and so are their errors. For more rows than some hundreds, COPY costs less.
        """
        if self.dialect == "postgresql" and len(rows) >= COPY_ROWS:
            dialect = self.connection.dialect
            statement, defaults = _row_sets().insert_text(dialect, table, tuple(rows[0]))
            driver: Any = self.connection.connection.driver_connection
            driver.later(statement, defaults | _row_sets().parameters(dialect, table, rows))
        else:
            self.insert(table, rows)

    def insert_new(self, table: sa.Table, row: dict[str, Any]) -> bool:
        """Insert ``row`` unless a unique key has it already. True when it was inserted."""
        # The row is passed beside the statement and not built into it: an expression for each value costs more than the
        # insert.
        statement = _insert_missing(self.dialect, table)
        # Without this option SQLAlchemy does not keep the row count of an INSERT.
        result = self.connection.execute(statement, row, execution_options={"preserve_rowcount": True})
        return result.rowcount == 1

    def insert_missing(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Insert those of ``rows`` (all with the same keys) that no unique key has already, in one batch.

        Several rows are inserted in the order of their primary keys.
        """
        if self.dialect == "postgresql" and len(rows) > 1:
            self._execute_with_rows(_row_sets().insert_missing(table, tuple(rows[0])), table, rows)
        elif rows:
            self.connection.execute(_insert_missing(self.dialect, table), list(rows))

    def insert_returning(self, table: sa.Table, rows: Sequence[dict[str, Any]], column: Any) -> set[Any]:
        """Insert those of ``rows`` (all with the same keys) that no unique key has already. Returns the ``column`` of
        the inserted rows.
        """
        if not rows:
            return set()
        # The rows are passed beside the statement: it is compiled once for any number of rows, which are sent in
        # pieces.
        return set(
            self.connection.execute(_insert_returning(self.dialect, table, column), list(rows)).scalars()
        )

    def upsert(
        self,
        table: sa.Table,
        rows: Sequence[dict[str, Any]],
        changes: Callable[[Any], Mapping[str, Any]],
        values: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Insert ``rows`` (all with the same keys), in place of rows with their primary keys. Returns the rows as they
        are now, locked until the commit.

        ``changes`` gets the columns of the new row and returns what changes in the one that is there. It may have
        parameters, whose ``values`` hold for all rows.
        """
        if not rows:
            return []
        if self.dialect == "postgresql":
            statement = _row_sets().upsert(table, tuple(rows[0]), changes)
            return _mappings(self._execute_with_rows(statement, table, rows, values))
        # The rows are passed beside the statement: it is compiled once for any number of rows.
        return self.rows(_upsert(self.dialect, table, changes), [{**row, **(values or {})} for row in rows])

    def upsert_later(
        self, table: sa.Table, rows: Sequence[dict[str, Any]], changes: Callable[[Any], Mapping[str, Any]]
    ) -> Callable[[], list[dict[str, Any]]]:
        """As :meth:`upsert`; returns a function for the rows. On PostgreSQL it takes no round trip (:meth:`later`), and
        the values are the driver's. The function sends it if nothing else has.
        """
        if self.dialect != "postgresql" or not rows:
            found = self.upsert(table, rows, changes)
            return lambda: found
        statement = _row_sets().upsert(table, tuple(rows[0]), changes)
        text, _, constants = _compiled_for_driver(self.connection.dialect, statement)
        given = _row_sets().parameters(self.connection.dialect, table, rows)
        driver: Any = self.connection.connection.driver_connection
        cursor = driver.later(text, given | constants)

        def read() -> list[dict[str, Any]]:
            self.send()
            names = table.c.keys()
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

        return read

    def update_rows(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Change the rows that have the primary keys of ``rows`` (all with the same keys): their other columns."""
        if self.dialect == "postgresql" and rows:
            self._execute_with_rows(_row_sets().update(table, tuple(rows[0])), table, rows)
        elif rows:
            named = [{f"new_{name}": value for name, value in row.items()} for row in rows]
            self.connection.execute(_update(table, tuple(rows[0])), named)

    def _execute_with_rows(
        self,
        statement: Any,
        table: sa.Table,
        rows: Sequence[dict[str, Any]],
        values: Mapping[str, Any] | None = None,
    ) -> Any:
        given = _row_sets().parameters(self.connection.dialect, table, rows)
        return self.connection.execute(statement, {**given, **(values or {})})

    def wake(self, *topics: str) -> None:
        """Signal ``topics`` after the commit."""
        self.topics.update(topics)


def _mappings(result: CursorResult[Any]) -> list[dict[str, Any]]:
    # Not by SQLAlchemy's mappings, which look up each name in each row.
    names = tuple(result.keys())
    return [dict(zip(names, row, strict=True)) for row in result]


def _row_sets() -> Any:
    """Import what only PostgreSQL needs."""
    from functory.engine.database import row_sets

    return row_sets


@functools.cache
def _update(table: sa.Table, names: tuple[str, ...]) -> Any:
    keys = {column.name for column in table.primary_key.columns}
    new = {name: sa.bindparam(f"new_{name}", type_=table.c[name].type) for name in names}
    return (
        sa.update(table)
        .where(*(table.c[name] == new[name] for name in names if name in keys))
        .values({name: new[name] for name in names if name not in keys})
    )


@functools.cache
def _for_driver(dialect: Dialect, statement: str) -> str:
    return str(sa.text(statement).compile(dialect=dialect))


@functools.cache
def _compiled_for_driver(
    dialect: Dialect, statement: Any
) -> tuple[str, Sequence[tuple[str, Any]], dict[str, Any]]:
    """Return a statement as the driver takes it, how the value of each parameter is converted, and the values that the
    statement itself has.
    """
    compiled = statement.compile(dialect=dialect)
    converters = {
        name: parameter.type.dialect_impl(dialect).bind_processor(dialect)
        for name, parameter in compiled.binds.items()
    }
    own = {name: parameter.value for name, parameter in compiled.binds.items() if not parameter.required}
    constants = {
        name: value if (convert := converters.pop(name)) is None else convert(value)
        for name, value in own.items()
    }
    return str(compiled), [*converters.items()], constants


@functools.cache
def _insert_missing(dialect: str, table: sa.Table) -> Any:
    return _insert_of(dialect)(table).on_conflict_do_nothing()


@functools.cache
def _insert_returning(dialect: str, table: sa.Table, column: Any) -> Any:
    return _insert_missing(dialect, table).returning(column)


@functools.cache
def _upsert(dialect: str, table: sa.Table, changes: Callable[[Any], Mapping[str, Any]]) -> Any:
    statement = _insert_of(dialect)(table)
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=dict(changes(statement.excluded))
    )
    return statement.returning(table)


def _insert_of(dialect: str) -> Any:
    """Return the dialect's ``insert``, whose statements know ``on_conflict_do_update`` and ``excluded``."""
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    return insert

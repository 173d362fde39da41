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
    """One open transaction: reads and writes rows, and wakes roles after the commit.

    | write with | when a unique key has a row already | returns | round trip on PostgreSQL |
    |---|---|---|---|
    | :meth:`execute` | (any statement) | SQLAlchemy's result | yes |
    | :meth:`later` | (any statement) | a function for the rows | none |
    | :meth:`insert` | is an error | nothing | from :data:`COPY_ROWS` rows on, unless ``later`` |
    | :meth:`insert_missing` | passes the new row over | how many were inserted | yes |
    | :meth:`insert_returning` | passes the new row over | a column of the inserted rows | yes |
    | :meth:`upsert` | changes the row that is there | a function for the rows | none, or one when it is called |
    | :meth:`update_rows` | (changes rows by their primary keys) | nothing | yes |

    What takes no round trip is sent with the next statement that has an answer, or with the commit, and that one raises
    its errors. SQLite runs it at once. The rows of one call all have the same keys; none are no statement.
    """

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
        self, statement: str | sa.Executable, values: Mapping[str, Any] | None = None
    ) -> Callable[[], list[tuple[Any, ...]]]:
        """Run a statement whose rows are needed only later, or never. A text has parameters in the form ``:name``, and
        CAST instead of ``::``. Returns a function for its rows (the values are the driver's), which may be called after
        the next statement with an answer or the commit; before, it returns none.
        """
        made = _text(statement) if isinstance(statement, str) else statement
        if self.dialect == "postgresql":
            cursor = self._driver.later(*self._for_driver(made, values or {}))
            return lambda: [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        result = self.execute(made, dict(values or {}))
        rows = [tuple(row) for row in result] if result.returns_rows else []
        return lambda: rows

    @property
    def _driver(self) -> Any:
        """The connection of PostgreSQL's driver, which keeps back what needs no answer."""
        return self.connection.connection.driver_connection

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
        driver = self._driver if self.dialect == "postgresql" else None
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

    def insert(self, table: sa.Table, rows: Sequence[dict[str, Any]], *, later: bool = False) -> None:
        """Insert ``rows``. ``later``: for up to some hundreds of rows; for more, COPY costs less than a round trip."""
        if self.dialect != "postgresql" or not rows:
            if rows:
                sqlite_rows.insert_rows(self.connection, table, rows)
            return
        from functory.engine.database import row_copy

        if len(rows) < COPY_ROWS:
            row_copy.insert_later(self.connection, table, rows)
        elif later:
            dialect = self.connection.dialect
            statement, defaults = _row_sets().insert_text(dialect, table, tuple(rows[0]))
            self._driver.later(statement, defaults | _row_sets().parameters(dialect, table, rows))
        else:
            row_copy.copy_rows(self.connection, table, rows)

    def insert_missing(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> int:
        """Insert those of ``rows`` that no unique key has already, in the order of their primary keys on PostgreSQL.
        Returns the number of rows that were inserted.
        """
        if not rows:
            return 0
        if self.dialect == "postgresql" and len(rows) > 1:
            statement = _row_sets().insert_missing(table, tuple(rows[0]))
            values: Any = _row_sets().parameters(self.connection.dialect, table, rows)
        else:
            # The rows are passed beside the statement: an expression for each value costs more than the insert.
            statement, values = _insert_missing(self.dialect, table), list(rows)
        # Without this option SQLAlchemy does not keep the row count of an INSERT.
        return self.connection.execute(
            statement, values, execution_options={"preserve_rowcount": True}
        ).rowcount

    def insert_returning(self, table: sa.Table, rows: Sequence[dict[str, Any]], column: Any) -> set[Any]:
        """Insert those of ``rows`` that no unique key has already. Returns the ``column`` of the inserted rows."""
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
    ) -> Callable[[], list[dict[str, Any]]]:
        """Insert ``rows``, in place of rows with their primary keys. Returns a function for the rows as they are now,
        locked until the commit. It sends the statement if nothing else has.

        ``changes`` gets the columns of the new row and returns what changes in the one that is there; the statement is
        built once for each function, so it is one of a module. It may have parameters, whose ``values`` hold for all
        rows.
        """
        if not rows:
            return list
        if self.dialect != "postgresql":
            # The rows are passed beside the statement: it is compiled once for any number of rows.
            found = self.rows(
                _upsert(self.dialect, table, changes), [{**row, **(values or {})} for row in rows]
            )
            return lambda: found
        from functory.engine.database import driver_rows

        connection = self.connection
        statement = _row_sets().upsert(table, tuple(rows[0]), changes)
        given = _row_sets().parameters(connection.dialect, table, rows)
        text, parameters = self._for_driver(statement, {**given, **(values or {})})
        cursor = self._driver.later(text, parameters)

        def read() -> list[dict[str, Any]]:
            with driver_rows.sqlalchemy_errors(connection, cursor, text):
                self._driver.send_unsent()
            found = driver_rows.read_all(cursor, connection.dialect, tuple(table.columns))
            return [dict(zip(table.columns.keys(), row, strict=True)) for row in found]

        return read

    def update_rows(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Change the rows that have the primary keys of ``rows``: their other columns."""
        if self.dialect == "postgresql" and rows:
            given = _row_sets().parameters(self.connection.dialect, table, rows)
            self.connection.execute(_row_sets().update(table, tuple(rows[0])), given)
        elif rows:
            named = [{f"new_{name}": value for name, value in row.items()} for row in rows]
            self.connection.execute(_update(table, tuple(rows[0])), named)

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
def _text(statement: str) -> sa.TextClause:
    return sa.text(statement)


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

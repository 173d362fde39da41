"""Runs the engine's statements directly on SQLite's driver: the same SQL and values in a third of the time.

SQLAlchemy compiles a statement once; for each execution it then makes a context, a cursor and a result of its own,
which costs several times what SQLite needs in memory. A simulation runs millions of statements. So a permanent
statement (most are constants of their modules) is compiled once, with SQLAlchemy's compiler. After that its values
pass through their types directly to the driver. SQLAlchemy's own connection runs every unusual statement.

``python -m tests.simulation --usual`` runs without this shortcut, and must give the same results.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import Connection, IteratorResult, Result
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

# A statement that was seen this often counts as permanent.
OFTEN = 8


class Unusual(Exception):
    """The statement must go through SQLAlchemy's own connection."""


class Plan:
    """A compiled statement with the names of its parameters."""

    def __init__(self, statement: Any, dialect: Any, names: Sequence[str], many: bool) -> None:
        compiled: Any = statement.compile(
            dialect=dialect, column_keys=list(names) or None, for_executemany=many
        )
        if (
            not isinstance(compiled, SQLCompiler)
            or compiled.update_prefetch
            or compiled.literal_execute_params
        ):
            raise Unusual
        if compiled.isplaintext or compiled._ad_hoc_textual or compiled._textual_ordered_columns:
            raise Unusual
        if many and (compiled.effective_returning or compiled.post_compile_params):
            raise Unusual
        # An id identifies its statement as long as the statement exists.
        self.statement = statement
        self._compiled = compiled
        self._given = frozenset(names)
        self._defaults = {column.key: _default(column) for column in compiled.insert_prefetch}
        self._lists = [bind.key for bind in compiled.post_compile_params if bind.key in self._given]
        self._forms: dict[tuple[tuple[int, int], ...], _Form] = {}
        entries = compiled._result_columns
        self.keys = tuple(entry.keyname for entry in entries)
        convert = [entry.type._cached_result_processor(dialect, None) for entry in entries]
        self._converted = [(place, one) for place, one in enumerate(convert) if one is not None]

    def text(self, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """The SQL for these values, and the values that the driver binds."""
        lists = self._lists
        shape = (
            tuple((len(found), _width(found)) for found in map(values.__getitem__, lists)) if lists else ()
        )
        form = self._forms.get(shape)
        if form is None:
            form = self._forms[shape] = self._form(values)
        bound = form.fixed.copy()
        for place, name in form.plain:
            bound[place] = values[name]
        for place, name, convert in form.converted:
            bound[place] = convert(values[name])
        for place, name, at, within, convert in form.spread:
            value = values[name][at] if within is None else values[name][at][within]
            bound[place] = value if convert is None else convert(value)
        return form.sql, bound

    def rows(self, found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The driver's rows, converted to Python values."""
        if not self._converted:
            return found
        made = []
        for row in found:
            values = list(row)
            for place, convert in self._converted:
                values[place] = convert(values[place])
            made.append(tuple(values))
        return made

    def _form(self, values: Mapping[str, Any]) -> _Form:
        """The form of the SQL for lists of these lengths."""
        compiled = self._compiled
        form = _Form(compiled.string)
        names: Any = compiled.positiontup
        convert, spread = compiled._bind_processors, {}
        if compiled.post_compile_params:
            marked = dict(values) | {key: _marked(key, values[key]) for key in self._lists}
            state = compiled.construct_expanded_state(marked, escape_names=False)
            form.sql, names, spread = state.statement, state.positiontup, state.parameters
            convert = {**convert, **state.processors}
        for place, name in enumerate(names):
            self._settle(form, place, name, spread, convert.get(name))
        return form

    def _settle(self, form: _Form, place: int, name: str, spread: Mapping[str, Any], convert: Any) -> None:
        """The origin of the value at one place."""
        form.fixed.append(None)
        bind = self._compiled.binds.get(name)
        if bind is None:
            value = spread[name]
            if isinstance(value, _Mark):
                form.spread.append((place, value.key, value.at, value.within, convert))
                return
        else:
            for key in (bind.key, name):
                if key in self._given:
                    if convert is None:
                        form.plain.append((place, key))
                    else:
                        form.converted.append((place, key, convert))
                    return
            if name in self._defaults:
                value = self._defaults[name]
            elif bind.callable is not None or bind.required:
                raise Unusual
            else:
                value = bind.value
        form.fixed[place] = value if convert is None else convert(value)


@dataclass
class _Form:
    """SQL and the origin of each value: a constant, a parameter, or an element of a list (and of a tuple in it)."""

    sql: str
    fixed: list[Any] = field(default_factory=list)
    plain: list[tuple[int, str]] = field(default_factory=list)
    converted: list[tuple[int, str, Any]] = field(default_factory=list)
    spread: list[tuple[int, str, int, int | None, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class _Mark:
    """A placeholder for a value of a list; its place in the compiled statement shows where the value belongs."""

    key: str
    at: int
    within: int | None = None


def _marked(key: str, values: Sequence[Any]) -> list[Any]:
    return [
        tuple(_Mark(key, at, within) for within in range(len(one)))
        if isinstance(one, tuple)
        else _Mark(key, at)
        for at, one in enumerate(values)
    ]


def _default(column: Any) -> Any:
    if column.default is None or not column.default.is_scalar:
        raise Unusual
    return column.default.arg


def _width(found: Sequence[Any]) -> int:
    return len(found[0]) if found and isinstance(found[0], tuple) else 0


class Rows:
    """The result of a statement. It has the methods that roles use often, and passes others to SQLAlchemy's
    result."""

    def __init__(self, plan: Plan, found: list[tuple[Any, ...]], rowcount: int) -> None:
        self._plan = plan
        self._found = found
        self.rowcount = rowcount
        self.returns_rows = bool(plan.keys)

    def mappings(self) -> Mappings:
        """Rows as dictionaries."""
        return Mappings(self._plan.keys, self._plan.rows(self._found))

    def scalar(self) -> Any:
        """The first column of the first row, or None."""
        return self._plan.rows(self._found[:1])[0][0] if self._found else None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._result())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._result(), name)

    def _result(self) -> Result[Any]:
        return IteratorResult(SimpleResultMetaData(self._plan.keys), iter(self._plan.rows(self._found)))


class Mappings:
    """Rows as dictionaries."""

    def __init__(self, keys: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        self._keys = keys
        self._rows = rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        keys = self._keys
        return iter([dict(zip(keys, row, strict=True)) for row in self._rows])

    def first(self) -> dict[str, Any] | None:
        """The first row, or None."""
        return dict(zip(self._keys, self._rows[0], strict=True)) if self._rows else None

    def all(self) -> list[dict[str, Any]]:
        """All rows."""
        return list(self)


class Direct:
    """Replaces an open connection: it runs the statements that it has a plan for, and passes all others on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._dialect = connection.dialect
        self._cursor: sqlite3.Cursor = connection.connection.cursor()  # type: ignore[assignment]

    def execute(self, statement: Any, values: Any = None, **options: Any) -> Any:
        """Run a statement, once for each of several ``values``."""
        if isinstance(values, list) and len(values) == 1:
            values = values[0]
        many = isinstance(values, list)
        plan = self._plan(statement, values[0] if many else values or (), many)
        if plan is None:
            return self._connection.execute(statement, values, **options)
        cursor = self._cursor
        sql = ""
        try:
            if many:
                bound = [plan.text(one) for one in values]
                sql = bound[0][0]
                cursor.executemany(sql, [one for _, one in bound])
            else:
                sql, one = plan.text(values or {})
                cursor.execute(sql, one)
            found = cursor.fetchall() if cursor.description else []
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                sql, None, error, sqlite3.Error, hide_parameters=True, dialect=self._dialect
            ) from error
        return Rows(plan, found, cursor.rowcount)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def _plan(self, statement: Any, names: Iterable[str], many: bool) -> Plan | None:
        """The plan of a permanent statement; None for a statement that needs SQLAlchemy's own connection."""
        key = (id(statement), tuple(names), many)
        plan = _plans.get(key, _UNKNOWN)
        if plan is not _UNKNOWN:
            return plan
        met = _met[statement] = _met.get(statement, 0) + 1
        if met < OFTEN:
            return None
        try:
            plan = Plan(statement, self._dialect, key[1], many)
        except Unusual:
            _unusual.append(statement)
            plan = None
        _plans[key] = plan
        return plan


class Transaction:
    """A transaction that the driver has begun, with the methods that :class:`Database` uses of SQLAlchemy's own."""

    def __init__(self, driver: Any, *, write: bool) -> None:
        self._driver = driver
        self._driver.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        # A transaction that only read, or is not committed by now, ends here.
        if self._driver.in_transaction:
            self._driver.rollback()

    def commit(self) -> None:
        """Commit the transaction."""
        self._driver.commit()


_UNKNOWN: Any = object()
# Shared by all databases of this process: a compiled statement is the same for each of them.
_plans: dict[tuple[int, tuple[str, ...], bool], Plan | None] = {}
_met: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
# The reference keeps the statement alive, so that no other object gets its id.
_unusual: list[Any] = []

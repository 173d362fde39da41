"""Table capture: changes of a user's table become events in the user's own transaction (PostgreSQL).

Each watched table gets a function and a trigger, both named after the source's id. The trigger writes rows of ``event``
and ``routing_queue``. They commit and roll back with the change: there is no event without its change and no change
without its event.

:mod:`functory.engine.sources.table_capture_sql` has the trigger's body and describes its rights.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from functory.engine.database import schema as db_schema
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, Refused
from functory.engine.events import routing_queue
from functory.engine.sources import store as source_store
from functory.engine.sources import table_capture_sql

EVENTS = ("insert", "update", "delete")
# How long (milliseconds) installing waits for transactions that write the table. Other writers queue behind it.
LOCK_MILLISECONDS = 3000
# PostgreSQL's error codes (manual, appendix A).
_LOCKED, _DENIED, _WRONG_NAME = "55P03", "42501", ("42602", "42601", "22023")


@dataclass(frozen=True)
class TableCapture:
    """The changes of a table that become events.

    The events show ``columns`` only, or all but ``hidden``; ``key`` names the columns of the subject instead of
    the primary key. Data beyond ``max_bytes`` are left out, with a note. Without ``wake`` the router finds the
    event at its next poll: a NOTIFY makes PostgreSQL serialise commits.
    """

    table: str
    events: tuple[str, ...] = EVENTS
    columns: tuple[str, ...] | None = None
    hidden: tuple[str, ...] = ()
    key: tuple[str, ...] | None = None
    max_bytes: int = 1_048_576
    wake: bool = True


def install(tx: Tx, row: Mapping[str, Any], feed: TableCapture) -> str:
    """Install the trigger on the table and replace an earlier one. Returns the table's full name.

    Raises :class:`Invalid` for a table, column or database that cannot be watched, :class:`Refused` without the
    right to, :class:`Conflict` when the table is busy for more than three seconds.
    """
    _need_postgres(tx)
    from psycopg import sql

    table = _find(tx, feed.table)
    key = _check_columns(tx, table, feed)
    name, home = _name(row), _home(tx)
    function = sql.Identifier(home, name)
    target = sql.Identifier(table.schema, table.name)
    body = _body(row, feed, table, key, home, None)
    words = {"insert": sql.SQL("INSERT"), "update": sql.SQL("UPDATE"), "delete": sql.SQL("DELETE")}
    happenings = sql.SQL(" OR ").join(words[one] for one in EVENTS if one in feed.events)
    with _PostgresErrors(table.shown):
        _run(tx, sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_MILLISECONDS)))
        _run(tx, sql.SQL("DROP FUNCTION IF EXISTS {}() CASCADE").format(function))
        _run(tx, table_capture_sql.function(function, _text(tx, body)))
        _run(tx, sql.SQL("REVOKE ALL ON FUNCTION {}() FROM PUBLIC").format(function))
        _run(
            tx,
            sql.SQL(
                "CREATE TRIGGER {} AFTER {} ON {} FOR EACH ROW EXECUTE FUNCTION {}()"
            ).format(sql.Identifier(name), happenings, target, function),
        )  # fmt: skip
        _run(tx, sql.SQL("SET LOCAL lock_timeout = DEFAULT"))
    # Those of a pause by the breaker that a person has ended.
    routing_queue.end_wait(tx, source_store.event_source(row))
    return table.shown


def hold(tx: Tx, row: Mapping[str, Any], feed: TableCapture, until: datetime) -> None:
    """Let the changes of the table wait for ``until`` before they are routed. Locks nothing of the user's.

    Raises :class:`Invalid` for a table or column that is gone.
    """
    _need_postgres(tx)
    from psycopg import sql

    found = _installed(tx, row)
    if found is None:
        return
    table = _find(tx, feed.table)
    body = _body(row, feed, table, _check_columns(tx, table, feed), found["home"], until)
    function = sql.Identifier(found["home"], _name(row))
    with _PostgresErrors(table.shown):
        _run(tx, table_capture_sql.function(function, _text(tx, body)))


def remove(tx: Tx, row: Mapping[str, Any]) -> None:
    """Remove trigger and function. Raises :class:`Conflict` when the table is busy for more than three seconds."""
    _need_postgres(tx)
    from psycopg import sql

    found = _installed(tx, row)
    if found is None:
        return
    with _PostgresErrors(found["table"] or "the table"):
        _run(tx, sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_MILLISECONDS)))
        # Dropping the function drops its trigger, too. Only the owner of the table could drop the trigger alone.
        _run(
            tx,
            sql.SQL("DROP FUNCTION IF EXISTS {}() CASCADE").format(sql.Identifier(found["home"], _name(row))),
        )
        _run(tx, sql.SQL("SET LOCAL lock_timeout = DEFAULT"))


def problem(tx: Tx, row: Mapping[str, Any], feed: TableCapture) -> str | None:
    """Return the problem of an installed source; None when its trigger works."""
    found = _installed(tx, row)
    again = f"functory source pause table {row['name']}, then resume it: that installs it again"
    if found is None or found["table"] is None:
        return f"the table {feed.table} or its trigger no longer exists; its rows do not become events / try: {again}"
    if found["enabled"] == "D":
        return f"the trigger of {found['table']} is disabled; its rows do not become events / try: {again}"
    here = sa.text("SELECT to_regclass(:name) = CAST(:oid AS oid)")
    if not tx.scalar(here, {"name": feed.table, "oid": found["oid"]}):
        return (
            f"the table is called {found['table']} now, and its events still say {feed.table}"
            f" / try: functory watch table {row['name']} --table {found['table']}"
        )
    return None


def _home(tx: Tx) -> str:
    """Return the schema of our tables."""
    return tx.scalar(
        sa.text("SELECT nspname FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid WHERE c.oid = "
                "to_regclass('event')")
    )  # fmt: skip


def _body(
    row: Mapping[str, Any],
    feed: TableCapture,
    table: _Table,
    key: Sequence[str],
    home: str,
    route_after: datetime | None,
) -> Any:
    return table_capture_sql.body(
        schema=home,
        source=source_store.event_source(row),
        table=table.shown,
        key=key,
        columns=feed.columns,
        hidden=feed.hidden,
        max_bytes=feed.max_bytes,
        wake=feed.wake and route_after is None,
        route_after=route_after,
    )


@dataclass(frozen=True)
class _Table:
    oid: int
    schema: str
    name: str
    shown: str  # schema.table, quoted where SQL would need it


def _find(tx: Tx, name: str) -> _Table:
    try:
        with tx.savepoint():
            oid = tx.scalar(sa.text("SELECT to_regclass(:name)::oid"), {"name": name})
    except DBAPIError as error:
        if _state(error) not in _WRONG_NAME:
            raise
        oid = None
    found = tx.first(
        sa.text(
            "SELECT c.relkind, n.nspname, c.relname, quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS shown,"
            " c.relpersistence, c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('event'))"
            " AS ours FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = :oid"
        ),
        {"oid": oid},
    )
    if found is None or oid is None:
        raise Invalid(
            f"there is no table {name!r} in Functory's database",
            "rows are watched where Functory's own tables are, in the same transaction",
            'write schema.table, with double quotes as in SQL: shop."Order Items"',
        )
    if found["relkind"] not in ("r", "p"):
        raise Invalid(f"{found['shown']} is no table", "rows of views and foreign tables cannot be watched")
    if found["relpersistence"] == "t":
        raise Invalid(f"{found['shown']} is a temporary table", "it ends with the session that made it")
    if found["nspname"] in ("pg_catalog", "information_schema") or (
        found["ours"]
        and (found["relname"] in db_schema.metadata.tables or found["relname"] == "alembic_version")
    ):
        raise Invalid(f"{found['shown']} cannot be watched", "writing an event changes such a table itself")
    return _Table(oid, found["nspname"], found["relname"], found["shown"])


def _check_columns(tx: Tx, table: _Table, feed: TableCapture) -> Sequence[str]:
    """Return the columns of the key. Raises :class:`Invalid` for a column that is not there, or no key."""
    known = list(
        tx.execute(
            sa.text(
                "SELECT attname FROM pg_attribute WHERE attrelid = :oid AND attnum > 0 AND NOT attisdropped"
                " ORDER BY attnum"
            ),
            {"oid": table.oid},
        ).scalars()
    )
    wrong = [name for name in (*(feed.columns or ()), *feed.hidden, *(feed.key or ())) if name not in known]
    if wrong:
        raise Invalid(
            f"{table.shown} has no column {', '.join(map(repr, wrong))}", f"it has {', '.join(known)}"
        )
    key = feed.key or tuple(
        tx.execute(
            sa.text(
                "SELECT a.attname FROM pg_index i JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)"
                " ON true JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number"
                " WHERE i.indrelid = :oid AND i.indisprimary ORDER BY k.place"
            ),
            {"oid": table.oid},
        ).scalars()
    )
    if not key:
        raise Invalid(
            f"{table.shown} has no primary key", "an event's subject names its row", "name columns with --key"
        )
    return key


def _installed(tx: Tx, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a source's function, and the table that its trigger is on (None: on none)."""
    return tx.first(
        sa.text(
            "SELECT n.nspname AS home, t.tgrelid AS oid, t.tgenabled AS enabled, t.tgrelid::regclass::text AS table"
            " FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
            " LEFT JOIN pg_trigger t ON t.tgfoid = p.oid AND t.tgparentid = 0"
            " WHERE p.proname = :name"
            " AND p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('event'))"
        ),
        {"name": _name(row)},
    )


def _name(row: Mapping[str, Any]) -> str:
    return f"functory_rows_{uuid.UUID(row['id']).hex}"


def _need_postgres(tx: Tx) -> None:
    if tx.dialect != "postgresql":
        raise Invalid(
            "rows of tables are watched on PostgreSQL only",
            f"this is {tx.dialect}: a database file cannot report what other programs write",
            "emit an event where the row is written, or set FUNCTORY_DATABASE_URL to a PostgreSQL",
        )


def _run(tx: Tx, statement: Any) -> None:
    # Without parameters the driver takes the text as it is; percent signs of names stay what they are.
    tx.connection.execution_options(no_parameters=True).exec_driver_sql(_text(tx, statement))


def _text(tx: Tx, statement: Any) -> str:
    return statement.as_string(tx.connection.connection.driver_connection)


class _PostgresErrors:
    """Translates PostgreSQL's errors about locks and rights into ours."""

    def __init__(self, table: str) -> None:
        self._table = table

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, DBAPIError):
            return
        state = _state(error)
        if state == _LOCKED:
            raise Conflict(
                f"{self._table} is busy", "transactions that write it have been open for 3 s", "try again"
            ) from None
        if state == _DENIED:
            raise Refused(
                f"Functory's database role may not watch {self._table}",
                str(error.orig).splitlines()[0],
                f"GRANT TRIGGER ON {self._table} TO that role, and USAGE on the schema",
            ) from None


def _state(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None)


def check_events(events: Collection[str]) -> None:
    """Raise :class:`ValueError` unless they are some of insert, update, delete."""
    wrong = [one for one in events if one not in EVENTS]
    if wrong or not events:
        raise ValueError(f"some of {', '.join(EVENTS)}" + (f"; got {wrong[0]!r}" if wrong else ""))

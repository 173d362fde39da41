"""Every revision, up and down, with rows in every table: what the older schema can hold is there before and after.

Rows are made from the schema as it is at each revision, so that a table or column of a coming revision is filled too.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from functory.engine.database import migrations, partitions
from functory.engine.database import schema as db_schema
from functory.engine.database.connection import Database

pytest_plugins = ["tests.support.world"]

# What the engine writes into columns that say how something stands. Each table gets a row for each word of the longest.
WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("event", "state"): ("pending", "routed", "quarantined"),
    ("execution", "state"): (
        "queued",
        "running",
        "succeeded",
        "failed",
        "timed_out",
        "cancelled",
        "dead",
        "expired",
    ),
    ("execution", "cause"): ("manual", "api", "trigger", "parent", "replay", "compensation"),
    ("attempt", "outcome"): (
        "succeeded",
        "failed",
        "timed_out",
        "crashed",
        "lost",
        "released",
        "cancelled",
    ),
    ("firing", "decision"): ("fired", "suppressed"),
    ("trigger", "state"): ("enabled", "paused", "shadow", "deleted"),
    ("function", "state"): ("enabled", "disabled", "deleted"),
    ("activation", "reason"): ("save", "activate", "promote", "rollback", "force"),
    ("version_mark", "mark"): ("good", "bad"),
    ("source", "state"): ("enabled", "paused", "deleted"),
    ("compensation", "state"): ("waiting", "pending", "running", "done", "failed", "skipped"),
    ("match_buffer", "kind"): ("debounce", "batch", "composite"),
    ("rate_limit", "control"): ("throttle", "start", "rate_limit", "rate_guard", "webhook"),
    ("schedule_tick", "origin"): ("calendar", "backfill", "manual"),
}
ROWS = 10

# Ids carry the time at which they were made, and partitions go by it: long ago, last week, now, and by a wrong clock.
AGES = (timedelta(days=400), timedelta(days=9), timedelta(days=7), timedelta(0), timedelta(days=-9))

Rows = dict[str, dict[tuple[Any, ...], dict[str, Any]]]
Schema = dict[str, set[str]]

# References that no key of the database holds: rows are made as the engine makes them.
REFERENCES = {("execution", "version_id"): "function_version", ("attempt", "execution_id"): "execution"}


def revisions() -> list[str]:
    """All revisions, the oldest first."""
    with as_file(files("functory.migrations")) as folder:
        config = Config()
        config.set_main_option("script_location", str(folder))
        return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]


class Filler:
    """Makes rows for a schema that it reads from the database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.count = itertools.count(1)
        self.now = datetime(2026, 11, 22, 12, tzinfo=UTC)
        self.tables: list[sa.Table] = []

    def reflect(self) -> Filler:
        """Read the tables as they are, those that others refer to first. To be called after each migration."""
        with self.database.read() as tx:
            parts = {part.name for part in partitions.list_partitions(tx)}
        found = sa.MetaData()
        with self.database.connection() as connection:
            found.reflect(connection, only=lambda name, _: name not in parts | {"alembic_version"})
        by_name = found.tables
        unkeyed = [(by_name[to], by_name[of]) for (of, _), to in REFERENCES.items() if of in by_name]
        self.tables = sa.schema.sort_tables(found.sorted_tables, extra_dependencies=unkeyed)
        return self

    def columns(self) -> Schema:
        """The tables and columns that there are."""
        return {table.name: {c.name for c in table.columns} for table in self.tables}

    def fill(self) -> None:
        """Rows for every table, in all columns that it has by now."""
        with self.database.connection(write=True) as connection:
            for table in self.tables:
                rows = [self.row(connection, table, number) for number in range(ROWS)]
                connection.execute(sa.insert(table), rows)
            connection.commit()

    def row(self, connection: Connection, table: sa.Table, number: int) -> dict[str, Any]:
        parents: dict[str, Any] = {}
        referring = [
            (next(iter(key.columns)), next(iter(key.elements)).column)
            for key in table.foreign_key_constraints
        ]
        for (of, name), to in REFERENCES.items():
            if table.name == of and name not in {column.name for column, _ in referring}:
                (parent,) = (one for one in self.tables if one.name == to)
                referring.append((table.c[name], parent.c.id))
        for column, referred in referring:
            order = [*referred.table.primary_key.columns]
            # The newest rows are the ones that this call of fill has made.
            values = connection.execute(sa.select(referred).order_by(*order)).scalars().all()
            taken = set(connection.execute(sa.select(column)).scalars()) if column.primary_key else set()
            free = [value for value in values if value not in taken] or values
            parents[column.name] = free[number % len(free)]
        return {
            column.name: parents[column.name] if column.name in parents else self.value(table, column, number)
            for column in table.columns
        }

    def value(self, table: sa.Table, column: sa.Column[Any], number: int) -> Any:
        unique = next(self.count)
        words = WORDS.get((table.name, column.name))
        if words is not None:
            return words[number % len(words)]
        # Every second row has what it need not have. A function has one open activation at most.
        if column.nullable and number % 2 and (table.name, column.name) != ("activation", "ended_at"):
            return None
        kind = column.type
        if isinstance(kind, sa.Uuid) or (isinstance(kind, sa.CHAR) and kind.length == 32):
            id_ = self.id(unique, AGES[number % len(AGES)])
            return id_ if isinstance(kind, sa.Uuid) else id_.hex
        if isinstance(kind, sa.Boolean):
            return bool(number % 2)
        if isinstance(kind, sa.Integer):
            return unique
        if isinstance(kind, sa.Float | sa.Numeric):
            return unique / 8
        if isinstance(kind, sa.DateTime):
            moment = self.now - AGES[number % len(AGES)] + timedelta(microseconds=unique)
            return moment if self.database.dialect == "postgresql" else moment.replace(tzinfo=None)
        if isinstance(kind, sa.Date):
            return self.now.date() + timedelta(days=unique)
        if isinstance(kind, sa.LargeBinary):
            return b"\x00\xff" + str(unique).encode()
        assert isinstance(kind, sa.String), (table.name, column.name, kind)
        text = f'"{unique} ä\\u0000 \'"'
        return text if kind.length is None or kind.length > len(text) else str(unique)

    def id(self, unique: int, age: timedelta) -> uuid.UUID:
        milliseconds = int((self.now - age).timestamp() * 1000)
        return uuid.UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62) | unique)

    def rows(self) -> Rows:
        """Everything that is stored, by table and primary key."""
        found: Rows = {}
        with self.database.connection() as connection:
            for table in self.tables:
                statement = sa.select(table)
                if table.name == "counter":
                    # What migrations write down themselves.
                    statement = statement.where(table.c.name.not_like("oldest code%"))
                if table.name == "clock":
                    # What reading the time writes down every ten seconds.
                    statement = statement.where(table.c.name != "engine")
                found[table.name] = {
                    tuple(row[column.name] for column in table.primary_key.columns): dict(row)
                    for row in connection.execute(statement).mappings()
                }
        return found


def narrowed(rows: Rows, schema: Schema) -> Rows:
    """What of ``rows`` a schema can hold."""
    return {
        table: {
            key: {name: value for name, value in row.items() if name in schema[table]}
            for key, row in found.items()
        }
        for table, found in rows.items()
        if table in schema
    }


def shape(rows: Rows) -> Schema:
    """The tables and columns of ``rows``; a table without rows has none."""
    return {table: set(next(iter(found.values()), ())) for table, found in rows.items()}


def agree(database: Database) -> None:
    """The schema is the one in the code, and no row refers to one that is not there."""
    with database.read() as tx:
        parts = {part.name for part in partitions.list_partitions(tx)}
        if database.dialect == "sqlite":
            assert tx.rows(sa.text("PRAGMA foreign_key_check")) == []
    with database.connection() as connection:
        options = {
            "compare_type": True,
            "compare_server_default": True,
            "include_name": lambda name, kind, _: kind != "table" or name not in parts,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, db_schema.metadata) == []


@pytest.fixture
def database(empty_url: str) -> Iterator[Database]:
    """An empty database."""
    opened = Database(empty_url)
    yield opened
    opened.close()


def test_rows_survive_every_revision_up_down_and_up(database: Database) -> None:
    filler = Filler(database)
    known: dict[str, Schema] = {}
    before: Rows = {}
    for revision in revisions():
        migrations.upgrade(database, revision)
        filler.reflect()
        assert narrowed(filler.rows(), shape(before)) == before, f"up to {revision}"
        known[revision] = filler.columns()
        filler.fill()
        before = filler.rows()
    agree(database)
    assert all(len(found) >= ROWS for found in before.values())
    for revision in revisions()[-2::-1]:
        migrations.downgrade(database, revision)
        assert filler.reflect().columns() == known[revision]
        before = narrowed(before, known[revision])
        assert filler.rows() == before, f"down to {revision}"
    assert migrations.upgrade(database) == migrations.HEAD
    filler.reflect()
    assert narrowed(filler.rows(), shape(before)) == before
    agree(database)
    migrations.downgrade(database, "base")
    assert filler.reflect().columns() == {}


def test_the_newest_revision_is_the_one_that_the_code_knows() -> None:
    assert revisions()[-1] == migrations.HEAD


def test_what_older_code_writes_fits_into_the_newest_schema(database: Database) -> None:
    """Code of the oldest version that may work beside this schema knows only its own columns."""
    migrations.upgrade(database, migrations.OLDEST_COMPATIBLE)
    old = Filler(database).reflect().columns()
    migrations.upgrade(database)
    found = {table.name: table for table in Filler(database).reflect().tables}
    assert set(old) <= set(found), "no table that it uses is gone"
    for name, known in old.items():
        table = found[name]
        assert known <= {column.name for column in table.columns}, f"no column of {name} is gone"
        for column in table.columns:
            if column.name not in known:
                assert column.nullable or column.server_default is not None, f"{name}.{column.name}"


def test_a_key_that_is_used_is_refused_after_all_migrations(database: Database) -> None:
    filler = Filler(database)
    first, last = revisions()[0], revisions()[-1]
    migrations.upgrade(database, first)
    filler.reflect().fill()
    migrations.upgrade(database, last)
    migrations.downgrade(database, first)
    migrations.upgrade(database, last)
    for table in filler.reflect().tables:
        with database.connection(write=True) as connection:
            row = connection.execute(sa.select(table).limit(1)).mappings().first()
            if row is None:
                # A table that the first schema did not have.
                continue
            with pytest.raises(IntegrityError):
                connection.execute(sa.insert(table), [dict(row)])
            connection.rollback()
            for key in table.foreign_key_constraints:
                (column,) = key.columns
                unknown = filler.id(0, timedelta(0))
                wrong = unknown if isinstance(column.type, sa.Uuid) else unknown.hex
                with pytest.raises(IntegrityError):
                    connection.execute(
                        sa.update(table).values({column: wrong}).where(column == row[column.name])
                    )
                    connection.commit()
                connection.rollback()

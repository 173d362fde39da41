"""The server of PostgreSQL: what it, the database or the role may not have, and Functory does not change.

A session sets what its statements rely on (:mod:`functory.engine.database.postgres_connections`). What belongs to the
operator, as a read-only database does, is reported: by roles when they start, and by ``functory doctor``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from functory.engine.database.connection import Database
from functory.engine.errors import Invalid
from functory.engine.server_problem import ServerProblem

# A role opens this many connections and more: with less room it waits, or does not start.
FEW_CONNECTIONS = 20
_ADVICE = "ALTER ROLE … RESET {0}; ALTER DATABASE … RESET {0}; or {0} in postgresql.conf"


class _Found(NamedTuple):
    """What a session finds. ``room`` is the number of connections that are free."""

    encoding: str
    schema: str | None
    role: str
    may_create: bool | None
    recovery: bool
    read_only: str
    commit: str
    fsync: str
    page_writes: str
    replication_role: str
    connections: int
    room: int


# A limit of -1 is none.
_QUERY = sa.text(
    "SELECT current_setting('server_encoding') AS encoding, current_schema() AS schema, current_user AS role,"
    " has_schema_privilege(current_schema(), 'CREATE') AS may_create, pg_is_in_recovery() AS recovery,"
    " current_setting('default_transaction_read_only') AS read_only,"
    " current_setting('synchronous_commit') AS commit, current_setting('fsync') AS fsync,"
    " current_setting('full_page_writes') AS page_writes,"
    " current_setting('session_replication_role') AS replication_role,"
    " current_setting('max_connections')::int AS connections,"
    " least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - used,"
    " nullif(datconnlimit, -1) - used_here, nullif(rolconnlimit, -1) - used_by_role) AS room"
    " FROM pg_database JOIN pg_roles ON rolname = current_user, (SELECT count(*) AS used,"
    " count(*) FILTER (WHERE datname = current_database()) AS used_here,"
    " count(*) FILTER (WHERE usename = current_user) AS used_by_role"
    " FROM pg_stat_activity WHERE backend_type = 'client backend') AS sessions"
    " WHERE datname = current_database()"
)


def problems(database: Database) -> list[ServerProblem]:
    """Return what is not as Functory needs it, the gravest first; nothing for SQLite. Raises :class:`Unavailable`."""
    if database.dialect != "postgresql":
        return []
    with database.read() as tx:
        found = _Found(**(tx.first(_QUERY) or {}))
    return sorted(_problems(found), key=lambda problem: not problem.grave)


def check_new_database(connection: Connection) -> None:
    """Refuse to make tables in a database that cannot store every text. Raises :class:`Invalid`."""
    encoding = connection.scalar(sa.text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise Invalid("the database cannot store every text", *_encoding_advice(str(encoding)))


def _encoding_advice(encoding: str) -> tuple[str, str]:
    return (
        f"its encoding is {encoding}, and events and inputs are Unicode",
        "create another database (createdb --encoding=UTF8 --template=template0 NAME), and name it in "
        "FUNCTORY_DATABASE_URL",
    )


def _problems(found: _Found) -> Iterator[ServerProblem]:
    if found.recovery:
        yield ServerProblem(
            "the server takes no writes",
            "it is a standby, which repeats what its primary writes",
            "name the primary in FUNCTORY_DATABASE_URL (?target_session_attrs=read-write finds it among several hosts)",
            grave=True,
        )
    elif found.read_only == "on":
        yield ServerProblem(
            "the database takes no writes",
            "default_transaction_read_only is on: an operator has set it, or the server's disk is nearly full",
            "when its reason is gone: " + _ADVICE.format("default_transaction_read_only"),
            grave=True,
        )
    if found.encoding != "UTF8":
        yield ServerProblem(
            "the database cannot store every text", *_encoding_advice(found.encoding), grave=True
        )
    if found.schema is None:
        yield ServerProblem(
            "there is no schema for the tables",
            "search_path names no schema that exists and that this role may use",
            "ALTER ROLE … SET search_path = public, or create the schema that search_path names",
            grave=True,
        )
    elif not found.may_create:
        yield ServerProblem(
            f"the role {found.role} may not create tables",
            f"it lacks CREATE on the schema {found.schema}; db upgrade makes tables, and a scheduler makes partitions",
            f'GRANT CREATE ON SCHEMA "{found.schema}" TO "{found.role}"',
            grave=True,
        )
    if found.replication_role == "replica":
        yield ServerProblem(
            "triggers of the database do not run",
            "session_replication_role is replica: foreign keys are not checked, and changed rows cause no events",
            _ADVICE.format("session_replication_role"),
        )
    if found.commit == "off":
        yield ServerProblem(
            "a crash of the server loses what was stored just before",
            "synchronous_commit is off: a commit does not wait for the disk",
            _ADVICE.format("synchronous_commit"),
        )
    for name, value in (("fsync", found.fsync), ("full_page_writes", found.page_writes)):
        if value == "off":
            yield ServerProblem(
                "a crash of the server's machine can destroy the database",
                f"{name} is off",
                f"ALTER SYSTEM SET {name} = on, then SELECT pg_reload_conf()",
            )
    if found.room < FEW_CONNECTIONS:
        yield ServerProblem(
            f"{max(0, found.room)} connections are free",
            f"max_connections is {found.connections}, and the database or the role may have a limit of its own",
            "raise max_connections of PostgreSQL, or lower the number of processes and FUNCTORY_WORKER_SLOTS",
        )

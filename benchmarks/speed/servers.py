"""The benchmark's own servers: on a disk, with the durability that a user's server has."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.services.installation import Missing, find
from tests.services.postgres import Postgres
from tests.services.rabbitmq import RabbitMQ
from tests.services.redis import Redis

# Its statements are not counted.
OBSERVER = "bench_observer"


class MeasuredPostgres(Postgres):
    """PostgreSQL with its usual settings, and a count of all statements."""

    def __init__(self, folder: Path | None, *, fsync: bool) -> None:
        self.parent = folder or Path(tempfile.gettempdir())
        self.settings = {
            "max_connections": 200,
            "timezone": "UTC",
            "fsync": "on" if fsync else "off",
            "shared_preload_libraries": "pg_stat_statements",
            # The names of savepoints and cursors make many statements of one.
            "pg_stat_statements.max": 20_000,
        }
        super().__init__(programs("postgres"))

    def begin_counting(self) -> psycopg.Connection:
        """Make the observer and the statistics; return a connection to read them. It is in a database of its own, so
        that its transactions do not count."""
        connection = self.connect()
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        connection.execute(f"CREATE ROLE {OBSERVER} SUPERUSER LOGIN")
        return connection

    def observer_url(self, url: str) -> str:
        """The URL of a database for the observer."""
        return url.replace("://functory@", f"://{OBSERVER}@")


class MeasuredRabbitMQ(RabbitMQ):
    """RabbitMQ whose files are on the disk."""

    def __init__(self, folder: Path | None) -> None:
        self.parent = folder or Path(tempfile.gettempdir())
        super().__init__(programs("rabbitmq"))


@contextlib.contextmanager
def broker(kind: str, folder: Path | None) -> Iterator[Any]:
    """Start a broker; yields its server."""
    server = MeasuredRabbitMQ(folder) if kind == "rabbitmq" else Redis(programs("redis"))
    with server:
        yield server


@contextlib.contextmanager
def broker_url(server: Any) -> Iterator[str]:
    """The URL of an empty virtual host or database of the broker."""
    if isinstance(server, RabbitMQ):
        with server.virtual_host() as url:
            yield url
    else:
        yield server.empty_database()


def programs(service: str) -> Any:
    """The programs of a service. Raises LookupError where it is not installed."""
    found = find(service)
    if isinstance(found, Missing):
        raise LookupError(f"{service} is not installed: {found.why}")
    return found.programs

"""A PostgreSQL server of our own, and a fresh database in it for each test."""

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.server import NotReady, Server, environment_without

if TYPE_CHECKING:
    import psycopg

ROLE = "functory"


class Postgres(Server):
    """PostgreSQL on 127.0.0.1 only, without a Unix socket, trusting every local client.

    A killed server keeps what it acknowledged: commits are written to the kernel, though not to the disk.
    """

    title = "PostgreSQL"
    account = "postgres"
    # "Fast shutdown": roll back what is open and close the clients (PostgreSQL manual, section 18.5).
    stop_signal = signal.SIGINT

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """The maintenance database, in SQLAlchemy's form."""
        return self._url("postgres")

    def prepare(self) -> None:
        """Create the cluster; the role of the tests is its superuser."""
        self.run(
            [
                self.programs["initdb"],
                *("--pgdata", self.data),
                *("--username", ROLE),
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ],
            environment_without("PG"),
        )

    def launch(self) -> None:
        """Start with settings for short-lived data."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            # The path of a socket is limited to 107 bytes, which a long TMPDIR would break.
            "unix_socket_directories": "",
            "max_connections": 200,
            # The kernel keeps what a killed process wrote, so only a crash of the machine could lose data.
            # synchronous_commit stays on: without it a killed server would forget acknowledged commits.
            "fsync": "off",
            "full_page_writes": "off",
            "wal_level": "minimal",
            "max_wal_senders": 0,
            "timezone": "UTC",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.spawn([self.programs["postgres"], "-D", self.data, *options], environment_without("PG"))

    def is_ours(self) -> bool:
        """Compare the data directory of the server that answers with ours."""
        import psycopg

        try:
            with self.connect() as connection:
                row = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError as error:
            raise NotReady(str(error)) from error
        return row is not None and Path(row[0]).resolve() == self.data

    def connect(self) -> "psycopg.Connection":
        """Open a connection with autocommit to the maintenance database, as superuser."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=ROLE, dbname="postgres", autocommit=True, connect_timeout=5
        )

    @contextmanager
    def database(self) -> Iterator[str]:
        """Give the URL of a new, empty database; drop it afterwards, even with clients connected."""
        from psycopg import sql

        name = f"test_{uuid.uuid4().hex[:12]}"
        with self.start().connect() as connection:
            # template0 is empty whatever a test did to template1.
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        yield self._url(name)
        with self.start().connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _url(self, database: str) -> str:
        return f"postgresql+psycopg://{ROLE}@127.0.0.1:{self.port}/{database}"

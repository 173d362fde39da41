"""A private PostgreSQL server, with a new database for each test."""

import os
import signal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import psycopg
from psycopg import sql

from tests.services.server import NotReady, Server, environment_without

ROLE = "functory"
# How long one ended server process may take to go.
_END_MILLISECONDS = 10_000

# The sessions of this process, by the URL of their database.
_sessions: dict[str, psycopg.Connection] = {}


class Postgres(Server):
    """A PostgreSQL server on 127.0.0.1 only. It has no Unix socket and trusts every local client.

    A killed server keeps what it acknowledged: commits are written to the kernel, though not to the disk.
    """

    title = "PostgreSQL"
    account = "postgres"
    # "Fast shutdown": roll back what is open and close the clients (PostgreSQL manual, section 18.5).
    stop_signal = signal.SIGINT
    # Further variables of the server's environment, from its next start on.
    environment: Mapping[str, str] = MappingProxyType({})
    # The server's settings, from its next start on, beside its address: those of short-lived data.
    settings: Mapping[str, Any] = {
        # There are several processes of tests, each with deployments of many roles.
        "max_connections": 500,
        # The kernel keeps what a killed process wrote, so only a crash of the machine could lose data.
        # synchronous_commit stays on: without it a killed server would forget acknowledged commits.
        "fsync": "off",
        "full_page_writes": "off",
        "wal_level": "minimal",
        "max_wal_senders": 0,
        "timezone": "UTC",
    }
    _disk = 0  # bytes of the small disk; 0 without one
    # From this version on a database can be copied as files; to copy it page by page takes twice the CPU time.
    _COPIES_FILES = 15_00_00

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """The maintenance database, in SQLAlchemy's form."""
        return self._url("postgres")

    def prepare(self) -> None:
        """Create the cluster; the tests' role is its superuser."""
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
        """Start with :attr:`settings`."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            # The path of a socket is limited to 107 bytes, which a long TMPDIR would break.
            "unix_socket_directories": "",
            **self.settings,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [self.programs["postgres"], "-D", self.data, *options]
        self.spawn([*self._disk_first(), *command], environment_without("PG") | self.environment)

    def crash(self) -> None:
        """ "Immediate shutdown": every server process ends at once, and the next start recovers from the log."""
        if self.running:
            os.kill(self.pid, signal.SIGQUIT)
            with suppress(psutil.TimeoutExpired, psutil.NoSuchProcess):
                psutil.Process(self.pid).wait(self.stop_seconds)
        self.kill()

    def backends(self, url: str) -> list[int]:
        """The processes that serve the clients of the database at ``url``."""
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'",
                [url.rpartition("/")[2]],
            )
            return [row[0] for row in rows.fetchall()]

    def terminate(self, backends: Sequence[int]) -> None:
        """End the connections of these server processes with SIGTERM, as an administrator does.

        When it returns, the processes are gone and their clients can read it: the signal alone is only sent.
        """
        with self.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, %s) FROM unnest(%s::int[]) AS pid",
                [_END_MILLISECONDS, list(backends)],
            )

    @contextmanager
    def read_only(self, url: str) -> Iterator[None]:
        """Inside the block the database at ``url`` takes no writes, as the former primary after a failover.

        All its sessions end at the beginning; those of the block would stay read-only afterwards.
        """
        name = sql.Identifier(url.rpartition("/")[2])
        setting = sql.SQL("ALTER DATABASE {} {} default_transaction_read_only {}")
        with self.connect() as connection:
            connection.execute(setting.format(name, sql.SQL("SET"), sql.SQL("= on")))
            self.terminate(self.backends(url))
            try:
                yield
            finally:
                connection.execute(setting.format(name, sql.SQL("RESET"), sql.SQL("")))

    def move_to_small_disk(self, url: str, size: int) -> None:
        """Restart with a disk of ``size`` bytes and move the database at ``url``, without connections, onto it.

        The disk is in memory and ends with the server: no other process sees it. Raises RuntimeError where a user may
        not make namespaces.
        """
        self._disk = size
        self.restart()
        with self.connect() as connection:
            name = sql.Identifier(url.rpartition("/")[2])
            connection.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(str(self.disk)))
            connection.execute(sql.SQL("ALTER DATABASE {} SET TABLESPACE small").format(name))

    @property
    def disk(self) -> Path:
        """The path of the small disk, as the server sees it."""
        return self.folder / "disk"

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Keep the small disk full inside the block."""
        ballast = str(self.disk / "ballast")
        with self.connect() as connection:
            with suppress(psycopg.errors.DiskFull):
                # The server itself fills the disk, because the disk belongs to it.
                lines = sql.SQL("COPY (SELECT repeat('x', 4095) FROM generate_series(1, {})) TO {}")
                connection.execute(lines.format(self._disk // 4096 + 1, ballast))
                raise RuntimeError("the small disk has not become full")
            try:
                yield
            finally:
                connection.execute(sql.SQL("COPY (SELECT 1 WHERE false) TO {}").format(ballast))

    def _disk_first(self) -> list[str | Path]:
        """The command that mounts the small disk and then runs the server; empty without a small disk."""
        if not self._disk:
            return []
        self.disk.mkdir(exist_ok=True)
        self._hand_over(self.disk)
        # The first namespace lets the server's user mount; in the second it is that user again, because PostgreSQL
        # refuses to run as root.
        user = [f"--map-user={self._uid or os.getuid()}", f"--map-group={self._gid or os.getgid()}"]
        mount = f'mount -t tmpfs -o size={self._disk},mode=0700 tmpfs "$0" && exec unshare --user {" ".join(user)} "$@"'
        return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, self.disk]

    def is_ours(self) -> bool:
        """Compare the data directory of the server that answers with ours."""
        try:
            with self.connect() as connection:
                row = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError as error:
            raise NotReady(str(error)) from error
        return row is not None and Path(row[0]).resolve() == self.data

    def connect(self) -> psycopg.Connection:
        """Open a connection with autocommit to the maintenance database, as superuser."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=ROLE, dbname="postgres", autocommit=True, connect_timeout=5
        )

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """Yield the URL of a new database; drop it afterwards, even with connected clients.

        It is a copy of ``template``. template0 is empty, whatever a test did to template1.
        """
        name = f"test_{uuid.uuid4().hex[:12]}"
        self._copy(template, name)
        yield self._url(name)
        with self.start().connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def template(self, name: str) -> str:
        """Make a database to copy, which stays until the server ends. Returns its URL."""
        self._copy("template0", name)
        return self._url(name)

    def session(self, url: str) -> psycopg.Connection:
        """A connection of this process to the database at ``url``, with autocommit: the same one again while it lives.

        A new connection reads PostgreSQL's catalogue first, which takes longer than most statements.
        """
        kept = _sessions.get(url)
        if kept is not None:
            try:
                kept.execute("SELECT 1")
                return kept
            except psycopg.OperationalError:
                kept.close()
        _sessions[url] = kept = psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=ROLE,
            dbname=url.rpartition("/")[2],
            autocommit=True,
            connect_timeout=5,
        )
        return kept

    def _copy(self, template: str, name: str) -> None:
        with self.start().connect() as connection:
            how = "STRATEGY FILE_COPY" if connection.info.server_version >= self._COPIES_FILES else ""
            copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} " + how)
            connection.execute(copy.format(sql.Identifier(name), sql.Identifier(template)))

    def _url(self, database: str) -> str:
        return f"postgresql+psycopg://{ROLE}@127.0.0.1:{self.port}/{database}"

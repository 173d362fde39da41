"""A private pgbouncer in front of a PostgreSQL server, in transaction mode: each transaction gets another session."""

from collections.abc import Mapping
from pathlib import Path

import psycopg

from tests.services.postgres import ROLE
from tests.services.server import NotReady, Server, environment_without


class PgBouncer(Server):
    """A pooler on 127.0.0.1 only, for every database of the server on ``behind``."""

    title = "pgbouncer"
    account = "postgres"

    def __init__(self, programs: Mapping[str, Path], behind: int) -> None:
        """``behind`` is the port of the PostgreSQL server; see `Server`."""
        super().__init__(programs)
        self._behind = behind

    def prepare(self) -> None:
        """Write the configuration: a few sessions for many clients."""
        users = self.write("users.txt", f'"{ROLE}" ""\n')
        self._file = self.write(
            "pgbouncer.ini",
            f"[databases]\n* = host=127.0.0.1 port={self._behind}\n"
            "[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\n"
            f"admin_users = {ROLE}\npool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 200\n",
        )

    def launch(self) -> None:
        """Start it in the foreground."""
        self.spawn([self.programs["pgbouncer"], self._file], environment_without("PG"))

    def is_ours(self) -> bool:
        """Ask the pooler's own database for its configuration file."""
        try:
            with psycopg.connect(
                host="127.0.0.1",
                port=self.port,
                user=ROLE,
                dbname="pgbouncer",
                autocommit=True,
                connect_timeout=5,
            ) as connection:
                cursor = psycopg.ClientCursor(connection)
                rows = dict(row[:2] for row in cursor.execute("SHOW CONFIG").fetchall())
        except psycopg.OperationalError as error:
            raise NotReady(str(error)) from error
        return rows["conffile"] == str(self._file)

    @property
    def url(self) -> str:
        """The maintenance database through the pooler."""
        return self.through(f"postgresql+psycopg://{ROLE}@127.0.0.1:{self._behind}/postgres")

    def through(self, url: str) -> str:
        """The URL of the same database through the pooler."""
        return url.replace(f":{self._behind}/", f":{self.port}/")

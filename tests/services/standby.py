"""A PostgreSQL server that follows another one by streaming replication, and can take over from it.

with Standby(primary.programs, primary) as standby:
    standby.cut_off()
    primary.kill()
    standby.promote()
"""

import time
from collections.abc import Mapping
from pathlib import Path

from tests.services.faulty_proxy import FaultyProxy
from tests.services.postgres import ROLE, Postgres
from tests.services.server import environment_without
from tests.support.patience import patient

REPLICATION = {"wal_level": "replica", "max_wal_senders": 4}
# The longest wait for the stream between the two servers, in seconds.
STREAM_SECONDS = patient(120.0)


class Standby(Postgres):
    """The copy of a running server, which is restarted once with what it needs for replication.

    The replication is asynchronous until :meth:`confirm_commits`.
    """

    settings = Postgres.settings | REPLICATION | {"wal_retrieve_retry_interval": "200ms"}

    def __init__(self, programs: Mapping[str, Path], primary: Postgres) -> None:
        """Programs as in `Server`; ``primary`` is the server to follow."""
        super().__init__(programs)
        self._primary = primary
        self._stream = FaultyProxy(primary.url)

    def prepare(self) -> None:
        """Copy the primary, and note how it is reached."""
        self._primary.settings = {**self._primary.settings, **REPLICATION}
        self._primary.restart()
        self.run(
            [
                self.programs["postgres"].with_name("pg_basebackup"),
                *("--pgdata", self.data),
                *("--host", "127.0.0.1", "--port", str(self._stream.port), "--username", ROLE),
                *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
            ],
            environment_without("PG"),
        )

    def confirm_commits(self) -> None:
        """Let the primary acknowledge a commit only when this server has it (synchronous replication)."""
        self._primary.settings = {**self._primary.settings, "synchronous_standby_names": "*"}
        self._primary.restart()

    def wait_for_stream(self) -> None:
        """Return when this server receives what the primary writes."""
        until = time.monotonic() + STREAM_SECONDS
        while not self._streams():
            if time.monotonic() > until:
                raise RuntimeError(self._failure("does not follow its primary"))
            time.sleep(0.05)

    def cut_off(self) -> None:
        """Let nothing of what the primary writes from now on reach this server."""
        self._stream.swallow()

    def promote(self) -> None:
        """Take over: this server takes writes from now on."""
        with self.connect() as connection:
            connection.execute("SELECT pg_promote()")

    def close(self) -> None:
        """Close, with the stream."""
        super().close()
        self._stream.__exit__(None, None, None)

    def _streams(self) -> bool:
        with self._primary.connect() as connection:
            row = connection.execute(
                "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
                " AND (sync_state = 'sync' OR current_setting('synchronous_standby_names') = '')"
            ).fetchone()
        return row is not None

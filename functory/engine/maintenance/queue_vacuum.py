"""Queue vacuum: cleans the queue tables of PostgreSQL while they turn over thousands of rows a second.

Every read of a queue passes over its dead rows, until a vacuum has removed them. PostgreSQL's autovacuum looks at a
table once a minute (``autovacuum_naptime``), which is a long time for a small table that each execution goes through.
"""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import backlog, in_flight, outbox, routing_queue
from functory.engine.service import Service
from functory.engine.settings import Settings

TABLES = (backlog, in_flight, routing_queue, outbox)
# Seconds between two rounds, and the dead rows from which on a table is cleaned: some twenty pages of it.
POLL_SECONDS = 10.0
MAX_DEAD_ROWS = 3000

_REGISTERED = ", ".join(f"to_regclass('{table.name}')" for table in TABLES)
# A table of another role is left alone: the server would log a warning each time.
_DEAD = sa.text(
    "SELECT t.relname FROM pg_stat_user_tables t JOIN pg_class c ON c.oid = t.relid"  # noqa: S608
    f" WHERE t.n_dead_tup > :most AND pg_has_role(c.relowner, 'USAGE') AND t.relid IN ({_REGISTERED})"
)
# Another vacuum of the table is not waited for. The file keeps its size: the queue will fill it again, and making it
# shorter would lock the table.
_VACUUM = "VACUUM (SKIP_LOCKED, TRUNCATE false)"


class QueueVacuum(Service):
    """Vacuums the queue tables that have many dead rows. SQLite has none: it reuses their space at once."""

    name, topic, poll_seconds = "queue_vacuum", None, POLL_SECONDS

    def __init__(self, database: Database, _settings: Settings) -> None:
        self._database = database

    def run_once(self) -> bool:
        """Clean what needs it. Always False: the next look is after the pause. Raises :class:`Unavailable`."""
        self.vacuum()
        return False

    def vacuum(self, most: int = MAX_DEAD_ROWS) -> list[str]:
        """Vacuum the tables with more than ``most`` dead rows, if this role of the database owns them. Returns their
        names.
        """
        if self._database.dialect != "postgresql":
            return []
        with self._database.read() as tx:
            names = list(tx.execute(_DEAD, {"most": most}).scalars())
        for name in names:
            self._database.run_alone(f'{_VACUUM} "{name}"')
        return names

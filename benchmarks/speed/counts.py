"""What a load did in the database and on the broker, by the servers' own counters."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg

from benchmarks.speed.servers import OBSERVER
from tests.services.rabbitmq import RabbitMQ

# Statements that begin and end transactions. They are counted apart: a driver may send them together with others.
_CONTROL = re.compile(r"\s*(BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE)\b", re.IGNORECASE)
_SAVEPOINT = re.compile(r"\s*(SAVEPOINT|RELEASE|ROLLBACK TO)\b", re.IGNORECASE)

# A little more than RabbitMQ's interval of statistics.
BROKER_REPORTED_AFTER_SECONDS = 6.0


@dataclass
class Counts:
    """Sums since the counters began; the difference of two is a load's."""

    statements: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    wal_bytes: int = 0
    messages: int = 0

    def since(self, before: Counts) -> Counts:
        """The difference."""
        return Counts(
            self.statements - before.statements,
            self.transactions - before.transactions,
            self.wal_bytes - before.wal_bytes,
            self.messages - before.messages,
        )

    @property
    def plain(self) -> int:
        """Statements other than those that begin and end transactions and savepoints."""
        return sum(count for text, count in self.statements.items() if not _CONTROL.match(text))

    @property
    def control(self) -> int:
        """Statements that begin and end transactions."""
        return sum(
            count
            for text, count in self.statements.items()
            if _CONTROL.match(text) and not _SAVEPOINT.match(text)
        )

    @property
    def savepoints(self) -> int:
        """Statements that make and end savepoints."""
        return sum(count for text, count in self.statements.items() if _SAVEPOINT.match(text))


class PostgresCounters:
    """Reads the counters of one database."""

    def __init__(self, statistics: psycopg.Connection, url: str) -> None:
        self._statistics = statistics
        self._url = url
        self._database = url.rpartition("/")[2]

    def read(self) -> Counts:
        """Read the counters. A transaction that writes has a number of PostgreSQL; one that only reads is counted among
        the statements alone.
        """
        rows = self._statistics.execute(
            "SELECT s.query, sum(s.calls)::bigint FROM pg_stat_statements s "
            "JOIN pg_database d ON d.oid = s.dbid JOIN pg_roles r ON r.oid = s.userid "
            "WHERE d.datname = %s AND r.rolname <> %s GROUP BY s.query",
            [self._database, OBSERVER],
        ).fetchall()
        one: Any = self._statistics.execute(
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, "
            "pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
        ).fetchone()
        return Counts(Counter(dict(rows)), one[0], one[1])

    def hot_shares(self) -> dict[str, dict[str, float]]:
        """By table with at least 100 updates: updates since the counters began, and the share in place (HOT)."""
        with psycopg.connect(self._url.replace("postgresql+psycopg", "postgresql"), autocommit=True) as found:
            rows = found.execute(
                "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables "
                "WHERE n_tup_upd >= 100 ORDER BY n_tup_upd DESC"
            ).fetchall()
        return {name: {"updates": updates, "hot": round(hot / updates, 3)} for name, updates, hot in rows}


def published(server: Any, url: str) -> int:
    """Messages that were published on the broker, by its own counter."""
    if isinstance(server, RabbitMQ):
        return server.published(url)
    with server.connect() as client:
        return client.info("commandstats").get("cmdstat_lpush", {}).get("calls", 0)

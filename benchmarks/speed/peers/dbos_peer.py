"""DBOS: queued workflows in the same PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import psycopg

from benchmarks.speed.peers.peer import Peer, installed


class DbosPeer(Peer):
    """Its queue has no limit of running workflows, which is its default and its quickest way."""

    name = "dbos"
    share = 0.1
    client = "benchmarks.speed.peers.dbos_client"

    def environment(self, stack: contextlib.ExitStack) -> Mapping[str, str]:
        installed("dbos")
        if self._deployment.postgres is None:
            raise LookupError("an embedded deployment has no PostgreSQL")
        url = stack.enter_context(self._deployment.postgres.database()).replace("+psycopg", "")
        self._connection = stack.enter_context(psycopg.connect(url, autocommit=True))
        return {"PEER_DATABASE": url}

    def command(self) -> Sequence[str]:
        return ["benchmarks.speed.peers.dbos_app"]

    def is_ready(self) -> bool:
        """Its worker makes the tables, then registers the queue."""
        try:
            return self._count("queues") > 0
        except psycopg.errors.UndefinedTable:
            return False

    def stored(self) -> int:
        return self._count("workflow_status WHERE status = 'SUCCESS'")

    def _count(self, rows: str) -> int:
        found = self._connection.execute(f"SELECT count(*) FROM dbos.{rows}").fetchone()  # type: ignore[arg-type]
        return found[0] if found else 0

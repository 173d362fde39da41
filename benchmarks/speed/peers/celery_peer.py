"""Plain Celery on the same broker, without results, and with results in the same PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import psycopg

from benchmarks.speed import servers
from benchmarks.speed.peers.peer import Peer


class CeleryPeer(Peer):
    """Celery without results: what a broker and a worker do at most."""

    name = "celery"
    client = "benchmarks.speed.peers.celery_app"
    has_stream = True

    def environment(self, stack: contextlib.ExitStack) -> Mapping[str, str]:
        if self._deployment.broker is None:
            raise LookupError("an embedded deployment has no broker that another process could use")
        url = stack.enter_context(servers.broker_url(self._deployment.broker))
        return {"PEER_BROKER": url, "PEER_QUEUE": self.name}

    def command(self) -> Sequence[str]:
        app = ["celery", "-A", "benchmarks.speed.peers.celery_app", "worker"]
        pool = ["--pool", "threads", "-c", str(self.options.slots)]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]
        return [*app, *pool, *quiet]


class CeleryResultsPeer(CeleryPeer):
    """Celery that stores the result of each task in PostgreSQL, with its own database backend."""

    name = "celery-results"
    share = 0.25
    has_stream = False

    def environment(self, stack: contextlib.ExitStack) -> Mapping[str, str]:
        found = super().environment(stack)
        assert self._deployment.postgres is not None
        url = stack.enter_context(self._deployment.postgres.database())
        self._connection = stack.enter_context(psycopg.connect(url.replace("+psycopg", ""), autocommit=True))
        return {**found, "PEER_RESULTS": f"db+{url}"}

    def stored(self) -> int:
        try:
            row = self._connection.execute(
                "SELECT count(*) FROM celery_taskmeta WHERE status = 'SUCCESS'"
            ).fetchone()
        except psycopg.errors.UndefinedTable:
            # Made at the first result.
            return 0
        return row[0] if row else 0

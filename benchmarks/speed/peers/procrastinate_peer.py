"""procrastinate: tasks in the same PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import psycopg

from benchmarks.speed.peers.peer import Peer, installed


class ProcrastinatePeer(Peer):
    """Its tasks are coroutines, as many at a time as there are slots."""

    name = "procrastinate"
    share = 0.25
    client = "benchmarks.speed.peers.procrastinate_client"
    has_stream = True

    def environment(self, stack: contextlib.ExitStack) -> Mapping[str, str]:
        installed("procrastinate")
        if self._deployment.postgres is None:
            raise LookupError("an embedded deployment has no PostgreSQL")
        url = stack.enter_context(self._deployment.postgres.database()).replace("+psycopg", "")
        self._connection = stack.enter_context(psycopg.connect(url, autocommit=True))
        return {"PEER_DATABASE": url}

    def command(self) -> Sequence[str]:
        return ["benchmarks.speed.peers.procrastinate_app"]

    def stored(self) -> int:
        row = self._connection.execute(
            "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
        ).fetchone()
        return row[0] if row else 0

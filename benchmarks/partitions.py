"""What partitions by the week would cost the hot statements: none, half a year, two years of them.

Tables of the shape of ``execution``, ``event`` and ``log``, with their partial indexes, hold the same rows whole and
partitioned; every statement is timed as a client sees it, in a transaction that is rolled back.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from functory.engine.database.clock import lowest_id
from tests.services.installation import Found, find

if TYPE_CHECKING:
    import psycopg

WEEKS = (0, 26, 104)
ROWS = 200_000
TIMES = 300
NOW = datetime(2026, 3, 4, tzinfo=UTC)

# One row in this number is open; all of those are of the newest week.
OPEN_EVERY = 200

STATEMENTS = {
    "claim 10 (by id)": "UPDATE run SET state = 'running', fence = fence + 1 WHERE id = ANY(%(ids)s::uuid[])"
    " AND state = 'queued' RETURNING *",
    "finish (by id)": "UPDATE run SET state = 'succeeded', finished_at = now() WHERE id = %(id)s AND fence = 0",
    "dispatch (50 due, in order)": "SELECT id FROM run WHERE state = 'queued' ORDER BY priority DESC, queue_at, id"
    " LIMIT 50 FOR UPDATE SKIP LOCKED",
    "lost leases": "SELECT id FROM run WHERE state = 'running' AND lease_until < now() ORDER BY id LIMIT 200"
    " FOR UPDATE SKIP LOCKED",
    "take 100 pending events": "SELECT * FROM happening WHERE state = 'pending' ORDER BY id LIMIT 100"
    " FOR UPDATE SKIP LOCKED",
    "tree of a root": "SELECT * FROM run WHERE root_id = %(id)s",
    "log lines of one (by id)": "SELECT * FROM line WHERE execution_id = %(id)s",
    "insert 10 log lines": "INSERT INTO line SELECT %(id)s, 9, n, 'text' FROM generate_series(1, 10) AS n",
}


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Measure on PostgreSQL. Returns the medians in milliseconds by statement and number of partitions."""
    found = find("postgres")
    if not isinstance(found, Found):
        return {"skipped": found.why}
    from tests.services.postgres import Postgres

    figures: dict[str, Any] = {}
    with Postgres(found.programs) as server:
        for weeks in WEEKS:
            with server.connect() as connection:
                for name, milliseconds in measure(connection, weeks).items():
                    figures.setdefault(name, {})[str(weeks)] = milliseconds
    if not quiet:
        print(f"\n{ROWS:,} rows; milliseconds a statement, by the number of partitions")
        print(f"  {'':<32}" + "".join(f"{weeks or 'none':>10}" for weeks in WEEKS))
        for name, values in figures.items():
            print(f"  {name:<32}" + "".join(f"{value:>10.3f}" for value in values.values()))
    return figures


def measure(connection: psycopg.Connection, weeks: int) -> dict[str, float]:
    """The medians of all statements; as prepared statements, which the engine's connections use after a while."""
    ids = _fill(connection, weeks)
    figures = {}
    for name, statement in STATEMENTS.items():
        for prepared in (True, False):
            taken = []
            for turn in range(TIMES):
                chosen = ids[(turn * 7919) % len(ids)]
                values = {"id": chosen, "ids": [ids[(turn * 7919 + n) % len(ids)] for n in range(10)]}
                with connection.transaction(force_rollback=True):
                    start = time.perf_counter()
                    connection.execute(statement, values, prepare=prepared)
                    taken.append((time.perf_counter() - start) * 1000)
            figures[name + ("" if prepared else ", unprepared")] = statistics.median(taken)
    return figures


def _fill(connection: psycopg.Connection, weeks: int) -> Sequence[str]:
    """Make and fill the tables. Returns the ids of the open executions."""
    connection.execute("DROP TABLE IF EXISTS line, run, happening")
    kind = "PARTITION BY RANGE ({})" if weeks else ""
    connection.execute(
        "CREATE TABLE run (id uuid PRIMARY KEY, root_id uuid NOT NULL, state text NOT NULL, priority int NOT NULL,"
        " fence int NOT NULL, queue_at timestamptz NOT NULL, lease_until timestamptz, finished_at timestamptz,"
        " input text NOT NULL) " + kind.format("id")
    )
    connection.execute(
        "CREATE TABLE happening (id uuid PRIMARY KEY, root_id uuid NOT NULL, state text NOT NULL, data text) "
        + kind.format("id")
    )
    connection.execute(
        "CREATE TABLE line (execution_id uuid, fence int, seq int, text text, PRIMARY KEY (execution_id, fence, seq)) "
        + kind.format("execution_id")
    )
    connection.execute("CREATE INDEX ON run (priority DESC, queue_at, id) WHERE state = 'queued'")
    connection.execute("CREATE INDEX ON run (lease_until) WHERE state = 'running'")
    connection.execute("CREATE INDEX ON run (root_id)")
    connection.execute("CREATE INDEX ON happening (id) WHERE state = 'pending'")
    week = timedelta(days=7)
    start = NOW - week * max(weeks, 1)
    for number in range(weeks):
        first, end = lowest_id(start + week * number), lowest_id(start + week * (number + 1))
        for table in ("run", "happening", "line"):
            connection.execute(
                f"CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES FROM ('{first}') TO ('{end}')"
            )
    step = (NOW - start) / ROWS
    open_from = ROWS - ROWS // OPEN_EVERY
    ids = [lowest_id(start + step * number) for number in range(ROWS)]
    cursor = connection.cursor()
    with cursor.copy("COPY run FROM STDIN") as copy:
        for number, id_ in enumerate(ids):
            state = "queued" if number >= open_from else "succeeded"
            copy.write_row((id_, id_, state, 0, 0, start + step * number, None, None, '{"order": 1}' * 8))
    with cursor.copy("COPY happening FROM STDIN") as copy:
        for number, id_ in enumerate(ids):
            copy.write_row((id_, id_, "pending" if number >= open_from else "routed", '{"order": 1}' * 8))
    with cursor.copy("COPY line FROM STDIN") as copy:
        for id_ in ids:
            copy.write_row((id_, 1, 1, "a line of a log"))
    connection.execute("ANALYZE run, happening, line")
    return ids[open_from:]


if __name__ == "__main__":
    run()

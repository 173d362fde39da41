"""What a long queue costs: a round of the dispatcher and a claim by polling, with 100,000 queued executions.

Over one function and over 1,000, on SQLite and PostgreSQL, beside the same with ten queued executions. The rows are
written straight into the table.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.database.schema import execution
from functory.engine.executions import dispatch
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.executions.start import new_row
from functory.engine.functions.registry import Functions
from functory.engine.settings import load_settings
from tests.services.installation import Missing, find

QUEUED = 100_000
ROUNDS = 20
SOURCE = "def noop():\n    return 1\n"


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Milliseconds of each operation, the median of several. Returns the figures."""
    figures: dict[str, Any] = {}
    for name, opened in (("sqlite", on_sqlite), ("postgresql", on_postgres)):
        for queued, functions in ((10, 1), (QUEUED, 1), (QUEUED, 1000)):
            title = f"{name}, {queued:,} queued, {functions:,} function{'s' if functions > 1 else ''}"
            try:
                with opened() as url:
                    figures[title] = measure(url, queued, functions)
            except LookupError as error:
                figures[title] = {"skipped": str(error)}
            if not quiet:
                print(f"  {title:<44} {figures[title]}")
    return figures


def measure(url: str, queued: int, functions: int) -> dict[str, float]:
    """Fill a new database and time what dispatchers and workers ask it."""
    database = Database(url)
    migrations.upgrade(database)
    stored = Functions(database, settings=load_settings())
    stored.save(SOURCE)
    version = stored.get("noop")
    with database.write() as tx:
        made = [
            new_row(tx, version, {}, cause="api", root_id=None, depth=0, chain=[])
            | {"function": f"f{n % functions:04}"}
            for n in range(queued)
        ]
        for start in range(0, len(made), 5000):
            tx.insert(execution, made[start : start + 5000])
        if tx.dialect == "postgresql":
            tx.execute(sa.text("ANALYZE execution"))
    dispatcher = DispatchWindow(1e9)
    attempts = Attempts(database, "bench", lease_seconds=60)

    def send() -> None:
        dispatch.take_due(database, redispatch=60, worker_ttl=60, window=dispatcher, limit=500)

    def back() -> None:
        dispatch.redispatch_now(database)

    figures = {
        "dispatch": median_ms(send, back),
        "full_window": 0.0,
        "any_due": median_ms(lambda: attempts.any_due(waited=0.0)),
    }
    send()
    figures["full_window"] = median_ms(send)
    back()
    figures["claim_any(4)"] = median_ms(lambda: attempts.claim_any(4)) if queued > 100 else 0.0
    database.close()
    return figures


def median_ms(work: Callable[[], Any], after: Callable[[], Any] = lambda: None) -> float:
    """The median of several turns, milliseconds."""
    took = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        took.append((time.perf_counter() - start) * 1000)
        after()
    return round(statistics.median(took), 2)


@contextlib.contextmanager
def on_sqlite() -> Iterator[str]:
    """A file."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'rows.db'}"


@contextlib.contextmanager
def on_postgres() -> Iterator[str]:
    """A database of a server of our own."""
    from tests.services.postgres import Postgres

    found = find("postgres")
    if isinstance(found, Missing):
        raise LookupError("postgres is not installed")
    with Postgres(found.programs) as server, server.database() as url:
        yield url


if __name__ == "__main__":
    run()

"""Pruning: rows a second that it deletes, and what emitting an event costs meanwhile, on both databases."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.database.clock import ManualClock, SystemClock, lowest_id
from functory.engine.database.connection import Database
from functory.engine.events.store import Events
from functory.engine.maintenance import tree_deletion
from functory.engine.maintenance.pruner import Pruner
from functory.engine.settings import Settings
from tests.services.installation import Found, find

TREES = 5_000
LOG_LINES = 4
EMITS = 300
OLD = datetime(2026, 1, 1, tzinfo=UTC)


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Measure on SQLite, and on PostgreSQL where it is. Returns the figures of each."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        figures["sqlite"] = measure(Path(folder), None)
    found = find("postgres")
    if isinstance(found, Found):
        from tests.services.postgres import Postgres

        with (
            tempfile.TemporaryDirectory() as folder,
            Postgres(found.programs) as server,
            server.database() as url,
        ):
            figures["postgresql"] = measure(Path(folder), url)
    if not quiet:
        for database, values in figures.items():
            print(f"\n{database}: {TREES:,} old trees")
            for name, value in values.items():
                print(f"  {name:<40} {value:>12,.2f}")
    return figures


def measure(folder: Path, url: str | None) -> dict[str, float]:
    """Old trees of one event, one execution and a few log lines; then emit with and without a pruner beside."""
    given: dict[str, Any] = {"home": folder} | (
        {} if url is None else {"database_url": url.replace("+psycopg", "")}
    )
    with Functory(Settings(**given, keep_days=30)) as engine:
        from functory.engine.database import migrations

        migrations.upgrade(engine.database)
        version = engine.functions.save("def noop():\n    return 1\n")
        fill(engine.database, version["id"])
        events = Events(engine.database, 1_000_000)
        alone = emit_latencies(events)
        pruner = Pruner(engine.database, engine.settings)
        found, _ = tree_deletion.preview(engine.database, tree_deletion.RetentionLimits(timedelta(days=30)))
        beside: list[float] = []
        over = threading.Event()

        def emit() -> None:
            while not over.is_set():
                beside.extend(emit_latencies(events, 20))

        thread = threading.Thread(target=emit)
        start = time.perf_counter()
        thread.start()
        while pruner.prune():
            time.sleep(pruner.next_due() or 0)
        taken = time.perf_counter() - start
        over.set()
        thread.join()
        left, _ = tree_deletion.preview(engine.database, tree_deletion.RetentionLimits(timedelta(days=30)))
        rows = sum(count for name, count in (found - left).items() if name != "trees")
        return {
            "rows deleted": rows,
            "rows a second, resting half of the time": rows / taken,
            "emit alone, median ms": statistics.median(alone) * 1000,
            "emit alone, p99 ms": _p99(alone) * 1000,
            "emit beside the pruner, median ms": statistics.median(beside) * 1000,
            "emit beside the pruner, p99 ms": _p99(beside) * 1000,
        }


def emit_latencies(events: Events, count: int = EMITS) -> list[float]:
    """Seconds of each emit."""
    taken = []
    for number in range(count):
        start = time.perf_counter()
        events.emit("bench.tick", {"n": number})
        taken.append(time.perf_counter() - start)
    return taken


def fill(database: Database, version_id: str) -> None:
    """Write old trees as they are once all of them has ended."""
    numbers = itertools.count(1)
    database.clock = ManualClock(OLD)
    for _ in range(TREES // 500):
        rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("event", "execution", "attempt", "log")
        }
        for _ in range(500):
            _tree(rows, version_id, lambda: lowest_id(OLD)[:-12] + f"{next(numbers):012x}")
        with database.write() as tx:
            for name, found in rows.items():
                tx.insert(schema.metadata.tables[name], found)
    database.clock = SystemClock()


def _tree(rows: dict[str, list[dict[str, Any]]], version_id: str, new: Any) -> None:
    id_ = new()
    ended = OLD + timedelta(seconds=1)
    rows["execution"].append(
        {
            "id": id_,
            "function": "noop",
            "version": 1,
            "version_id": version_id,
            "cause": "api",
            "root_id": id_,
            "depth": 0,
            "chain": [],
            "input": {},
            "state": "succeeded",
            "attempt": 1,
            "failures": 0,
            "released": 0,
            "max_attempts": 1,
            "retries": 0,
            "fence": 1,
            "priority": 0,
            "run_at": OLD,
            "created_at": OLD,
            "started_at": OLD,
            "finished_at": ended,
        }
    )
    rows["attempt"].append(
        {
            "execution_id": id_,
            "fence": 1,
            "number": 1,
            "worker_id": "w",
            "started_at": OLD,
            "ended_at": ended,
            "outcome": "succeeded",
        }
    )
    for type_ in ("execution.started", "execution.succeeded"):
        rows["event"].append(
            {
                "id": new(),
                "type": type_,
                "source": "/bench",
                "subject": "noop",
                "time": OLD,
                "data": {},
                "root_id": id_,
                "cause_execution_id": id_,
                "depth": 0,
                "chain": [],
                "state": "routed",
                "routed_at": ended,
            }
        )
    for seq in range(LOG_LINES):
        rows["log"].append(
            {
                "execution_id": id_,
                "fence": 1,
                "seq": seq,
                "stream": "stdout",
                "level": "info",
                "text": "a line of a log, of some length " * 3,
                "offset_seconds": 0.0,
            }
        )


def _p99(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.99) - 1]


if __name__ == "__main__":
    run()

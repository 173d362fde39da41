"""Routing end to end, on PostgreSQL with 10,000 triggers: events a second through the router's transaction.

Events of the ``scoped`` workload are emitted beforehand; then one router takes them batch by batch: index, guards,
budgets, firings, executions, commit. Beside it, in the same run, the same router with a single trigger: what
the number of triggers costs. And a backtest of one trigger over the same events.
"""

from __future__ import annotations

import json
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks import workload
from functory.client.functory import Functory
from functory.engine.database import counters, migrations, schema
from functory.engine.events import store as event_store
from functory.engine.settings import load_settings
from functory.triggers import definition
from functory.triggers.routing.router import Router
from tests.services.installation import Missing, find

TRIGGERS = 10_000
EVENTS = 20_000
BATCH = 500


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Measure; prints the figures unless ``quiet``. Skipped, with the reason, without PostgreSQL."""
    from tests.services.postgres import Postgres

    found = find("postgres")
    if isinstance(found, Missing):
        return {"skipped": "PostgreSQL is not installed"}
    figures: dict[str, Any] = {}
    with Postgres(found.programs) as server:
        for count in (1, TRIGGERS):
            with server.database() as url, tempfile.TemporaryDirectory() as folder:
                settings = load_settings(
                    home=Path(folder),
                    database_url=url,
                    broker_url="amqp://absent@127.0.0.1:1/",
                    batch_size=BATCH,
                )
                with Functory(settings) as engine:
                    migrations.upgrade(engine.database)
                    figures[str(count)] = measure(engine, count)
    if not quiet:
        print(f"\nrouting on PostgreSQL, {EVENTS:,} events, batches of {BATCH}")
        for count, row in figures.items():
            print(
                f"  {int(count):>7,} triggers  {row['events_per_second']:>8,.0f} events/s   {row['fired']:>6,} fired"
                f"   first batch (compiling) {row['first_batch_seconds']:.2f} s"
                f"   backtest {row['backtest_events_per_minute']:>10,.0f} events/min"
            )
    return figures


def measure(engine: Functory, count: int) -> dict[str, Any]:
    """One size of the trigger set."""
    engine.functions.save("def work(event):\n    return None\n")
    fill(engine, count)
    since = engine.database.clock.now() - timedelta(hours=1)
    router = Router(engine.database, engine.settings)
    emit(engine, BATCH)
    start = time.perf_counter()
    while router.route_batch().events:
        pass
    first = time.perf_counter() - start
    emit(engine, EVENTS)
    start = time.perf_counter()
    fired = done = 0
    while True:
        routed = router.route_batch()
        if not routed.events:
            break
        done += routed.events
        fired += len(routed.fired)
    seconds = time.perf_counter() - start
    name = engine.triggers.list()[0]["name"]
    tested = engine.backtest(
        name, {"on": {"data": {"labels": {"env": ["prod"]}}}, "function": "work"}, since=since
    )
    return {
        "events_per_second": round(done / seconds, 1),
        "fired": fired,
        "first_batch_seconds": round(first, 3),
        "backtest_events_per_minute": tested.as_json()["events_per_minute"],
    }


def fill(engine: Functory, count: int) -> None:
    """Store the workload's triggers in one go."""
    with engine.database.write() as tx:
        value = counters.bump(tx, counters.TRIGGERS)
        heads, versions = [], []
        for name, pattern in workload.triggers("scoped", count):
            id_ = tx.new_id()
            made = definition.define(on=pattern, function="work")
            heads.append({"id": id_, "name": name, "state": "enabled", "origin": "user", "version": 1, "changed": value,
                          "created_at": tx.now, "updated_at": tx.now})  # fmt: skip
            versions.append({"trigger_id": id_, "number": 1, "definition": made, "sha256": "0" * 64, "author": "bench",
                             "created_at": tx.now})  # fmt: skip
        tx.insert(schema.trigger, heads)
        tx.insert(schema.trigger_version, versions)


def emit(engine: Functory, count: int) -> None:
    """Write the workload's events into the outbox."""
    lines = workload.events("scoped", count)
    for start in range(0, count, 1000):
        with engine.database.write() as tx:
            rows = []
            for line in lines[start : start + 1000]:
                found = json.loads(line)
                rows.append(
                    event_store.record(
                        tx, found["type"], found.get("subject"), found["data"], source="/bench"
                    )
                )
            event_store.append(tx, rows)


if __name__ == "__main__":
    run()

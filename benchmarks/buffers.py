"""Open debounce keys: what routing costs beside them, how fast they are decided about, and what they weigh."""

from __future__ import annotations

import resource
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import event

from functory.client.functory import Functory
from functory.engine.database.clock import ManualClock
from functory.engine.database.connection import Database
from functory.engine.events import store as event_store
from functory.engine.settings import load_settings
from functory.triggers.routing.release import Release
from functory.triggers.routing.router import Router

KEYS = 10_000
ROUTED = 2_000
SOURCE = "def noop(event=None):\n    return 1\n"


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Measure on SQLite. Returns the figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Functory(load_settings(home=Path(folder), batch_size=100)) as engine,
    ):
        figures = measure(engine.database, engine)
    if not quiet:
        print(f"\n{KEYS:,} open debounce keys")
        for name, value in figures.items():
            print(f"  {name:<34} {value:>12,.2f}")
    return figures


def measure(database: Database, engine: Functory) -> dict[str, Any]:
    """Plain events are routed with no key open and with all of them; then everything is due at once."""
    clock = ManualClock(datetime.now().astimezone())
    database.clock = clock
    router, turn = Router(database, engine.settings), Release(database, engine.settings)
    engine.functions.save(SOURCE)
    engine.register_trigger("plain", on={"type": ["bench.plain"]}, function="noop", guards={"rate": 0})
    held = {"debounce": {"period": "1h", "key": "data.key"}}
    engine.register_trigger(
        "held", on={"type": ["bench.held"]}, function="noop", flow=held, guards={"rate": 0}
    )
    _drain(router)
    turn.run_once()
    _routing_rate(database, router, "bench.plain", ROUTED)
    before = _routing_rate(database, router, "bench.plain", ROUTED)
    opening = _routing_rate(database, router, "bench.held", KEYS)
    again = _routing_rate(database, router, "bench.held", ROUTED)
    beside = _routing_rate(database, router, "bench.plain", ROUTED)
    idle = _idle_seconds(turn)
    sent = _statements(database, lambda: _routing_rate(database, router, "bench.held", 100))
    clock.advance(timedelta(hours=2).total_seconds())
    start = time.perf_counter()
    while turn.run_once():
        pass
    seconds = time.perf_counter() - start
    return {
        "routing, no key open (events/s)": before,
        "routing, all keys open (events/s)": beside,
        "ratio": beside / before,
        "opening keys (events/s)": opening,
        "into open keys (events/s)": again,
        "statements a batch of 100": sent,
        "a turn with nothing due (ms)": idle * 1000,
        "decided (keys/s)": KEYS / seconds,
        "peak memory (MiB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _routing_rate(database: Database, router: Router, type_: str, count: int) -> float:
    """Events a second, written before."""
    for start in range(0, count, 1000):
        with database.write() as tx:
            rows = [
                event_store.record(tx, type_, None, {"key": str(number % KEYS)}, source="/bench")
                for number in range(start, min(count, start + 1000))
            ]
            event_store.append(tx, rows)
    start_at = time.perf_counter()
    _drain(router)
    return count / (time.perf_counter() - start_at)


def _drain(router: Router) -> None:
    while router.route_batch().events:
        pass


def _idle_seconds(turn: Release) -> float:
    turn.run_once()
    start = time.perf_counter()
    for _ in range(20):
        turn.run_once()
        turn.next_due()
    return (time.perf_counter() - start) / 20


def _statements(database: Database, work: Any) -> int:
    """How many statements route 100 held matches in one batch, with the look that finds no other."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        if not text.startswith(("BEGIN", "PRAGMA")):
            sent.append(text)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    # Two write the events.
    return len(sent) - 2

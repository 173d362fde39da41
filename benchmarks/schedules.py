"""Schedules: ticks a second, how late 1,000 are that are due at once, and what 10,000 cost while nothing is due.

On SQLite and on PostgreSQL, by one ticker in its loop as the scheduler runs it. Beside it, in the same run, celery
beat's scheduler in memory with an in-memory broker: it writes nothing down, so a kill loses what was due, and two of
them send everything twice.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from functory.engine.database import counters, migrations, schema
from functory.engine.database.connection import Database
from functory.engine.settings import Settings
from functory.roles.service_loop import ServiceLoop
from functory.triggers.sources.schedules import ScheduleConfig
from functory.triggers.sources.schedules.ticker import Ticker
from tests.services.installation import Missing, find

STORED = 10_000
AT_ONCE = 1_000
IDLE_SECONDS = 5.0
# Before the time at which all are due: the ticker has gone to sleep by then.
AHEAD_SECONDS = 3.0


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Measure; prints the figures unless ``quiet``. PostgreSQL is left out where it is not installed."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        figures["sqlite"] = measure(f"sqlite:///{folder}/functory.db", Path(folder), None)
    found = find("postgres")
    if not isinstance(found, Missing):
        from tests.services.postgres import Postgres

        with (
            tempfile.TemporaryDirectory() as folder,
            Postgres(found.programs) as server,
            server.database() as url,
        ):
            figures["postgresql"] = measure(url, Path(folder), psutil.Process(server.pid))
    figures["celery beat"] = measure_celery_beat()
    if not quiet:
        show(figures)
    return figures


def measure(url: str, home: Path, server: psutil.Process | None) -> dict[str, Any]:
    """One database: idle first, then all at once, then as many as it can."""
    settings = Settings(home=home)
    database = Database(url)
    migrations.upgrade(database)
    try:
        fill(database, "idle", STORED, database.clock.now() + timedelta(days=200))
        analyse(database)
        figures = {"idle_cpu_percent": measure_idle(database, settings, server)}
        figures |= measure_due_at_once(database, settings)
        fill(database, "due", STORED, database.clock.now() - timedelta(seconds=2))
        figures["ticks_per_second"] = drain(database, settings)
    finally:
        database.close()
    return figures


def fill(database: Database, prefix: str, count: int, due_at: datetime) -> datetime:
    """Store daily schedules in one go, as ``add`` would: all are due at the returned time."""
    due = due_at.replace(microsecond=0)
    made = ScheduleConfig(cron=f"{due:%S} {due:%M} {due:%H} * * *")
    with database.write() as tx:
        changed = counters.bump(tx, counters.SOURCES)
        heads, rows = [], []
        for number in range(count):
            id_ = tx.new_id()
            heads.append({"id": id_, "kind": "schedule", "name": f"{prefix}{number}", "state": "enabled", "version": 1,
                          "config": made.model_dump(mode="json", exclude_none=True), "author": "bench",
                          "changed": changed, "fence": 0, "cursor": None, "created_at": tx.now,
                          "updated_at": tx.now})  # fmt: skip
            rows.append({"source_id": id_, "version": 1, "timing": made.timing, "fire_at": due, "next_at": due,
                         "missed": 0})  # fmt: skip
        tx.insert(schema.source, heads)
        tx.insert(schema.schedule, rows)
    return due


def analyse(database: Database) -> None:
    """Let the planner know what is there, as autovacuum would within a minute."""
    with database.write() as tx:
        tx.execute(sa.text("ANALYZE"))


def measure_idle(database: Database, settings: Settings, server: psutil.Process | None) -> dict[str, float]:
    """Percent of one core that the ticker's loop takes, and the database server for it, with nothing due."""
    loop = ServiceLoop(Ticker(database, settings), database.wakeup)
    loop.start()
    time.sleep(1)
    before, before_there, start = time.process_time(), _cpu_seconds(server), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    seconds = time.perf_counter() - start
    figures = {
        "scheduler": round(100 * (time.process_time() - before) / seconds, 3),
        "database": round(100 * (_cpu_seconds(server) - before_there) / seconds, 3),
    }
    loop.stop()
    loop.join()
    return figures


def measure_due_at_once(database: Database, settings: Settings) -> dict[str, Any]:
    """How long after their due time the events of 1,000 schedules were committed, with 10,000 others stored."""
    due = fill(database, "now", AT_ONCE, database.clock.now() + timedelta(seconds=AHEAD_SECONDS))
    ticker = Ticker(database, settings)
    late: list[float] = []
    while len(late) < AT_ONCE:
        ticker.run_once()
        ended = (database.clock.now() - due).total_seconds()
        with database.read() as tx:
            done = tx.scalar(sa.select(sa.func.count()).select_from(schema.schedule_tick))
        late += [ended] * (done - len(late))
        left = ticker.next_due()
        if left:
            # As the loop waits: until it is due, or for the next look.
            time.sleep(min(settings.poll_seconds, left))
    late.sort()
    return {
        "at_once": AT_ONCE,
        "late_p50_ms": round(1000 * statistics.median(late), 1),
        "late_p99_ms": round(1000 * late[int(len(late) * 0.99)], 1),
        "late_last_ms": round(1000 * late[-1], 1),
    }


def drain(database: Database, settings: Settings) -> float:
    """Ticks a second while 10,000 are due."""
    ticker = Ticker(database, settings)
    start = time.perf_counter()
    while ticker.run_once():
        pass
    seconds = time.perf_counter() - start
    return round(STORED / seconds, 1)


def measure_celery_beat() -> dict[str, Any]:
    """Celery beat's scheduler: its look at 10,000 entries of which nothing is due, and 1,000 due at once.

    These are alone: each tick compares all entries with what it knew, which among 10,000 takes a minute.
    """
    from celery import Celery
    from celery import schedules as times
    from celery.beat import ScheduleEntry, Scheduler

    app = Celery("peer", broker="memory://")
    app.conf.update(task_ignore_result=True, beat_max_loop_interval=5)
    now = datetime.now(UTC)
    yearly = times.schedule(timedelta(days=365), app=app)
    beat = Scheduler(app, lazy=True)

    def entry(name: str, last: datetime) -> ScheduleEntry:
        return ScheduleEntry(name=name, task="peer.noop", schedule=yearly, last_run_at=last, app=app)

    beat.data.update({f"idle{n}": entry(f"idle{n}", now) for n in range(STORED)})
    beat.tick()
    start = time.perf_counter()
    for _ in range(20):
        beat.tick()
    look = (time.perf_counter() - start) / 20
    beat = Scheduler(app, lazy=True)
    beat.data.update({f"now{n}": entry(f"now{n}", now - timedelta(days=366)) for n in range(AT_ONCE)})
    start = time.perf_counter()
    late: list[float] = []
    while len(late) < AT_ONCE:
        if beat.tick() == 0:
            late.append(time.perf_counter() - start)
    return {
        # As if it looked as often as ours does.
        "idle_cpu_percent": {"scheduler": round(100 * look / Settings().poll_seconds, 3), "database": 0.0},
        "at_once": AT_ONCE,
        "late_p50_ms": round(1000 * statistics.median(late), 1),
        "late_p99_ms": round(1000 * late[int(len(late) * 0.99)], 1),
        "late_last_ms": round(1000 * late[-1], 1),
        "ticks_per_second": round(AT_ONCE / late[-1], 1),
    }


def _cpu_seconds(server: psutil.Process | None) -> float:
    """Processor seconds of a database server and all its sessions."""
    total = 0.0
    for process in [server, *server.children(recursive=True)] if server is not None else []:
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = process.cpu_times()
            total += spent.user + spent.system
    return total


def show(figures: dict[str, Any]) -> None:
    """The table for people."""
    print(f"\nschedules: {STORED:,} stored; {AT_ONCE:,} of them due at once")
    for name, row in figures.items():
        idle_ = row["idle_cpu_percent"]
        print(
            f"  {name:<12} idle {idle_['scheduler']:>6.2f} % of a core"
            + (f" + {idle_['database']:.2f} % in the server" if idle_["database"] else "")
            + f"   late p50 {row['late_p50_ms']:>7,.0f} ms  p99 {row['late_p99_ms']:>7,.0f} ms"
            f"   {row['ticks_per_second']:>8,.0f} ticks/s"
        )


if __name__ == "__main__":
    run()

"""What a deployment costs that does nothing: statements and CPU of all roles on PostgreSQL and RabbitMQ, and statements
of each role by itself, and of all roles in one process."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from sqlalchemy import event

from benchmarks.speed import deployments
from benchmarks.speed.cpu import tree_ms
from benchmarks.speed.options import Options
from functory.client.functory import Functory
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.settings import Settings, load_settings
from functory.roles import services
from functory.roles.service_loop import ServiceLoop

SECONDS = 20.0


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Count on SQLite (the statements are the same on PostgreSQL). Returns the figures."""
    with tempfile.TemporaryDirectory() as folder:
        figures: dict[str, Any] = {"embedded": embedded(Path(folder) / "embedded")}
        for name in services.ROLES:
            figures[name] = role(Path(folder) / name, name)
        figures["worker"] = worker(Path(folder) / "worker")
    with contextlib.suppress(LookupError):
        figures["deployment"] = deployment()
    if not quiet:
        print("\nSQL statements a second, idle")
        for name, found in figures.items():
            if name == "deployment":
                _print_deployment(found)
                continue
            most = ", ".join(f"{thread} {count:g}" for thread, count in list(found["by"].items())[:8])
            print(f"  {name:<10} {found['all']:>6.1f}   ({most})")
    return figures


def deployment() -> dict[str, Any]:
    """Router, scheduler, watcher and worker as processes, by the counters of the servers and the kernel."""
    options = Options(subscriber=False)
    with deployments.start("rabbitmq", options) as started:
        started.roles.start("watcher")
        started.client.close()
        # The first rounds read what later ones remember.
        time.sleep(12)
        counts, cpu, began = started.counts(), _cpu(started), time.monotonic()
        time.sleep(2 * SECONDS)
        done, seconds = started.counts().since(counts), time.monotonic() - began
        return {
            "all": round(done.plain / seconds, 2),
            "begin_and_commit": round(done.control / seconds, 2),
            "cpu_percent": {
                name: round((ms - cpu[name]) / 10 / seconds, 2) for name, ms in _cpu(started).items()
            },
        }


def _cpu(started: deployments.Deployment) -> dict[str, float]:
    found = {role.name: tree_ms(role.pid) for role in started.roles.started}
    assert started.postgres is not None
    found["postgresql"] = tree_ms(started.postgres.pid, without=[started.observer.backend()])
    found["broker"] = tree_ms(started.broker.pid)
    return found


def _print_deployment(found: dict[str, Any]) -> None:
    print(f"  deployment {found['all']:>6.1f}   (and {found['begin_and_commit']:g} BEGIN and COMMIT)")
    each = ", ".join(f"{name} {percent:g}" for name, percent in found["cpu_percent"].items())
    own = sum(percent for name, percent in found["cpu_percent"].items() if name != "broker")
    print(f"\nCPU of that deployment in percent of a core: {own:.2f} without the broker ({each})")


def embedded(home: Path) -> dict[str, Any]:
    """All roles in this process."""
    with Functory(load_settings(home=home)) as engine:
        engine.start()
        time.sleep(3)
        return count(engine.database)


def role(home: Path, name: services.Role) -> dict[str, Any]:
    """The loops of one role, for a broker that is never asked for anything."""
    settings = load_settings(home=home, broker_url="redis://127.0.0.1:1/0")
    database = _database(settings)
    loops = [ServiceLoop(one, database.wakeup) for one in services.services(database, settings, name)]
    for loop in loops:
        loop.start()
    time.sleep(3)
    try:
        return count(database)
    finally:
        for loop in loops:
            loop.stop()
        database.close()


def worker(home: Path) -> dict[str, Any]:
    """An executor without messages."""
    from functory.workers.execution.executor import Executor

    settings = load_settings(home=home, broker_url="redis://127.0.0.1:1/0")
    _database(settings).close()
    executor = Executor.open(settings)
    executor.start()
    time.sleep(3)
    try:
        return count(executor.database)
    finally:
        executor.close()


def _database(settings: Settings) -> Database:
    settings.home.mkdir(parents=True, exist_ok=True)
    database = Database(settings.database)
    migrations.upgrade(database)
    database.listen_for_wakeups()
    return database


def count(database: Database) -> dict[str, Any]:
    """Statements a second in all, and by thread."""
    found: Counter[str] = Counter()

    def statement(_c: Any, _cursor: Any, text: str, *_: Any) -> None:
        if not text.startswith(("BEGIN", "PRAGMA")):
            found[threading.current_thread().name.removeprefix("functory-")] += 1

    event.listen(database.engine, "before_cursor_execute", statement)
    time.sleep(SECONDS)
    event.remove(database.engine, "before_cursor_execute", statement)
    return {
        "all": round(found.total() / SECONDS, 2),
        "by": {name: round(number / SECONDS, 2) for name, number in found.most_common()},
    }


if __name__ == "__main__":
    run()

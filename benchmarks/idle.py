"""What a deployment costs that does nothing: SQL statements a second of each role, and of all in one process."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from sqlalchemy import event

from functory.client import Functory
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
    if not quiet:
        print("\nSQL statements a second, idle")
        for name, found in figures.items():
            most = ", ".join(f"{thread} {count:g}" for thread, count in list(found["by"].items())[:8])
            print(f"  {name:<10} {found['all']:>6.1f}   ({most})")
    return figures


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

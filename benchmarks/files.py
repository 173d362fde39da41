"""Thousands of files dropped at once: how fast they become events, whether each does once, what memory it takes.

    python -m benchmarks files [--json]
    python -m benchmarks.files [--files 30000] [--database sqlite] [--json]

The watcher is a process of its own with a real supervisor, on SQLite with its commits synced, or on the database of a
URL. Beside it, over the same folder and the same files, a bare watchdog observer counts what it hears of, in
another process: it keeps nothing and decides nothing, and says what the machine could do at most.

Aims: none lost, none doubled, and a peak of memory that does not follow the number of files.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.triggers.sources.registry import Registry

FILES = 30_000
_TIMEOUT_SECONDS = 120.0
_ROOT = Path(__file__).resolve().parents[1]
_FILE_BYTES = 64

_WATCHER = """
import sys, threading
from functory.engine.database.connection import Database
from functory.engine.settings import Settings
from functory.triggers.sources.supervisor import SourceSupervisor
supervisor = SourceSupervisor(Database(sys.argv[1]), Settings(home=sys.argv[2]))
while True:
    supervisor.look()
    threading.Event().wait(0.05)
"""
_BARE_WATCHDOG = """
import sys, time
from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer
class Count(FileSystemEventHandler):
    seen = set()
    last = 0.0
    def on_created(self, event):
        if not event.is_directory:
            Count.seen.add(event.src_path)
            Count.last = time.monotonic()
observer = Observer()
observer.schedule(Count(), sys.argv[1], recursive=True)
observer.start()
print("ready", flush=True)
# Until it is asked: where the kernel's queue has overflowed, it never hears of all.
sys.stdin.read()
print(len(Count.seen), Count.last, flush=True)
"""


def run(*, quiet: bool = False, files: int = FILES, database: str = "sqlite") -> dict[str, Any]:
    """Measure; prints lines unless ``quiet``."""
    folder = Path(tempfile.mkdtemp(prefix="functory-bench-files-"))
    try:
        figures = _measure(folder, files, database)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not quiet:
        print(f"files: {files:,} dropped in {figures['dropped_seconds']} s")
        print(
            f"  watch           {figures['events_per_second']:>8,} events/s, all reported after {figures['seconds']} s"
        )
        print(
            f"  bare watchdog   {figures['bare_per_second']:>8,} notices/s, "
            f"the last after {figures['bare_seconds']} s, lost {figures['bare_lost']:,}"
        )
        print(f"  lost {figures['lost']}, doubled {figures['doubled']}")
        print(
            f"  memory (RSS)    {figures['rss_before_mib']} MiB before, {figures['rss_peak_mib']} at most, "
            f"{figures['rss_after_mib']} after; CPU {figures['cpu_seconds']} s"
        )
    return figures


def _measure(folder: Path, files: int, database: str) -> dict[str, Any]:
    url = f"sqlite:///{folder / 'functory.db'}" if database == "sqlite" else database
    inbox = folder / "inbox"
    inbox.mkdir()
    opened = Database(url)
    migrations.upgrade(opened)
    Registry(opened).save("file", "bench", {"path": str(inbox)})
    watcher = subprocess.Popen([sys.executable, "-c", _WATCHER, url, str(folder / "home")], cwd=_ROOT)
    bare = subprocess.Popen(
        [sys.executable, "-c", _BARE_WATCHDOG, str(inbox)],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        return _drop(opened, inbox, files, watcher, bare)
    finally:
        for process in (watcher, bare):
            process.kill()
            process.wait()
        opened.close()


def _drop(
    database: Database, inbox: Path, files: int, watcher: subprocess.Popen[Any], bare: subprocess.Popen[str]
) -> dict[str, Any]:
    assert bare.stdout is not None
    bare.stdout.readline()
    _wait_until(lambda: _first_scan_done(database))
    process = psutil.Process(watcher.pid)
    before, cpu = process.memory_info().rss, sum(process.cpu_times()[:2])
    start = time.monotonic()
    for number in range(files):
        (inbox / f"{number:06}").write_bytes(b"%06d" % number + b"x" * (_FILE_BYTES - 6))
    dropped = time.monotonic() - start
    peak = before

    def all_reported() -> bool:
        nonlocal peak
        peak = max(peak, process.memory_info().rss)
        return _count(database) >= files

    _wait_until(all_reported)
    seconds = time.monotonic() - start
    words = bare.communicate()[0].split()
    heard, bare_seconds = int(words[0]), float(words[1]) - start
    used = sum(process.cpu_times()[:2]) - cpu
    (inbox / "last").write_text("a duplicate would have been seen by now")
    _wait_until(lambda: _count(database) > files)
    with database.read() as tx:
        reported = tx.rows(
            sa.select(schema.event.c.subject, sa.func.count().label("times"))
            .where(schema.event.c.type.like("file.%"))
            .group_by(schema.event.c.subject)
        )
    return {
        "files": files,
        "dropped_seconds": round(dropped, 2),
        "seconds": round(seconds, 2),
        "events_per_second": round(files / seconds),
        "bare_seconds": round(bare_seconds, 2),
        "bare_per_second": round(heard / bare_seconds),
        "bare_lost": files - heard,
        "lost": files + 1 - len(reported),
        "doubled": sum(row["times"] - 1 for row in reported),
        "rss_before_mib": round(before / 2**20, 1),
        "rss_peak_mib": round(peak / 2**20, 1),
        "rss_after_mib": round(process.memory_info().rss / 2**20, 1),
        "cpu_seconds": round(used, 2),
        "database": database.dialect,
    }


def _first_scan_done(database: Database) -> bool:
    row = Registry(database).get("file", "bench")
    return bool((row["cursor"] or {}).get("look"))


def _count(database: Database) -> int:
    with database.read() as tx:
        statement = sa.select(sa.func.count()).select_from(schema.event)
        return int(tx.scalar(statement.where(schema.event.c.type.like("file.%"))) or 0)


def _wait_until(condition: Any) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the watch did not get there")
        time.sleep(0.05)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.files", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--database", default="sqlite", help="sqlite, or the URL of an empty database")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    measured = run(quiet=given.json, files=given.files, database=given.database)
    if given.json:
        print(json.dumps(measured))

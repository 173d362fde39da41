"""The worker registry: one row for each live worker, refreshed by its heartbeat."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import Instant, worker
from functory.engine.host_name import host_name

# How the ids of workers begin that are threads of an embedded engine.
EMBEDDED = "embedded:"

# Built once, because they run with every heartbeat of every worker.
_SEEN = (
    sa.update(worker)
    .where(worker.c.id == sa.bindparam("worker"))
    .values(seen_at=sa.bindparam("now", type_=Instant))
)


def record_heartbeat(database: Database, id_: str, slots: int, isolation: str) -> None:
    """Record that a worker is alive."""
    with database.write() as tx:
        changed = tx.execute(
            _SEEN, {"worker": id_, "now": tx.now, "slots": slots, "isolation": isolation}
        ).rowcount
        if not changed:
            tx.insert(
                worker,
                [
                    {
                        "id": id_,
                        "slots": slots,
                        "isolation": isolation,
                        "started_at": tx.now,
                        "seen_at": tx.now,
                    }
                ],
            )


def deregister(database: Database, id_: str) -> None:
    """Remove the row of a worker that shuts down."""
    with database.write() as tx:
        tx.execute(sa.delete(worker).where(worker.c.id == id_))


def alive(database: Database, within: float) -> list[dict[str, Any]]:
    """Return the workers seen in the last ``within`` seconds, without those of this machine whose process has ended."""
    with database.read() as tx:
        rows = tx.rows(
            sa.select(worker)
            .where(worker.c.seen_at > tx.now - timedelta(seconds=within))
            .order_by(worker.c.id)
        )
    return [row for row in rows if not _has_ended(row["id"])]


def ended(ids: Iterable[str]) -> list[str]:
    """Return those of these workers that ran in a process of this machine which has ended: it was killed."""
    return [id_ for id_ in ids if _has_ended(id_)]


def new_id(token: str) -> str:
    """Return the id of a worker in this process. ``token`` differs between the workers of one process."""
    return f"{host_name()}:{os.getpid()}:{_pid_space()}{token}"


def _pid_space() -> str:
    """Return 8 characters for where process ids of this process have a meaning: this start of the machine, and this
    container. Containers may share the name of their host, and each has a process 1. Empty where that is unknown.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").stat()
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {namespace.st_dev} {namespace.st_ino}".encode()).hexdigest()[:8]


def _has_ended(id_: str) -> bool:
    """True when the worker ran on this machine and its process is gone; False when that cannot be known from here."""
    host, _, rest = id_.removeprefix(EMBEDDED).partition(":")
    pid, _, token = rest.partition(":")
    space = _pid_space()
    if host != host_name() or not pid.isdecimal() or not space or not token.startswith(space):
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False

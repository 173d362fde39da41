"""Health of sources, for ``functory doctor``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from functory.engine.errors import FunctoryError

if TYPE_CHECKING:
    from functory.engine.database.connection import Database

# Watched folders and listeners per user. With lower limits a watch soon falls back to polling.
MIN_INOTIFY_LIMITS = {"max_user_watches": 8192, "max_user_instances": 64}
INOTIFY_FOLDER = Path("/proc/sys/fs/inotify")

SourceProblem = tuple[str, str]


def find_problems(
    database: Database, *, embedded: bool, inotify: Path = INOTIFY_FOLDER
) -> tuple[int, list[SourceProblem]]:
    """Return the number of enabled sources, and their problems as (what, advice)."""
    from functory.engine.sources import schedules
    from functory.engine.sources.store import Sources

    rows = [row for row in Sources(database).list() if row["state"] == "enabled"]
    with database.read() as tx:
        now = tx.now
        ahead = schedules.overview(tx, [row["id"] for row in rows if row["kind"] == "schedule"])
    found: list[SourceProblem] = []
    for row in rows:
        about = f"{row['kind']} {row['name']}"
        why = _find_problem(row, now, ahead.get(row["id"]), embedded)
        if why is not None:
            found.append((f"{about}: {why[0]}", why[1]))
    if any(row["kind"] == "file" for row in rows):
        found += _inotify_problems(inotify)
    return len(rows), found


def _find_problem(
    row: Mapping[str, Any], now: datetime, ahead: Mapping[str, Any] | None, embedded: bool
) -> SourceProblem | None:
    """Return the first problem of a source."""
    from functory.triggers.sources import registry

    try:
        kind = registry.find_plugin(row["kind"])
    except FunctoryError as error:
        return error.what, f"install the plug-in, or: functory source delete {row['kind']} {row['name']}"
    if row["problem"]:
        return row["problem"], f"functory source show {row['kind']} {row['name']}"
    if row["kind"] == "file" and not os.path.exists(row["config"]["path"]):  # noqa: PTH110 - may be any text
        return f"{row['config']['path']} is not on this machine", f"functory watch show {row['name']}"
    if row["kind"] == "schedule" and (ahead is None or ahead["next_at"] is None):
        return (
            "it will not fire again: its last time has passed",
            f"functory schedule delete {row['name']}",
        )
    if kind.runs and not embedded and (row["lease_until"] is None or row["lease_until"] < now):
        return "no watcher runs it", "functory watcher"
    return None


def _inotify_problems(inotify: Path) -> list[SourceProblem]:
    """Return kernel limits that are low for watching folders."""
    found: list[SourceProblem] = []
    for name, least in MIN_INOTIFY_LIMITS.items():
        try:
            value = int((inotify / name).read_text())
        except (OSError, ValueError):
            continue
        if value < least:
            found.append(
                (
                    f"fs.inotify.{name} is {value:,}: folders beyond it are polled",
                    f"sysctl -w fs.inotify.{name}={least * 16}",
                )
            )
    return found

"""``functory watcher``: the process that listens to sources."""

from __future__ import annotations

from functory.cli.command_group import Migrate


def watcher(migrate: Migrate = False) -> int:
    """Listen to sources: watched files, queues and plug-ins. One watcher at a time listens to each source."""
    from functory.roles import process

    return process.run_services("watcher", upgrade=migrate)

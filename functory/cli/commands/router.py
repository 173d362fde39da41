"""``functory router``: the process that turns events into executions."""

from __future__ import annotations

from functory.cli.command_group import Migrate


def router(migrate: Migrate = False) -> int:
    """Turn events into executions; send executions to workers and events to the broker."""
    from functory.roles import process

    return process.run_services("router", upgrade=migrate)

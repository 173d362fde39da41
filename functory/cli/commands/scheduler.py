"""``functory scheduler``: the process for everything that depends on time."""

from __future__ import annotations

from functory.cli.command_group import Migrate


def scheduler(migrate: Migrate = False) -> int:
    """Write the events of schedules, send executions that are due, end lost ones, delete old rows.

    Run as many as you like.
    """
    from functory.roles import process

    return process.run_services("scheduler", upgrade=migrate, with_state_metrics=True)

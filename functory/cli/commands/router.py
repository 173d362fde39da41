"""``functory router``: the process that turns events into executions."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli.command_group import Migrate

Scheduler = Annotated[
    bool,
    typer.Option(
        "--scheduler", help="Run the scheduler in this process too. It saves the memory of one process."
    ),
]


def router(migrate: Migrate = False, scheduler: Scheduler = False) -> int:
    """Turn events into executions; send executions to workers and events to the broker."""
    from functory.roles import process

    if scheduler:
        return process.run_services("router", "scheduler", upgrade=migrate, with_state_metrics=True)
    return process.run_services("router", upgrade=migrate)

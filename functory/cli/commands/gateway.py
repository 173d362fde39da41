"""``functory gateway``: the process that asks language models."""

from __future__ import annotations

from functory.cli.command_group import Migrate


def gateway(migrate: Migrate = False) -> int:
    """Send requests to language models. It alone opens their keys.

    Run as many as you like.
    """
    from functory.roles import process

    return process.run_services("gateway", upgrade=migrate)

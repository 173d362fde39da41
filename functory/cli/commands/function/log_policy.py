"""``functory function log-policy``: which log lines are kept."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.terminal.console import CommandOutput

_SAYS = {
    "full": "all log lines are kept",
    "summary": "warnings and errors are kept, and the last 100 lines of an attempt that fails",
    "sampled": "all lines of some executions are kept, and of the others what summary keeps",
    "off": "no log lines are kept",
}


def log_policy(
    name: Annotated[str, typer.Argument(help="Name of the function.", show_default=False)],
    policy: Annotated[
        str | None,
        typer.Argument(
            metavar="[full|summary|sampled[:SHARE]|off]",
            help="The new policy. Without it the present one is shown.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show or set which log lines of a function are kept. Errors, tracebacks and results are always kept."""
    with session.engine() as engine:
        if policy is None:
            found = engine.functions.get(name)["log_policy"]
        else:
            found = engine.log_policies.set(name, policy, author=engine.author)
    says = _SAYS.get(found.partition(":")[0], "of a later release; this one keeps all lines")
    CommandOutput().styled((f"{name} has the log policy {found}: {says}", ""))


EXAMPLE = "functory function log-policy parse sampled:0.05"

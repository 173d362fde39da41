"""``functory budget``: what trees, days, keys, agents and users may spend on language models."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm, duration, option
from functory.cli.input import ids
from functory.cli.output import models as output
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("What may be spent on language models.")

Root = Annotated[
    str,
    typer.Argument(help="Id of an execution: its tree is meant.", metavar="EXECUTION", show_default=False),
]
Usd = Annotated[float | None, option("US dollars.")]
Tokens = Annotated[int | None, option("Tokens, asked and answered.")]
Calls = Annotated[int | None, option("Times that a model is asked.")]


@app.command(epilog="Example: functory budget show 01998c5e-…")
def show(root: Root, json: AsJson = False) -> None:
    """Show what a tree has spent, and its limits."""
    with session.engine() as engine:
        row = engine.budgets.tree(ids.execution_id(engine, root))
    if json:
        CommandOutput().value(output.public_meter(row))
        return
    CommandOutput().record(output.meter(row))


@app.command("raise", epilog="Example: functory budget raise 01998c5e-… --usd 5")
def raise_(
    root: Root,
    usd: Usd = None,
    tokens: Tokens = None,
    calls: Calls = None,
    tool_calls: Annotated[int | None, option("Calls of tools.")] = None,
    children: Annotated[int | None, option("Child runs.")] = None,
    proposals: Annotated[int | None, option("Proposals of functions.")] = None,
    seconds: Annotated[
        float | None, duration("Time in which models may be asked, in seconds or as 2m.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Change the limits of a tree. What it has spent stays counted."""
    given = {
        "usd": usd,
        "tokens": tokens,
        "calls": calls,
        "tool_calls": tool_calls,
        "children": children,
        "proposals": proposals,
        "seconds": seconds,
    }
    limits = {name: value for name, value in given.items() if value is not None}
    with session.engine() as engine:
        row = engine.budgets.raise_tree(ids.execution_id(engine, root), limits, author=engine.author)
    if json:
        CommandOutput().value(output.public_meter(row))
        return
    CommandOutput().record(output.meter(row))


@app.command(epilog="Example: functory budget quotas")
def quotas(json: AsJson = False, quiet: Quiet = False) -> None:
    """List what may be spent in a day (UTC), and what was spent today."""
    with session.engine() as engine:
        rows = engine.budgets.quotas()
    CommandOutput(json=json, quiet=quiet).table(
        [output.quota_in_list(row) for row in rows],
        {"of": "OF", "money": "MONEY TODAY", "tokens": "TOKENS TODAY", "calls": "CALLS TODAY"},
        key="of",
        data=[output.public_quota(row) for row in rows],
        empty="no quotas",
    )


Scope = Annotated[
    str, typer.Argument(help="all, key (the name of a secret), agent or user.", show_default=False)
]
QuotaName = Annotated[str, typer.Argument(help="Name of the key, agent or user.", show_default=False)]


@app.command("set-quota", epilog="Example: functory budget set-quota all --usd 20")
def set_quota(
    scope: Scope, name: QuotaName = "", usd: Usd = None, tokens: Tokens = None, calls: Calls = None
) -> None:
    """Set what may be spent in a day. 0 allows nothing; what is not given is not limited by this quota."""
    limits = {"usd": usd, "tokens": tokens, "calls": calls}
    with session.engine() as engine:
        engine.budgets.set_quota(scope, name, limits, author=engine.author)
    CommandOutput().styled((f"the quota {f'{scope} {name}'.strip()} is set", ""))


@app.command("remove-quota", epilog="Example: functory budget remove-quota agent writer --yes")
def remove_quota(scope: Scope, name: QuotaName = "", yes: Yes = False) -> None:
    """Delete a quota. For all together the setting day_usd holds then."""
    confirm(f"Delete the quota {f'{scope} {name}'.strip()}?", yes)
    with session.engine() as engine:
        engine.budgets.remove_quota(scope, name, author=engine.author)
    CommandOutput().styled((f"the quota {f'{scope} {name}'.strip()} is deleted", ""))

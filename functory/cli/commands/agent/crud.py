"""``functory agent``: what an agent may use and spend, and its runs."""

from __future__ import annotations

from typing import Annotated

import typer

from functory.cli import session
from functory.cli.command_group import Timeout, Wait, Yes, command_group, confirm
from functory.cli.commands.agent import runs
from functory.cli.input import agent_fields as options
from functory.cli.input import values
from functory.cli.output import agents as output
from functory.cli.output.dashboard_page import Open, open_page
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("Agents, and their runs.")
app.add_typer(runs.app, name="runs", help="Runs of agents.")

Name = Annotated[str, typer.Argument(help="Name of the agent.", show_default=False)]


@app.command(
    epilog="Example: functory agent add helper --function solve --model small --tool search --limit usd=0.5"
)
def add(
    name: Name,
    function: options.Function = None,
    description: options.Description = None,
    model: options.Model = None,
    memo: options.Memo = None,
    tool: options.Tool = None,
    agent: options.Child = None,
    check: options.Check = None,
    ask_before: options.AskBefore = None,
    limit: options.Limit = None,
    json: AsJson = False,
) -> None:
    """Add an agent: a function whose executions are the steps of its runs."""
    fields = options.fields(
        function=function,
        description=description,
        model=model,
        memo=memo,
        tool=tool,
        child=agent,
        check=check,
        ask_before=ask_before,
        limit=limit,
    )
    with session.engine(create=True) as engine:
        row = engine.agents.add(name, fields, author=engine.author)
    if json:
        CommandOutput().value(output.public(row))
        return
    CommandOutput().styled((f"agent {name} is added", ""))
    console.note(f"try it: functory agent run {name} 'a goal'")


@app.command("set", epilog="Example: functory agent set helper --tool search --tool read --limit steps=20")
def set_(
    name: Name,
    function: options.Function = None,
    description: options.Description = None,
    model: options.Model = None,
    memo: options.Memo = None,
    tool: options.Tool = None,
    agent: options.Child = None,
    check: options.Check = None,
    ask_before: options.AskBefore = None,
    limit: options.Limit = None,
    json: AsJson = False,
) -> None:
    """Change an agent: a new version of it. What is not given stays; open runs keep their version."""
    from functory.engine.errors import Invalid

    changes = options.fields(
        function=function,
        description=description,
        model=model,
        memo=memo,
        tool=tool,
        child=agent,
        check=check,
        ask_before=ask_before,
        limit=limit,
    )
    if not changes:
        raise Invalid(
            "nothing is to be changed", "no option was given", f"functory agent set {name} --limit steps=20"
        )
    with session.engine() as engine:
        row = engine.agents.update(name, changes, author=engine.author)
    if json:
        CommandOutput().value(output.public(row))
        return
    CommandOutput().styled((f"agent {name} is version {row['version']} now", ""))


@app.command("list", epilog="Example: functory agent list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """List agents."""
    with session.engine() as engine:
        rows = engine.agents.list()
    CommandOutput(json=json, quiet=quiet).table(
        [output.in_list(row) for row in rows],
        {
            "name": "NAME",
            "state": "STATE",
            "version": "VERSION",
            "function": "FUNCTION",
            "model": "MODEL",
            "tools": "TOOLS",
            "description": "DESCRIPTION",
        },
        key="name",
        data=[output.public(row) for row in rows],
        empty="no agents yet; try: functory agent add NAME --function FUNCTION",
    )


@app.command(epilog="Example: functory agent show helper")
def show(name: Name, open_: Open = False, json: AsJson = False) -> None:
    """Show an agent with what it may use and spend."""
    with session.engine() as engine:
        row = engine.agents.get(name)
        if open_:
            open_page(engine, "agents", name)
    if json:
        CommandOutput().value(output.public(row))
        return
    CommandOutput().record(output.shown(row))


@app.command(epilog="Example: functory agent run helper 'answer the ticket 17' --memo ticket=17")
def run(
    name: Name,
    goal: Annotated[str, typer.Argument(help="What the run is to do.", show_default=False)],
    memo: Annotated[
        list[str] | None,
        typer.Option(
            "--memo", help="What else the first step knows: name=value. Repeatable.", show_default=False
        ),
    ] = None,
    limit: options.Limit = None,
    user: Annotated[
        str | None,
        typer.Option(help="For whom: quotas of this user count what it costs.", show_default=False),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: a run is started once.", show_default=False)
    ] = None,
    wait: Wait = True,
    timeout: Timeout = None,
    json: AsJson = False,
) -> None:
    """Start a run, show its steps, and wait for its end. Limits may be stricter than the agent's, never higher."""
    with session.engine(start=True) as engine:
        row = engine.runs.start(
            name,
            goal,
            author=engine.author,
            memo=values.parse_pairs(memo, "--memo") if memo else None,
            limits=options.limits(limit) if limit else None,
            user=user,
            idempotency_key=key,
        )
        if not wait:
            CommandOutput().value(output.public_run(row)) if json else CommandOutput().styled((row["id"], ""))
            return
        runs.follow(engine, row["id"], timeout=timeout, json=json)


@app.command(epilog="Example: functory agent disable helper")
def disable(name: Name) -> None:
    """Start no runs of an agent. Open ones go on."""
    with session.engine() as engine:
        engine.agents.set_state(name, "disabled", author=engine.author)
    CommandOutput().styled((f"agent {name} is disabled", ""))


@app.command(epilog="Example: functory agent enable helper")
def enable(name: Name) -> None:
    """Let runs of an agent start."""
    with session.engine() as engine:
        engine.agents.set_state(name, "enabled", author=engine.author)
    CommandOutput().styled((f"agent {name} is enabled", ""))


@app.command(epilog="Example: functory agent remove helper --yes")
def remove(name: Name, yes: Yes = False) -> None:
    """Delete an agent. Its runs stay."""
    confirm(f"Delete the agent {name}?", yes)
    with session.engine() as engine:
        engine.agents.set_state(name, "removed", author=engine.author)
    CommandOutput().styled((f"agent {name} is deleted", ""))

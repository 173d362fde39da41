"""``functory gate``: what proposals must show, and who approves them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import command_group, option
from functory.cli.input import values
from functory.cli.output import proposals as output
from functory.engine.errors import Invalid
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("What proposals must show, and who approves them.")
policy = command_group("Policies of the gate. Where several apply, the strictest of all rules holds.")
app.add_typer(policy, name="policy")

Name = Annotated[str, typer.Argument(help="Name of the policy.", show_default=False)]


@policy.command("set", epilog="Example: functory gate policy set money --label payments --approval acts=two")
def set_(
    name: Name,
    function: Annotated[list[str] | None, option("It holds for this function. Repeatable.")] = None,
    label: Annotated[list[str] | None, option("It holds for functions with this label. Repeatable.")] = None,
    tests: Annotated[str | None, option("off, warn or required.")] = None,
    mutants: Annotated[float | None, option("Share of faults that the tests must see, 0 to 1.")] = None,
    approval: Annotated[
        list[str] | None,
        option(
            "Who approves: occasion=auto, one, two or never. The occasions are none, reads and acts (what it may do), "
            "replaces, widens, packages and ephemeral. Repeatable."
        ),
    ] = None,
    canary: Annotated[float | None, option("Share of executions that try it first, 0 to 0.5.")] = None,
    days: Annotated[int | None, option("Days in which a person must decide.")] = None,
) -> None:
    """Make or replace a policy. Without --function and --label it holds for all. Open proposals keep their rules."""
    rules: dict[str, Any] = {
        field: value
        for field, value in (("tests", tests), ("mutants", mutants), ("canary", canary), ("days", days))
        if value is not None
    }
    if approval:
        rules["approval"] = _pairs(approval)
    with session.engine(create=True) as engine:
        row = engine.gate_policies.set(
            name, rules, functions=function or (), labels=label or (), author=engine.author
        )
    CommandOutput().styled((f"policy {name} v{row['number']} holds for {output.applies_to(row)}", ""))


@policy.command("list", epilog="Example: functory gate policy list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """List the policies."""
    with session.engine() as engine:
        rows = engine.gate_policies.list()
    CommandOutput(json=json, quiet=quiet).table(
        [
            {
                **row,
                "holds_for": output.applies_to(row),
                "tests": row["rules"]["tests"],
                "version": row["number"],
            }
            for row in rows
        ],
        {
            "name": "NAME",
            "version": "VERSION",
            "holds_for": "HOLDS FOR",
            "tests": "TESTS",
            "author": "AUTHOR",
        },
        key="name",
        data=[output.public_policy(row) for row in rows],
        empty="no policies: the usual rules hold (functory gate why FUNCTION)",
    )


@policy.command(epilog="Example: functory gate policy show money")
def show(name: Name, json: AsJson = False) -> None:
    """Show the rules of a policy."""
    with session.engine() as engine:
        row = engine.gate_policies.get(name)
    if json:
        CommandOutput().value(output.public_policy(row))
        return
    head = {"name": row["name"], "version": row["number"], "holds for": output.applies_to(row)}
    CommandOutput().record(head | output.rules_record(row["rules"]))


@policy.command(epilog="Example: functory gate policy remove money")
def remove(name: Name) -> None:
    """Remove a policy."""
    with session.engine() as engine:
        engine.gate_policies.remove(name, author=engine.author)
    CommandOutput().styled((f"policy {name} is removed", ""))


@app.command(epilog="Example: functory gate why slugify")
def why(
    function: Annotated[str, typer.Argument(help="Name of the function.", show_default=False)],
    json: AsJson = False,
) -> None:
    """Show the rules for proposals of a function, and the policies that they come from."""
    with session.engine() as engine:
        found = engine.gate_policies.rules_for(function)
    if json:
        CommandOutput().value(found)
        return
    head = {"policies": ", ".join(found["policies"]) or "none: the usual rules"}
    CommandOutput().record(head | output.rules_record(found["rules"]))


def _pairs(given: list[str]) -> dict[str, Any]:
    found = values.parse_pairs(given, "--approval")
    if wrong := next((name for name, value in found.items() if not isinstance(value, str)), None):
        raise Invalid(f"wrong --approval {wrong}", "it is occasion=auto, one, two or never")
    return found

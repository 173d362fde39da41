"""``functory proposal``: versions that wait to become active."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Timeout, command_group, option
from functory.cli.input import function_fields, values
from functory.cli.output import proposals as output
from functory.cli.output import version_diff
from functory.engine.errors import Invalid, WaitTimeout
from functory.terminal.console import AsJson, CommandOutput, Quiet, note

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Versions that wait to become active: their checks, and who approves them.")

Proposal = Annotated[str, typer.Argument(help="Id of the proposal, or @last.", show_default=False)]
Feedback = Annotated[str, option("Words for its author.")]
# Between two looks at a proposal whose checks run.
LOOK_SECONDS = 0.2


@app.command(
    epilog="Example: functory proposal create slugify.py --tests slugify.tests.json --description 'names'"
)
def create(
    file: Annotated[
        str, typer.Argument(help="Python file with exactly one function, or - for stdin.", show_default=False)
    ],
    tests: Annotated[str | None, option("JSON file with the tests, or - for stdin.")] = None,
    description: Annotated[str, option("What it is for.")] = "",
    replaces: Annotated[
        bool, typer.Option("--replaces", help="It takes the place of the active version of the function.")
    ] = False,
    dep: Annotated[list[str] | None, option("Function that it calls. Repeatable.")] = None,
    secret: Annotated[list[str] | None, option("Secret that it may read. Repeatable.")] = None,
    requirement: Annotated[list[str] | None, option("Package with allowed versions. Repeatable.")] = None,
    permission: Annotated[list[str] | None, option("Permission, such as functions:read. Repeatable.")] = None,
    host: Annotated[list[str] | None, option("Host that it may connect to. Repeatable.")] = None,
    model: Annotated[list[str] | None, option("Language model that it may ask. Repeatable.")] = None,
    limit: Annotated[list[str] | None, option("Limit: name=value, such as timeout=5. Repeatable.")] = None,
    timeout: Timeout = None,
    json: AsJson = False,
) -> None:
    """Propose a version, and wait until its checks have ended. Without --replaces the function is new."""
    text = values.read_text(file)
    given = [] if tests is None else _tests(tests)
    fields = function_fields.fields(
        dependencies=dep, secrets=secret, imports=None, requirements=requirement, permissions=permission, hosts=host,
        models=model, read=None, write=None, subprocess=None, metadata=None, patterns=None, compensate=None,
        timeout=None, retries=None, limits=limit,
    )  # fmt: skip
    with session.engine(start=True, create=True) as engine:
        made = engine.proposals.create(
            text, tests=given, description=description, replaces=replaces, author=engine.author, **fields
        )
        row = _wait(engine, made, timeout)
    _print(row, json)
    if row["state"] == "waiting":
        note(f"to decide: functory proposal approve {row['id']}, or reject")
    if row["state"] not in ("waiting", "canary", "active"):
        raise typer.Exit(1)


@app.command("list", epilog="Example: functory proposal list --state waiting")
def list_(
    state: Annotated[
        str | None,
        option(
            "Only those in this state: open, checking, waiting, canary, active, rejected, expired, superseded, "
            "withdrawn, rolled_back."
        ),
    ] = None,
    function: Annotated[str | None, option("Only those of this function.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of proposals.")] = 20,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List proposals, newest first."""
    with session.engine() as engine:
        rows = engine.proposals.list(state=state, function=function, limit=limit)
    CommandOutput(json=json, quiet=quiet).table(
        [output.in_list(row) for row in rows],
        {
            "id": "ID",
            "function": "FUNCTION",
            "change": "CHANGE",
            "state": "STATE",
            "effect": "EFFECT",
            "author": "AUTHOR",
            "description": "DESCRIPTION",
        },
        data=[output.public(row) for row in rows],
        empty="no proposals",
    )


@app.command(epilog="Example: functory proposal show @last")
def show(proposal: Proposal, json: AsJson = False) -> None:
    """Show a proposal: what it may do, its checks, and who has decided."""
    with session.engine() as engine:
        _print(engine.proposals.get(_id(engine, proposal)), json)


@app.command(epilog="Example: functory proposal diff @last")
def diff(proposal: Proposal) -> None:
    """Compare a proposed version with the one whose place it takes."""
    with session.engine() as engine:
        row = engine.proposals.get(_id(engine, proposal))
        name, base = row["function"], row["base_version"]
        found = [
            engine.functions.get(name, number) | {"modules": engine.functions.modules(name, number)}
            for number in ([] if base is None else [base, row["version"]])
        ]
    if found:
        CommandOutput().lines(version_diff.unified(found[0], found[1]))
    else:
        CommandOutput().code(row["source"] or "")


@app.command(epilog="Example: functory proposal approve @last --feedback 'as we said'")
def approve(proposal: Proposal, feedback: Feedback = "") -> None:
    """Approve a proposal: it becomes active, or waits for a second person."""
    with session.engine() as engine:
        row = engine.proposals.approve(_id(engine, proposal), feedback=feedback, author=engine.author)
    _say(row)


@app.command(epilog="Example: functory proposal reject @last --feedback 'a test for empty texts is missing'")
def reject(proposal: Proposal, feedback: Feedback = "") -> None:
    """Reject a proposal. A run that waits for it gets your words."""
    with session.engine() as engine:
        row = engine.proposals.reject(_id(engine, proposal), feedback=feedback, author=engine.author)
    _say(row)


@app.command(epilog="Example: functory proposal withdraw @last")
def withdraw(proposal: Proposal) -> None:
    """End a proposal that is not needed any more."""
    with session.engine() as engine:
        row = engine.proposals.withdraw(_id(engine, proposal), author=engine.author)
    _say(row)


def _tests(text: str) -> Sequence[Mapping[str, Any]]:
    given = values.read_json("-" if text == "-" else f"@{text}", "the file of tests")
    if not isinstance(given, list):
        raise Invalid(
            "the tests are no list",
            'an example is {"input": {"text": "A b"}, "equals": "a-b"}',
            "write [ … ]",
        )
    return given


def _id(engine: Functory, text: str) -> str:
    if text == "@last":
        newest = engine.proposals.list(limit=1)
        if not newest:
            raise Invalid("there are no proposals", try_="functory proposal create FILE --tests FILE")
        return newest[0]["id"]
    return engine.find_id(text, "proposal")


def _wait(engine: Functory, row: dict[str, Any], timeout: float | None) -> dict[str, Any]:
    began = time.monotonic()
    while row["state"] == "checking":
        if timeout is not None and time.monotonic() - began > timeout:
            raise WaitTimeout(
                f"the checks of proposal {row['id']} have not ended",
                f"waited {timeout:g} s; a worker runs them",
                f"functory proposal show {row['id']}",
            )
        time.sleep(LOOK_SECONDS)
        row = engine.proposals.get(row["id"])
    return row


def _print(row: Mapping[str, Any], json: bool) -> None:
    if json:
        CommandOutput().value(output.public(row))
        return
    shown = CommandOutput()
    shown.record(output.record(row))
    for check in row["checks"]:
        for line, style in output.check_lines(check):
            shown.styled((line, style))


def _say(row: Mapping[str, Any]) -> None:
    state = row["state"].replace("_", " ")
    if row["state"] == "waiting":
        state = "waits for a second person"
        CommandOutput().styled((f"proposal {row['id']} {state}", ""))
        return
    reason = f": {row['reason']}" if row["reason"] and row["state"] != "active" else ""
    CommandOutput().styled(
        (f"proposal {row['id']} of {row['function']} v{row['version']} is {state}{reason}", "")
    )

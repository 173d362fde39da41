"""``functory agent runs``: the runs of agents, step by step."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Timeout, command_group, option
from functory.cli.commands.agent import reruns
from functory.cli.input import ids
from functory.cli.output import agents as output
from functory.cli.output import models as model_output
from functory.cli.output.dashboard_page import Open, open_page
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Runs of agents.")
for _name, _verb, _example in reruns.VERBS:
    app.command(_name, epilog=f"Example: {_example}")(_verb)

Run = Annotated[str, typer.Argument(help="Id of the run, or @last.", show_default=False)]
# Between two looks at a run that is followed.
FOLLOW_SECONDS = 1.0
_OPEN = ("queued", "running")


@app.command("list", epilog="Example: functory agent runs list --state open")
def list_(
    agent: Annotated[str | None, option("Only those of this agent.")] = None,
    state: Annotated[
        str | None,
        option(
            "Only those in this state: open, running, waiting_model, waiting_children, waiting_person, paused, "
            "succeeded, failed, stopped, cancelled, needs_human."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of runs.")] = 20,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List runs, newest first."""
    with session.engine() as engine:
        rows = engine.runs.list(agent=agent, state=state, limit=limit)
        data = session.read_models(engine).runs(rows) if json else ()
    CommandOutput(json=json, quiet=quiet).table(
        [output.run_in_list(row) for row in rows],
        {
            "id": "ID",
            "agent": "AGENT",
            "state": "STATE",
            "step": "STEPS",
            "goal": "GOAL",
            "created_at": "STARTED",
        },
        data=lambda: _rows_as_json(data),
        empty="no runs",
    )


def _rows_as_json(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from functory.rows.agents import RunRow

    return [RunRow.as_json(row) for row in found]


@app.command(epilog="Example: functory agent runs show @last")
def show(run: Run, open_: Open = False, json: AsJson = False) -> None:
    """Show a run: its state and why, what it waits for, what it has spent."""
    with session.engine() as engine:
        row = engine.runs.get(run_id(engine, run))
        if open_:
            open_page(engine, "runs", row["id"])
    if json:
        CommandOutput().value(output.public_run(row))
        return
    CommandOutput().record(output.run(row))


@app.command(epilog="Example: functory agent runs steps @last")
def steps(run: Run, json: AsJson = False, quiet: Quiet = False) -> None:
    """List the steps of a run: what each was given, what it asked for, what that cost."""
    with session.engine() as engine:
        rows = engine.runs.steps(run_id(engine, run))
    CommandOutput(json=json, quiet=quiet).table(
        [output.step_in_list(row) for row in rows],
        {
            "number": "STEP",
            "given": "GIVEN",
            "state": "STATE",
            "then": "THEN",
            "cost": "COST",
            "execution_id": "EXECUTION",
        },
        key="execution_id",
        data=[output.public_step(row) for row in rows],
        empty="no steps",
    )


@app.command(epilog="Example: functory agent runs cost @last")
def cost(run: Run, json: AsJson = False) -> None:
    """Show what the tree of a run has spent, and its limits."""
    with session.engine() as engine:
        row = engine.budgets.tree(run_id(engine, run))
    if json:
        CommandOutput().value(model_output.public_meter(row))
        return
    CommandOutput().record(model_output.meter(row))


@app.command(epilog="Example: functory agent runs watch @last")
def watch(run: Run, timeout: Timeout = None) -> None:
    """Print the steps of a run as they end, until the run has ended."""
    with session.engine(start=True) as engine:
        follow(engine, run_id(engine, run), timeout=timeout, json=False)


@app.command(epilog="Example: functory agent runs pause @last")
def pause(run: Run) -> None:
    """Start no further step of a run. What is under way may end."""
    with session.engine() as engine:
        row = engine.runs.pause(run_id(engine, run), author=engine.author)
    CommandOutput().styled((f"run {row['id']} makes no further step", ""))


@app.command(epilog="Example: functory agent runs resume @last")
def resume(run: Run) -> None:
    """Let a paused run go on."""
    with session.engine() as engine:
        row = engine.runs.resume(run_id(engine, run), author=engine.author)
    CommandOutput().styled((f"run {row['id']} goes on", ""))


@app.command(epilog="Example: functory agent runs cancel @last")
def cancel(run: Run) -> None:
    """End a run, with its open step and all that it waits for."""
    with session.engine() as engine:
        row = engine.runs.cancel(run_id(engine, run), author=engine.author)
    CommandOutput().styled((f"run {row['id']} is cancelled", ""))


def run_id(engine: Functory, text: str) -> str:
    """Return the whole id of a run: that of its first execution. ``@last`` is the newest run."""
    if text != "@last":
        return ids.execution_id(engine, text)
    from functory.engine.errors import NotFound

    newest = engine.runs.list(limit=1)
    if not newest:
        raise NotFound("there is no run yet", try_="functory agent run NAME GOAL")
    return newest[0]["id"]


def follow(engine: Functory, id_: str, *, timeout: float | None, json: bool) -> None:
    """Print the steps of a run as they end; then its result. Exit status 1 for a run that has not succeeded."""
    from functory.engine.errors import WaitTimeout

    deadline = None if timeout is None else time.monotonic() + timeout
    told = 0
    asked: set[str] = set()
    out = CommandOutput()
    while True:
        left = None if deadline is None else deadline - time.monotonic()
        row: dict[str, Any] | None = None
        try:
            row = engine.runs.wait(
                id_, FOLLOW_SECONDS if left is None else max(0.0, min(FOLLOW_SECONDS, left))
            )
        except WaitTimeout as error:
            if left is not None and left <= FOLLOW_SECONDS:
                raise WaitTimeout(
                    error.what, f"waited {timeout:g} s; it goes on", f"functory agent runs watch {id_}"
                ) from None
        if not json:
            # The newest step alone may be open.
            for step in engine.runs.steps(id_, after=told):
                if step["state"] not in _OPEN:
                    told = step["number"]
                    console.note(output.watched(step))
            for question in engine.runs.get(id_)["questions"]:
                if question["id"] not in asked:
                    asked.add(question["id"])
                    _tell(question)
        if row is None:
            continue
        if json:
            out.value(output.public_run(row))
        elif row["state"] == "succeeded":
            out.value(row["result"])
        else:
            console.note(output.ended(row))
        if row["state"] != "succeeded":
            raise typer.Exit(1)
        return


def _tell(question: Mapping[str, Any]) -> None:
    """Print a question, and how it is decided."""
    console.note(f"it asks: {output.question_text(question)}")
    if question["kind"] == "ask":
        console.note(f"answer it: functory approval answer {question['id']} ANSWER")
    else:
        console.note(f"decide it: functory approval approve {question['id']}, or reject it")

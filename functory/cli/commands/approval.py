"""``functory approval``: what runs of agents ask people, and which proposals wait for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import command_group, option
from functory.cli.input import values
from functory.cli.output import agents as output
from functory.cli.output.hidden import HIDDEN
from functory.terminal.console import AsJson, CommandOutput, Quiet, format_time

app = command_group("What runs of agents ask people.")

Id = Annotated[str, typer.Argument(help="Id of the question.", show_default=False)]
Feedback = Annotated[str, option("Words for the run.")]


@app.command("list", epilog="Example: functory approval list")
def list_(
    state: Annotated[
        str, typer.Option(help="pending, answered, approved, edited, rejected, expired or withdrawn.")
    ] = "pending",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of questions.")] = 20,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List questions, oldest first."""
    with session.engine() as engine:
        rows = engine.runs.questions(state=state, limit=limit)
    CommandOutput(json=json, quiet=quiet).table(
        [output.question_in_list(row) for row in rows],
        {
            "id": "ID",
            "agent": "AGENT",
            "question": "QUESTION",
            "choices": "CHOICES",
            "requested_at": "ASKED",
            "expires_at": "UNTIL",
        },
        data=[output.public_question(row) for row in rows],
        empty="no questions",
    )


@app.command(epilog="Example: functory approval show 01998c5e-…")
def show(question: Id, json: AsJson = False) -> None:
    """Show a question, and how it was decided."""
    with session.engine() as engine:
        row = engine.runs.question(engine.find_id(question, "approval"))
    if json:
        CommandOutput().value(output.public_question(row))
        return
    choices = row["payload"].get("choices")
    record = {
        "id": row["id"],
        "run": row["run_id"],
        "question": output.question_text(row),
        "effect": row["payload"].get("effect"),
        "choices": ", ".join(choices) if choices else None,
        "state": row["state"],
        "answer": None if row["answer"] is None else str(row["answer"]),
        "feedback": row["feedback"],
        "decided": f"{format_time(row['decided_at'])} by {row['decided_by'] or 'no one'}"
        if row["decided_at"]
        else None,
        "asked": format_time(row["requested_at"]),
        "until": format_time(row["expires_at"]),
    }
    CommandOutput().record({name: value for name, value in record.items() if value is not None})


@app.command(epilog="Example: functory approval answer 01998c5e-… yes")
def answer(
    question: Id,
    value: Annotated[str, typer.Argument(help="A choice, JSON, or a text.", show_default=False)],
    feedback: Feedback = "",
) -> None:
    """Answer a question: its run goes on. A question is decided once."""
    with session.engine() as engine:
        found = engine.runs.question(engine.find_id(question, "approval"))
        given = output.choice_of(value, found["payload"].get("choices"))
        engine.runs.answer(found["id"], given, feedback=feedback, author=engine.author)
    CommandOutput().styled((f"question {found['id']} is answered", ""))


@app.command(epilog="Example: functory approval approve 01998c5e-… --argument amount=5 --always recipient")
def approve(
    question: Id,
    argument: Annotated[
        list[str] | None,
        typer.Option(
            "--argument", help="Argument with another value: name=value. Repeatable.", show_default=False
        ),
    ] = None,
    always: Annotated[
        list[str] | None,
        typer.Option(
            "--always",
            help="Ask no more in this run for calls with the same value of this argument. Repeatable: all of them.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Let a run use a tool, once, or approve a proposal. A question is decided once."""
    with session.engine() as engine:
        found = engine.runs.question(engine.find_id(question, "approval"))
        changed = values.parse_pairs(argument, "--argument") if argument else None
        given = None if changed is None else {**_arguments(found), **changed}
        if _is_of_proposal(found, changed or always):
            engine.proposals.approve(found["proposal_id"], question_id=found["id"], author=engine.author)
        else:
            engine.runs.approve(found["id"], arguments=given, always=always, author=engine.author)
    CommandOutput().styled((f"question {found['id']} is {'edited' if changed else 'approved'}", ""))


def _arguments(question: Mapping[str, Any]) -> Mapping[str, Any]:
    """All arguments that a run has asked for: an approval with others names each of them."""
    from functory.engine.errors import Refused

    given = question["payload"].get("arguments", {})
    if given == HIDDEN:
        raise Refused(
            "you may not read the arguments",
            "so you cannot change some of them",
            "ask for the right payload:read",
        )
    return given


@app.command(epilog="Example: functory approval reject 01998c5e-… --feedback 'too expensive'")
def reject(question: Id, feedback: Feedback = "") -> None:
    """Refuse: the run goes on, and gets your words. A proposal ends."""
    with session.engine() as engine:
        found = engine.runs.question(engine.find_id(question, "approval"))
        if _is_of_proposal(found):
            engine.proposals.reject(
                found["proposal_id"], question_id=found["id"], feedback=feedback, author=engine.author
            )
        else:
            engine.runs.reject(found["id"], feedback=feedback, author=engine.author)
    CommandOutput().styled((f"question {found['id']} is rejected", ""))


def _is_of_proposal(question: Mapping[str, Any], arguments: Any = None) -> bool:
    """Return True for a question about a proposal. Raises :class:`Invalid` for one with arguments, which it has not."""
    from functory.engine.errors import Invalid

    if question["kind"] != "proposal":
        return False
    if arguments:
        raise Invalid(
            "a proposal has no arguments",
            "--argument and --always are for calls of tools",
            f"functory approval approve {question['id']}",
        )
    return True

"""``functory llm``: the calls of language models, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from functory.cli import session
from functory.cli.command_group import command_group, option
from functory.cli.input import ids
from functory.cli.output import models as output
from functory.cli.output.dashboard_page import Open, open_page
from functory.engine.agents import money
from functory.terminal.console import AsJson, CommandOutput, Quiet, short_json

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Calls of language models, and what they cost.")

Since = Annotated[str | None, option("Only those of this time, such as 24h or 7d.")]


@app.command("calls", epilog="Example: functory llm calls --model small --state failed")
def calls_(
    model: Annotated[str | None, option("Only those for this model.")] = None,
    state: Annotated[
        str | None,
        option("Only those in this state: queued, sent, succeeded, failed, unknown, refused, cancelled."),
    ] = None,
    root: Annotated[str | None, option("Only those of this tree: the id of its first execution.")] = None,
    execution: Annotated[str | None, option("Only those of this execution.")] = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of calls.")] = 20,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List calls, newest first."""
    with session.engine() as engine:
        rows = engine.calls.list(
            model=model,
            state=state,
            root_id=None if root is None else ids.execution_id(engine, root),
            execution_id=None if execution is None else ids.execution_id(engine, execution),
            since=_since(engine, since),
            limit=limit,
        )
    CommandOutput(json=json, quiet=quiet).table(
        [output.call_in_list(row) for row in rows],
        {
            "id": "ID",
            "state": "STATE",
            "model": "MODEL",
            "function": "FUNCTION",
            "tries": "TRIES",
            "tokens": "TOKENS",
            "cost": "COST",
            "created_at": "ASKED",
            "error": "ERROR",
        },
        data=[output.public_call(row) for row in rows],
        empty="no calls",
    )


@app.command(epilog="Example: functory llm show 01998c5e-…")
def show(
    call: Annotated[str, typer.Argument(help="Id of the call.", show_default=False)],
    open_: Open = False,
    json: AsJson = False,
) -> None:
    """Show a call: its request, its answer, its tries and their cost."""
    with session.engine() as engine:
        row = engine.calls.get(engine.find_id(call, "call"))
        if open_:
            open_page(engine, "calls", row["id"])
    out = CommandOutput()
    if json:
        out.value(output.public_call(row))
        return
    out.record(output.call(row))
    request = row["request"]
    if request is None:
        out.title("request")
        out.styled(("its text is no longer kept: its time in the archive is over", ""))
        return
    for message in request.get("messages", []):
        out.title(message["role"])
        text = message["content"] if isinstance(message["content"], str) else short_json(message["content"])
        _texts(out, [text or "", *(short_json(one, 200) for one in message.get("tool_calls", ()))])
    if row["response"] is not None and "vectors" not in row["response"]:
        out.title("answer")
        used = (
            f"{one['name']}({short_json(one['arguments'], 200)})" for one in row["response"]["tool_calls"]
        )
        _texts(out, [row["response"]["text"] or "", *used])
    elif row["partial"]:
        out.title("answer so far")
        _texts(out, [row["partial"]])
    if len(row["tried"]) > 1 or row["error"]:
        out.title("tries")
        out.table(
            [output.tried(one) for one in row["tried"]],
            {
                "number": "TRY",
                "model": "MODEL",
                "status": "STATUS",
                "seconds": "SECONDS",
                "problem": "PROBLEM",
            },
            empty="it was not sent",
        )


def _texts(out: CommandOutput, texts: Iterable[str]) -> None:
    """Print texts from outside: nothing in them is obeyed by a terminal, and no line looks like one of ours."""
    for text in texts:
        out.styled((text, ""))


@app.command(epilog="Example: functory llm cost --by model --since 7d")
def cost(
    by: Annotated[str, typer.Option(help="model, agent, user, function or day.")] = "model",
    since: Since = None,
    json: AsJson = False,
) -> None:
    """Show calls, tokens and cost in sum."""
    with session.engine() as engine:
        rows = engine.calls.cost(by, since=_since(engine, since))
    CommandOutput(json=json).table(
        [
            {
                **row,
                "of": row["of"] or "none",
                "cost": money.dollars(row["cost"]),
                "tokens": f"{row['tokens_in']:,} + {row['tokens_out']:,}",
            }
            for row in rows
        ],
        {"of": by.upper(), "calls": "CALLS", "tokens": "TOKENS", "cost": "COST"},
        key="of",
        data=[output.public_cost(row) for row in rows],
        empty="no calls",
    )


def _since(engine: Functory, text: str | None) -> datetime | None:
    from functory.engine.serialization import durations

    return None if text is None else engine.now() - timedelta(seconds=durations.parse(text, "--since"))

"""``functory memory``: what agents, their runs and functions remember."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm, option
from functory.cli.input import ids, values
from functory.engine.errors import Invalid
from functory.explanations.quantities import count_of
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("What agents and functions remember: facts, episodes and lessons.")

Memory = Annotated[str, typer.Argument(help="Id of the memory.", show_default=False)]
Agent = Annotated[str | None, option("Memories of this agent.")]
Run = Annotated[str | None, option("Memories of this run alone.")]
Shared = Annotated[bool, typer.Option("--shared", help="Memories that all code may read.")]
Kind = Annotated[str | None, option("Only this kind: fact, episode or lesson.")]

_COLUMNS = {
    "id": "ID",
    "owner": "OF",
    "kind": "KIND",
    "importance": "IMPORTANCE",
    "untrusted": "TRUST",
    "text": "TEXT",
}
# Characters of a text in a table.
_SHOWN = 100


@app.command(epilog='Example: functory memory add "Invoices go out on Mondays" --agent clerk --kind lesson')
def add(
    text: Annotated[str, typer.Argument(help="Text to remember; - reads it from stdin.", show_default=False)],
    kind: Annotated[str, typer.Option(help="Kind: fact, episode or lesson.")] = "fact",
    agent: Annotated[str | None, option("Remember it for this agent. Default: for all code.")] = None,
    run: Annotated[str | None, option("Remember it for this run alone.")] = None,
    importance: Annotated[float, typer.Option(help="Importance, from 0 to 1.")] = 0.5,
    days: Annotated[float | None, option("Days after which it is deleted. Default: never.")] = None,
    quiet: Quiet = False,
) -> None:
    """Store a memory. The same text is stored once, and becomes more important."""
    given = values.read_text(text) if text == "-" else text
    with session.engine(create=True) as engine:
        scope, owner = _place(engine, agent, run, False)
        row = engine.memory.add(
            given,
            kind=kind,
            scope=scope or "shared",
            owner=owner or "",
            importance=importance,
            days=days,
            author=engine.author,
        )
    out = CommandOutput(quiet=quiet)
    if quiet:
        out.lines([row["id"]])
    elif row["added"]:
        out.styled((f"memory {row['id']} is stored", ""))
    else:
        out.styled((f"memory {row['id']} is known; its importance is {row['importance']:.2f} now", ""))


@app.command("list", epilog="Example: functory memory list --agent clerk")
def list_(
    agent: Agent = None,
    run: Run = None,
    shared: Shared = False,
    kind: Kind = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of memories.")] = 20,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List memories, newest first."""
    from functory.rows import memories as models

    with session.engine() as engine:
        scope, owner = _place(engine, agent, run, shared)
        rows = engine.memory.list(scope=scope, owner=owner, kind=kind, limit=limit)
    CommandOutput(json=json, quiet=quiet).table(
        [_in_list(row) for row in rows],
        _COLUMNS,
        data=lambda: [models.Memory.as_json(row) for row in rows],
        empty="no memories",
    )


@app.command(epilog='Example: functory memory search "when do invoices go out" --agent clerk')
def search(
    query: Annotated[str, typer.Argument(help="Words, or a question.", show_default=False)],
    agent: Agent = None,
    run: Run = None,
    shared: Shared = False,
    number: Annotated[int, typer.Option("--number", "-k", min=1, max=100, help="Number of memories.")] = 5,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find memories by their words, and with embedding_model by their meaning: the best first."""
    from functory.rows import memories as models

    with session.engine() as engine:
        scope, owner = _place(engine, agent, run, shared)
        rows = engine.memory.search(query, number, scope=scope, owner=owner)
    CommandOutput(json=json, quiet=quiet).table(
        [_in_list(row) for row in rows],
        _COLUMNS,
        data=lambda: [models.FoundMemory.as_json(row) for row in rows],
        empty="no memories fit",
    )


@app.command(epilog="Example: functory memory show 3Kd9fGh2")
def show(memory: Memory, json: AsJson = False) -> None:
    """Show a memory and where it comes from."""
    from functory.rows import memories as models

    with session.engine() as engine:
        row = engine.memory.get(engine.find_id(memory, "memory"))
    if json:
        CommandOutput().value(models.Memory.as_json(row))
        return
    CommandOutput().record(
        {
            "id": row["id"],
            "of": _owner(row),
            "kind": row["kind"],
            "importance": f"{row['importance']:.2f}",
            "trust": _trust(row),
            "author": row["author"],
            "execution": row["source_execution_id"],
            "run": row["run_id"],
            "stored": row["created_at"],
            "ends": row["expires_at"],
            "text": row["text"],
        }
    )


@app.command(epilog="Example: functory memory forget --execution 3Kd9fGh2 --yes")
def forget(
    memory: Annotated[str | None, typer.Argument(help="Id of the memory.", show_default=False)] = None,
    execution: Annotated[str | None, option("All that this execution has written.")] = None,
    run: Annotated[str | None, option("All that executions of this run have written.")] = None,
    yes: Yes = False,
) -> None:
    """Delete a memory, or all memories from one source. Nothing of their texts and vectors is kept."""
    if sum(given is not None for given in (memory, execution, run)) != 1:
        raise Invalid(
            "what shall be forgotten?", "name one memory, one execution or one run", "functory memory list"
        )
    with session.engine() as engine:
        if memory is not None:
            id_ = engine.find_id(memory, "memory")
            engine.memory.get(id_)
            confirm("Delete the memory?", yes)
            engine.memory.forget(id_, author=engine.author)
            count = 1
        else:
            source = ids.execution_id(engine, execution or run or "")
            confirm(f"Delete all memories from {source}?", yes)
            count = engine.memory.forget_source(
                execution=source if execution is not None else None,
                run_id=source if run is not None else None,
                author=engine.author,
            )
    CommandOutput().styled((f"{count_of(count, 'memory', 'memories')} deleted", ""))


def _place(
    engine: Functory, agent: str | None, run: str | None, shared: bool
) -> tuple[str | None, str | None]:
    """The scope and the owner that the options name; (None, None) without any."""
    if sum((agent is not None, run is not None, shared)) > 1:
        raise Invalid("wrong options", "memories are of one agent, of one run, or shared", "name one of them")
    if agent is not None:
        return "agent", agent
    if run is not None:
        return "run", ids.execution_id(engine, run)
    return ("shared", "") if shared else (None, None)


def _in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "owner": _owner(row),
        "kind": row["kind"],
        "importance": f"{row['importance']:.2f}",
        "untrusted": _trust(row),
        "text": row["text"].partition("\n")[0][:_SHOWN],
    }


def _owner(row: Mapping[str, Any]) -> str:
    return "all" if row["scope"] == "shared" else f"{row['scope']} {row['owner']}"


def _trust(row: Mapping[str, Any]) -> str:
    return "untrusted" if row["untrusted"] else ""

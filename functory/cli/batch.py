"""The option ``--all`` of ``execution retry``, ``replay`` and ``cancel``: the action on many executions.

The command makes a batch and works on it itself, beside the scheduler if there is one. When it is interrupted, the
scheduler goes on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard

import typer

from functory.cli import session
from functory.cli.command_group import confirm, option
from functory.cli.output import execution_result
from functory.terminal import console
from functory.terminal.console import CommandOutput
from functory.terminal.progress import progress

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.engine.executions.batches import Action, BatchRequest, Found

All = Annotated[
    bool,
    option(
        "Take all executions that the other options choose, the newest first, instead of one ID.", "--all"
    ),
]
OneId = Annotated[str | None, typer.Argument(help="Id of the execution.", metavar="ID", show_default=False)]
Functions = Annotated[
    list[str] | None, option("With --all: of this function; may be repeated.", "--function")
]
States = Annotated[list[str] | None, option("With --all: in this state; may be repeated.", "--state")]
Triggers = Annotated[
    list[str] | None, option("With --all: started by this trigger; may be repeated.", "--trigger")
]
Since = Annotated[
    str | None, option("With --all: made in this time, such as 2h, or from this RFC 3339 time on.", "--since")
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=1,
        max=100_000,
        help="With --all: at most this number. Default: 1000.",
        show_default=False,
    ),
]
Reason = Annotated[str, option("With --all: the reason, stored in the audit log.", "--reason")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="With --all: only count them.")]

_POLL_SECONDS = 0.2
_DEFAULT_LIMIT = 1000
_DONE = {"retry": "started again", "replay": "started again", "cancel": "cancelled or asked to stop"}


@dataclass(frozen=True)
class Filters:
    """The options of a command about many executions."""

    functions: Sequence[str]
    states: Sequence[str]
    triggers: Sequence[str]
    since: str | None
    limit: int | None
    reason: str
    dry_run: bool

    def first_given(self) -> str | None:
        """Return the name of the first option that was given."""
        given = {
            "--function": self.functions,
            "--state": self.states,
            "--trigger": self.triggers,
            "--since": self.since,
            "--limit": self.limit,
            "--reason": self.reason,
            "--dry-run": self.dry_run,
        }
        return next((name for name, value in given.items() if value), None)


def filters(
    functions: Sequence[str] | None,
    states: Sequence[str] | None,
    triggers: Sequence[str] | None,
    since: str | None,
    limit: int | None,
    reason: str,
    dry_run: bool,
) -> Filters:
    """Return the options of a command, as Typer gives them."""
    return Filters(functions or (), states or (), triggers or (), since, limit, reason, dry_run)


def is_about_one(
    id_: str | None, all_: bool, given: Filters, *, timeout: float | None = None
) -> TypeGuard[str]:
    """Return True for a command about the execution ``id_``, False for one about many. Raises :class:`Invalid` for
    options of the other kind.
    """
    from functory.engine.errors import Invalid

    if all_ == (id_ is not None):
        raise Invalid(
            "an ID and --all are given" if all_ else "no execution is given",
            "the command is about one execution or about many",
            "give an ID, or --all with filters such as --function",
        )
    wrong = given.first_given() if not all_ else None if timeout is None else "--timeout"
    if wrong is not None:
        raise Invalid(
            f"{wrong} is only for {'one execution' if all_ else 'many executions'}",
            "it means nothing here",
            f"leave out {wrong}" if all_ else "add --all, without an ID",
        )
    return not all_


def run(action: Action, given: Filters, yes: bool, out: CommandOutput, *, latest: bool = False) -> None:
    """Count what the filters choose; after a confirmation, do the action on each of them and print what became of it.
    Exit status 1 when some could not be handled.
    """
    with session.engine() as engine:
        request = _request(engine, action, given, latest)
        found = engine.batches.count(request)
        if given.dry_run or not found.count:
            _print_count(out, action, found)
            return
        confirm(f"{action.capitalize()} {_number(found)}?", yes)
        row = _carry_out(engine, request, found)
        if out.json:
            out.value(_as_json(row))
        else:
            out.styled((f"batch {row['id']} is {row['state']}: {row['done']} {_DONE[action]}", ""))
            for problem in row["problems"]:
                console.note(f"{problem['execution_id']}: {problem['error']}")
            if row["failed"] > len(row["problems"]):
                console.note(f"and {row['failed'] - len(row['problems'])} more could not be handled")
        if action != "cancel" and row["done"]:
            execution_result.warn_without_workers(engine, "they stay queued")
    if row["failed"]:
        raise typer.Exit(1)


def _carry_out(engine: Functory, request: BatchRequest, found: Found) -> dict[str, Any]:
    id_ = engine.batches.create(request, author=engine.author)["id"]
    with progress(found.count if found.complete else None, "executions") as tell:
        while (row := engine.batches.get(id_))["state"] in ("waiting", "running"):
            tell(row["seen"], row["total"])
            if not engine.batches.work_once():
                # Another process has its lease.
                time.sleep(_POLL_SECONDS)
    return row


def _request(engine: Functory, action: Action, given: Filters, latest: bool) -> BatchRequest:
    from functory.engine.executions.batches import BatchRequest
    from functory.engine.executions.listing import ExecutionFilter

    wanted = ExecutionFilter(
        functions=given.functions,
        states=given.states,
        triggers=given.triggers,
        since=_since(engine, given.since),
    )
    return BatchRequest(
        action, wanted, latest=latest, limit=given.limit or _DEFAULT_LIMIT, reason=given.reason
    )


def _since(engine: Functory, text: str | None) -> datetime | None:
    from functory.engine.errors import Invalid
    from functory.engine.serialization import durations

    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return engine.batches.time_ago(durations.parse(text, "--since"))
    if at.tzinfo is None:
        raise Invalid(f"wrong --since {text!r}", "the time has no zone", f"{text}Z for UTC")
    return at


def _print_count(out: CommandOutput, action: str, found: Found) -> None:
    if out.json:
        out.value({"dry_run": True, "count": found.count, "complete": found.complete})
    else:
        out.styled((f"{action} is for {_number(found)}", ""))


def _number(found: Found) -> str:
    said = console.count_of(found.count, "execution")
    return said if found.complete else f"more than {said}"


def _as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "id",
        "action",
        "state",
        "total",
        "seen",
        "done",
        "failed",
        "problems",
        "reason",
        "author",
        "created_at",
    )
    return {name: row[name] for name in names} | {"limit": row["at_most"]}

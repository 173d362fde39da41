"""``functory execution``: executions with results and causes; wait, cancel, replay."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import batch, session
from functory.cli.command_group import Timeout, Wait, Yes, command_group
from functory.cli.input import ids
from functory.cli.output import compensation, execution_detail, execution_result
from functory.cli.output.dashboard_page import Open, open_page
from functory.terminal import console, json_fields
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Executions of functions: results, logs, lineage.")

Id = Annotated[str, typer.Argument(help="Id of the execution.", metavar="ID", show_default=False)]

Latest = Annotated[
    bool, typer.Option("--latest", help="Run the active version instead of the version that ran.")
]


@app.command("list", epilog="Example: functory execution list --state failed -n 20")
def list_(
    function: Annotated[
        str | None, typer.Option(help="List only executions of this function.", show_default=False)
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            help="State: queued, running, succeeded, failed, timed_out, cancelled, dead or expired.",
            show_default=False,
        ),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(
            help="List only executions of the causal tree with this root.", metavar="ID", show_default=False
        ),
    ] = None,
    unresolved: Annotated[
        bool,
        typer.Option(
            "--unresolved",
            help="List only executions that failed, timed out or are dead, and of which no replay has succeeded.",
        ),
    ] = False,
    number: Annotated[
        int, typer.Option("-n", "--number", min=1, max=1000, help="Maximum number of executions to print.")
    ] = 50,
    before: Annotated[
        str | None,
        typer.Option(help="Next page: executions before this id.", metavar="ID", show_default=False),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="With --json: print input and result too, of at most 100 executions."),
    ] = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List executions, newest first."""
    with session.engine() as engine:
        rows = engine.executions.list(
            function=function,
            state=state,
            root_id=ids.any_id(engine, root) if root else None,
            unresolved=unresolved,
            before=ids.execution_id(engine, before) if before else None,
            limit=number,
            payloads=full,
        )
        data = execution_result.rows_as_json(engine, rows, payloads=full) if json else ()
    out = CommandOutput(json=json, quiet=quiet)
    shown = [
        row | {"what": f"{row['function']} v{row['version']}", "took": _duration_cell(out, row)}
        for row in rows
    ]
    columns = {
        "id": "ID",
        "what": "FUNCTION",
        "state": "STATE",
        "cause": "CAUSE",
        "took": "TOOK",
        "created_at": "CREATED",
    }
    if any(row["resolved_by"] for row in rows):
        columns["resolved_by"] = "RESOLVED BY"
    out.table(
        shown,
        columns,
        data=data,
        empty="no such executions",
        ids=("resolved_by",),
    )
    if out.is_terminal and len(rows) == number and not json and not quiet:
        console.note(f"more: functory execution list --before {rows[-1]['id']}")


@app.command(epilog="Example: functory execution show ID")
def show(id_: Id, open_: Open = False, json: AsJson = False) -> None:
    """Show everything about one execution."""
    out = CommandOutput(json=json)
    with session.engine() as engine:
        id_ = ids.execution_id(engine, id_)
        found = engine.lineage.cause(id_)
        row = found["execution"]
        attempts, spans = engine.executions.attempts(id_), engine.executions.spans(id_)
        logs = len(engine.executions.logs(id_))
        places = engine.executions.slot_requests(id_)
        whole = execution_result.as_json(engine, row) if json else {}
        if open_:
            open_page(engine, "executions", id_)
    if json:
        from functory.rows.executions import Attempt, Span

        out.value(
            whole
            | {
                "attempts": [Attempt.as_json(attempt) for attempt in attempts],
                "spans": [Span.as_json(span) for span in spans],
                "log_lines": logs,
            }
        )
        return
    execution_detail.draw(out, found, places=places, attempts=attempts, calls=len(spans), log_lines=logs)


@app.command(epilog="Example: functory execution logs ID --follow")
def logs(
    id_: Id,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the execution has finished.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Print the output and the log of an execution. With --json: one JSON object per line."""
    from functory.cli.output.live_log import POLL_SECONDS, LiveLog
    from functory.engine.executions.outcomes import TERMINAL

    out = CommandOutput(json=json)

    def show(line: Mapping[str, Any]) -> None:
        if json:
            out.json_line(json_fields.without_execution_id(line))
        else:
            out.styled(
                (f"+{line['offset_seconds']:.3f} ", "dim"),
                (f"{line['stream']:<6} ", "dim"),
                (line["text"].rstrip("\n"), _level(line)),
            )

    with session.engine(start=follow) as engine:
        id_ = ids.execution_id(engine, id_)
        lines = LiveLog(engine, id_, show)
        while True:
            # Before the lines: a finished one gets no more.
            row = engine.executions.get(id_)
            finished = row["state"] in TERMINAL
            lines.show_new()
            out.flush()
            if finished or not follow:
                break
            time.sleep(POLL_SECONDS)
        policy = _log_policy(engine, row["function"])
    if json:
        return
    if policy != "full":
        console.note(f"the log policy of {row['function']} is {policy}: not all lines are kept")
    elif lines.is_empty:
        console.note("the execution has printed nothing" if finished else "it has printed nothing so far")


def _log_policy(engine: Functory, function: str) -> str:
    from functory.engine.errors import NotFound

    try:
        return engine.functions.get(function)["log_policy"]
    except NotFound:
        # It was deleted meanwhile, or has no active version.
        return "full"


@app.command(epilog="Example: functory execution spans ID")
def spans(id_: Id, json: AsJson = False) -> None:
    """List the dependencies that the execution called, with input, output and duration."""
    with session.engine() as engine:
        id_ = ids.execution_id(engine, id_)
        rows = engine.executions.spans(id_)
    out = CommandOutput(json=json)
    shown = [
        row
        | {
            "what": "  " * _depth(rows, row) + f"{row['function']} v{row['version']}",
            "at": f"+{console.format_duration(row['offset_seconds'])}",
            "took": console.format_duration(row["duration_seconds"]),
            "in": console.short_json(row["input"], 80),
            "key": row["seq"],
            "out": console.short_json(row["error"] or row["output"], 80),
        }
        for row in rows
    ]
    out.table(
        shown,
        {"what": "CALL", "at": "AT", "took": "TOOK", "in": "INPUT", "out": "OUTPUT"},
        key="key",
        data=lambda: _spans_as_json(rows),
        empty="the execution called no dependencies",
    )


def _spans_as_json(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from functory.rows.executions import Span

    return [Span.as_json(row) for row in found]


@app.command("tree", epilog="Example: functory execution tree ID --below")
def tree_(
    id_: Annotated[
        str, typer.Argument(help="Id of an execution or event.", metavar="ID", show_default=False)
    ],
    below: Annotated[bool, typer.Option("--below", help="Print only its effects, not its causes.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", "-a", help="Also print events of the engine that started no execution.")
    ] = False,
    open_: Open = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the causal tree of an execution or event."""
    from functory.terminal import causal_tree

    with session.engine() as engine:
        id_ = ids.any_id(engine, id_)
        out = CommandOutput(json=json, quiet=quiet)
        root = causal_tree.draw(engine, id_, out, whole=not below, show_all=all_)
        if open_:
            open_page(engine, "trees", root, at=id_)


@app.command("why", epilog="Example: functory execution why ID")
def why_(id_: Id, open_: Open = False, json: AsJson = False) -> None:
    """Explain why an execution ran, waits or failed, and what to do."""
    from functory.explanations import executions as explanations

    out = CommandOutput(json=json)
    with session.engine() as engine:
        id_ = ids.execution_id(engine, id_)
        found = engine.lineage.cause(id_)
        waiting = [
            row
            for state in ("queued", "running")
            for row in engine.executions.list(parent_id=id_, state=state)
        ]
        alive = len(engine.workers_alive())
        embedded = engine.settings.embedded
        if open_:
            open_page(engine, "executions", id_)
    format_time = explanations.utc_time if json else console.format_time
    said = explanations.explain(
        found, children=waiting, workers=alive, embedded=embedded, format_time=format_time
    )
    if json:
        from functory.rows.executions import Why

        out.value(Why.as_json(explanations.fields(found, said, waiting)))
        return
    for sentence in said:
        out.styled((console.hint(sentence), ""))


@app.command(epilog="Example: functory execution wait ID --timeout 60")
def wait(
    id_: Id,
    timeout: Timeout = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Wait for an execution and print its result. Exit status 1 when it fails, 124 after --timeout."""
    with session.engine(start=True) as engine:
        id_ = ids.execution_id(engine, id_)
        execution_result.wait_and_print(engine, id_, timeout, CommandOutput(json=json, quiet=quiet))


@app.command(epilog="Example: functory execution cancel ID")
def cancel(
    id_: batch.OneId = None,
    tree: Annotated[
        bool,
        typer.Option(
            "--tree",
            help="Cancel everything that it has caused, also what its events have started and what it has abandoned.",
        ),
    ] = False,
    all_: batch.All = False,
    function: batch.Functions = None,
    state: batch.States = None,
    trigger: batch.Triggers = None,
    since: batch.Since = None,
    limit: batch.LimitOption = None,
    reason: batch.Reason = "",
    dry_run: batch.DryRun = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Cancel a queued or running execution with its open children, or all of a filter."""
    filters = batch.filters(function, state, trigger, since, limit, reason, dry_run)
    if not batch.is_about_one(id_, all_, filters):
        if tree:
            from functory.engine.errors import Invalid

            raise Invalid("--tree is only for one execution", "it means nothing here", "leave out --tree")
        batch.run("cancel", filters, yes, CommandOutput(json=json))
        return
    with session.engine() as engine:
        id_ = ids.execution_id(engine, id_)
        row = engine.executions.cancel(id_, tree=tree, author=engine.author)
        whole = execution_result.as_json(engine, engine.executions.get(id_)) if json else {}
    out = CommandOutput(json=json)
    if json:
        out.value(whole)
    else:
        done = f"is {row['state'].replace('_', ' ')}"
        if row["state"] == "running":
            done += "; its worker has been asked to stop it"
        if tree:
            done += "; everything that it has caused is being cancelled"
        out.styled((f"execution {id_} {done}", ""))


@app.command(epilog="Example: functory execution replay ID --latest")
def replay(
    id_: batch.OneId = None,
    latest: Latest = False,
    wait: Wait = True,
    timeout: Timeout = None,
    all_: batch.All = False,
    function: batch.Functions = None,
    state: batch.States = None,
    trigger: batch.Triggers = None,
    since: batch.Since = None,
    limit: batch.LimitOption = None,
    reason: batch.Reason = "",
    dry_run: batch.DryRun = False,
    yes: Yes = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a finished execution again, or all of a filter: new executions with the same input."""
    filters = batch.filters(function, state, trigger, since, limit, reason, dry_run)
    out = CommandOutput(json=json, quiet=quiet)
    if batch.is_about_one(id_, all_, filters, timeout=timeout):
        _run_again(id_, latest, wait, timeout, out, failed_only=False)
    else:
        batch.run("replay", filters, yes, out, latest=latest)


@app.command(epilog="Example: functory execution retry ID --latest")
def retry(
    id_: batch.OneId = None,
    latest: Latest = False,
    wait: Wait = True,
    timeout: Timeout = None,
    all_: batch.All = False,
    function: batch.Functions = None,
    state: batch.States = None,
    trigger: batch.Triggers = None,
    since: batch.Since = None,
    limit: batch.LimitOption = None,
    reason: batch.Reason = "",
    dry_run: batch.DryRun = False,
    yes: Yes = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run an execution that did not succeed again, like replay, or all of a filter."""
    filters = batch.filters(function, state, trigger, since, limit, reason, dry_run)
    out = CommandOutput(json=json, quiet=quiet)
    if batch.is_about_one(id_, all_, filters, timeout=timeout):
        _run_again(id_, latest, wait, timeout, out, failed_only=True)
    else:
        batch.run("retry", filters, yes, out, latest=latest)


@app.command(epilog="Example: functory execution compensate ID --skip --reason 'paid back by hand'")
def compensate(
    id_: Annotated[str, typer.Argument(help="Id of the failed execution.", metavar="ID", show_default=False)],
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave the step as it is and continue with the step before it.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Reason, stored in the audit log.", show_default=False)] = "",
    json: AsJson = False,
) -> None:
    """Continue a compensation that stopped. The failed step is tried again, or skipped."""
    from functory.engine.errors import Invalid

    if reason and not skip:
        raise Invalid("--reason needs --skip", "only a skipped step has a reason", "leave out --reason")
    with session.engine() as engine:
        id_ = ids.execution_id(engine, id_)
        compensation.retry_or_skip(engine, id_, skip, reason, CommandOutput(json=json))


def _run_again(
    id_: str, latest: bool, wait: bool, timeout: float | None, out: CommandOutput, *, failed_only: bool
) -> None:
    with session.engine(start=wait) as engine:
        id_ = ids.execution_id(engine, id_)
        again = engine.executions.retry if failed_only else engine.executions.replay
        row = again(id_, latest=latest, author=engine.author)
        if not wait:
            execution_result.print_queued(engine, row, out)
            return
        execution_result.wait_and_print(engine, row["id"], timeout, out)


def _duration_cell(out: CommandOutput, row: Mapping[str, Any]) -> Any:
    took = json_fields.duration(row)
    return (console.format_duration(took) or None) if out.is_terminal else took


def _level(line: Mapping[str, Any]) -> str:
    return {"error": "red", "critical": "red", "warning": "yellow"}.get(
        line["level"], "red" if line["stream"] == "stderr" else ""
    )


def _depth(rows: list[dict[str, Any]], row: Mapping[str, Any]) -> int:
    above = {(r["fence"], r["seq"]): r["parent_seq"] for r in rows}
    depth, at = 0, row["parent_seq"]
    while at is not None and depth < len(rows):
        depth, at = depth + 1, above.get((row["fence"], at))
    return depth

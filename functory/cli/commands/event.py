"""``functory event``: write, read and follow events, and explain why one caused nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import command_group, duration
from functory.cli.input import ids, values
from functory.cli.output import execution_result
from functory.cli.output.dashboard_page import Open, open_page
from functory.cli.output.hidden import HIDDEN, HIDDEN_TEXT, readable
from functory.engine.database import short_ids
from functory.engine.database.id_times import lowest_id
from functory.engine.errors import FunctoryError, Invalid
from functory.engine.serialization.control_characters import one_line
from functory.terminal import console, json_fields
from functory.terminal.console import AsJson, CommandOutput, Quiet
from functory.terminal.progress import progress

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Events: every change, every matched output, every event that you emit.")

Id = Annotated[str, typer.Argument(help="Id of the event.", metavar="ID", show_default=False)]
Type = Annotated[
    str | None, typer.Option("--type", help="List only events of this type.", show_default=False)
]
COLUMNS = {"id": "ID", "time": "TIME", "type": "TYPE", "subject": "SUBJECT", "state": "STATE"}

# Events become visible in the order of their commits, their ids are in the order of their making:
# --follow looks back this far, and skips known events by their ids.
_LOOK_BACK = timedelta(seconds=5)
_POLL_SECONDS = 0.5


@app.command(epilog='Example: functory event emit order.created --data \'{"sku": "A1"}\' --wait')
def emit(
    type_: Annotated[
        str | None,
        typer.Argument(
            metavar="[TYPE]",
            help="Event type: words joined with dots, such as order.created.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data of the event: JSON text, @file, or - for stdin.", show_default=False),
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Subject: the thing that the event is about.", show_default=False)
    ] = None,
    dedup_key: Annotated[
        str | None,
        typer.Option(
            help="Idempotency key: an event with a key that was used before is not written.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            help="Write many events: a file with one JSON object a line, or - for stdin. Each has a type, and may "
            "have data, subject and dedup_key.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    skip: Annotated[
        int, typer.Option(min=0, help="With --file: leave out this many events at the beginning.")
    ] = 0,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait until everything that the event causes is finished, then print the causal tree.",
        ),
    ] = False,
    timeout: Annotated[float, duration("Longest time to wait, in seconds or as 2m. Default: 60.")] = 60.0,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write one event and print its id. With --file: write many events and print how many.

    With --wait the exit status is 1 when a match or an execution that the event caused has failed.
    """
    from functory.terminal import causal_tree

    if file is not None:
        _emit_file(file, skip, alone=(type_, data, subject, dedup_key) == (None,) * 4 and not wait, json=json)
        return
    if type_ is None:
        raise Invalid(
            "the event has no type",
            "give a TYPE, or --file for many events",
            "functory event emit order.created",
        )
    value = values.read_json(data, "--data") if data is not None else None
    out = CommandOutput(json=json, quiet=quiet)
    with session.engine(start=wait, create=True) as engine:
        id_ = engine.events.emit(
            type_, value, subject=subject, source="/functory/cli", dedup_key=dedup_key, author=engine.author
        )
        if wait:
            row = engine.events.get(id_)
            if not engine.settings.embedded:
                execution_result.warn_without_workers(engine, "it starts nothing")
            engine.settle(timeout, root_id=row["root_id"])
            causal_tree.draw(engine, id_, out)
            out.flush()
            _raise_for_failures(engine, id_)
        elif json:
            out.value(_as_json(engine, id_))
        else:
            out.lines([id_])
        if not wait:
            execution_result.warn_without_workers(engine, "it starts nothing")


@app.command("list", epilog="Example: functory event list --type output.matched -n 20")
def list_(
    type_: Type = None,
    subject: Annotated[
        str | None, typer.Option(help="List only events with this subject.", show_default=False)
    ] = None,
    state: Annotated[
        str | None, typer.Option(help="State: pending, routed or quarantined.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="List only events of this source, such as /functory/webhook/orders.", show_default=False
        ),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(
            help="List only events of the causal tree with this root.", metavar="ID", show_default=False
        ),
    ] = None,
    number: Annotated[
        int, typer.Option("-n", "--number", min=1, max=1000, help="Maximum number of events to print.")
    ] = 50,
    before: Annotated[
        str | None,
        typer.Option(help="Next page: events before this id.", metavar="ID", show_default=False),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="With --json: print the data too, of at most 100 events.")
    ] = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List events, newest first."""
    with session.engine() as engine:
        rows = engine.events.list(
            type_=type_,
            subject=subject,
            state=state,
            source=source,
            root_id=ids.any_id(engine, root) if root else None,
            before=ids.event_id(engine, before) if before else None,
            limit=number,
            payloads=full,
        )
        data = _rows_as_json(engine, rows, payloads=full) if json else ()
    out = CommandOutput(json=json, quiet=quiet)
    out.table(
        rows,
        COLUMNS,
        data=data,
        empty="no such events",
    )
    if out.is_terminal and len(rows) == number and not json and not quiet:
        console.note(f"more: functory event list --before {rows[-1]['id']}")


@app.command(epilog="Example: functory event show ID")
def show(id_: Id, open_: Open = False, json: AsJson = False) -> None:
    """Show one event, its data, and what the triggers decided."""
    out = CommandOutput(json=json)
    with session.engine() as engine:
        id_ = ids.event_id(engine, id_)
        row = engine.events.get(id_)
        firings = engine.lineage.firings(id_)
        whole = _as_json(engine, id_) if json else {}
        if open_:
            open_page(engine, "events", id_)
    if json:
        out.value(whole)
        return
    out.styled((row["type"], "bold"), (f"   {row['state']}", console.STYLES.get(row["state"], "")))
    out.record(
        {
            "id": row["id"],
            "time": row["time"],
            "source": row["source"],
            "subject": row["subject"],
            "problem": row["problem"],
            "caused by": f"execution {row['cause_execution_id']}" if row["cause_execution_id"] else None,
            "root": row["root_id"] if row["root_id"] != row["id"] else None,
            "depth": row["depth"],
            "data": console.short_json(row["data"], 10_000) if not out.is_terminal else None,
        }
    )
    if out.is_terminal:
        out.title("data")
        out.value(row["data"])
    if firings:
        out.title("triggers")
    for firing in firings:
        out.styled(
            (f"{firing['trigger']} v{firing['trigger_version']}  ", ""),
            (firing["decision"], console.STYLES.get(firing["decision"], "")),
            (
                f"  execution {firing['execution_id']}"
                if firing["execution_id"]
                else f"  {firing['reason']}: {firing['detail'] or ''}",
                "",
            ),
        )


@app.command(epilog="Example: functory event tail --type order.created --follow --json")
def tail(
    type_: Type = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until Ctrl-C.")] = False,
    number: Annotated[
        int, typer.Option("-n", "--number", min=0, max=1000, help="Number of older events to print first.")
    ] = 10,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the newest events, one per line. With --json: one JSON object per line."""
    out = CommandOutput(json=json, quiet=quiet)
    with session.engine() as engine:
        known = engine.events.list(type_=type_, limit=1000)
        for row in reversed(known[:number]):
            _print_event(out, engine.events.get(row["id"]) if json else row)
        out.flush()
        if follow:
            for row in _follow_events(engine, type_, {row["id"] for row in known}):
                _print_event(out, engine.events.get(row["id"]) if json else row)
                out.flush()


@app.command(epilog="Example: functory event why ID, or functory event why ID --times")
def why(
    id_: Id,
    times: Annotated[
        bool,
        typer.Option(
            "--times", help="Show where the milliseconds went: each step of the event and its executions."
        ),
    ] = False,
    open_: Open = False,
    json: AsJson = False,
) -> None:
    """Explain what each trigger decided about an event. Without a match: the clause that failed."""
    out = CommandOutput(json=json)
    if times:
        from functory.cli.output import event_times

        with session.engine() as engine:
            id_ = ids.event_id(engine, id_)
            event_times.draw(engine, id_, out)
            if open_:
                open_page(engine, "events", id_)
        return
    with session.engine() as engine:
        id_ = ids.event_id(engine, id_)
        row = engine.events.get(id_)
        answers = engine.explain_event(id_)
        if open_:
            open_page(engine, "events", id_)
    if json:
        from functory.rows.events import Decision

        out.value([Decision.as_json(answer) for answer in answers])
        return
    if row["state"] == "pending":
        console.note("the event is pending: no router has taken it yet")
    out.table(
        [answer | {"reason": _reason(answer)} for answer in answers],
        {"trigger": "TRIGGER", "version": "VERSION", "decision": "DECISION", "reason": "REASON"},
        key="trigger",
        empty="there are no triggers",
    )
    for answer in answers if out.is_terminal else ():
        if answer.get("clauses"):
            out.title(f"{answer['trigger']} v{answer['version']}")
            for clause in answer["clauses"]:
                out.clause(readable(clause, "found"))


@app.command(
    epilog="Example: functory event release ID, or functory event release --all --type order.created"
)
def release(
    id_: Annotated[str | None, typer.Argument(metavar="[ID]", show_default=False)] = None,
    all_: Annotated[bool, typer.Option("--all", help="Release all quarantined events.")] = False,
    type_: Annotated[
        str | None, typer.Option("--type", help="With --all: only events of this type.", show_default=False)
    ] = None,
) -> None:
    """Send one quarantined event, or all of them, to the router again."""
    if (id_ is None) is not all_ or (type_ is not None and not all_):
        raise Invalid(
            "it is not clear which events to release",
            "give one id, or --all; --type works only with --all",
            "functory event list --state quarantined",
        )
    with session.engine() as engine:
        if id_ is not None:
            id_ = ids.event_id(engine, id_)
            engine.events.release(id_, author=engine.author)
            CommandOutput().styled((f"event {id_} is pending again", ""))
            return
        count = engine.events.release_all(type_, author=engine.author)
    CommandOutput().styled((f"{console.count_of(count, 'event')} pending again", ""))


def _raise_for_failures(engine: Functory, id_: str) -> None:
    """Raise :class:`FunctoryError` when something that the event caused has failed: a match, an execution, or the
    routing of an event. What a guard or a flow control has decided is no failure.
    """
    from functory.engine.executions.outcomes import BAD_ENDS
    from functory.engine.firings.failures import REASONS

    failures: list[str] = []
    for node in (node for top in engine.lineage.tree(id_, whole=False).nodes for node in top.walk()):
        row = node.row
        if node.kind == "suppressed" and row["reason"] in REASONS:
            failures.append(f"the match of trigger {row['trigger'] or row['trigger_id']}: {row['reason']}")
        elif node.kind == "execution" and row["state"] in BAD_ENDS:
            failures.append(f"{row['function']} v{row['version']} {row['state']}")
        elif node.kind == "event" and row["state"] == "quarantined":
            failures.append(f"the event {row['type']} is quarantined")
    if failures:
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        raise FunctoryError(
            "not all that the event caused has succeeded",
            failures[0] + more,
            f"functory event why {id_}, or functory execution tree {id_}",
        )


def _emit_file(path: str, skip: int, *, alone: bool, json: bool) -> None:
    """Write the events of a file. A file is checked whole before the first event is written; stdin is checked batch by
    batch.
    """
    from functory.cli.input import event_lines

    if not alone:
        raise Invalid("--file takes no other event", "its lines hold types, data, subjects and keys")
    out = CommandOutput(json=json)
    with session.engine(create=True) as engine:
        most = engine.settings.max_event_bytes
        total = None
        if path != "-":
            total = sum(len(batch) for batch in event_lines.batches(path, most, skip=skip))
        written = 0
        with progress(total, "events") as tell:
            try:
                for batch in event_lines.batches(path, most, skip=skip):
                    engine.events.write(batch, source="/functory/cli", author=engine.author)
                    written += len(batch)
                    tell(written)
            except (FunctoryError, KeyboardInterrupt):
                if written:
                    console.warn(
                        f"{console.count_of(written, 'event was', 'events were')} written before this; "
                        f"to go on: --skip {skip + written}"
                    )
                raise
        if written:
            execution_result.warn_without_workers(engine, "they start nothing")
    if json:
        out.value({"written": written})
    else:
        out.styled((f"wrote {console.count_of(written, 'event')}", ""))


def _reason(answer: Mapping[str, Any]) -> str:
    if answer["decision"] == "fired":
        return f"execution {answer['execution_id']}"
    words = [answer["reason"] or ""]
    if answer.get("limit") is not None:
        words.append(f"limit {answer['limit']}, value {answer['value']}")
    if answer.get("detail"):
        words.append(answer["detail"])
    return "; ".join(HIDDEN_TEXT if word == HIDDEN else word for word in words if word)


def _as_json(engine: Functory, id_: str) -> dict[str, Any]:
    """An event as the API has it, and the members of its CloudEvents envelope."""
    from functory.rows.events import Event

    found = session.read_models(engine).event(id_)
    return json_fields.event(found) | Event.as_json(found)


def _rows_as_json(
    engine: Functory, found: Sequence[Mapping[str, Any]], *, payloads: bool
) -> list[dict[str, Any]]:
    """Events as the API lists them; with ``payloads`` also their data, which is in ``found``."""
    from functory.rows.events import EventRow

    made = [EventRow.as_json(row) for row in session.read_models(engine).events(found)]
    if not payloads:
        return made
    data = {row["id"]: row["data"] for row in found}
    return [row | {"data": data[row["id"]]} for row in made]


def _print_event(out: CommandOutput, row: Mapping[str, Any]) -> None:
    if out.json:
        out.json_line(json_fields.event(row))
    elif out.quiet:
        out.lines([row["id"]])
    elif out.is_terminal:
        out.styled(
            (f"{console.format_time(row['time'])}  ", "dim"),
            (f"{one_line(row['type']):<24} ", "bold"),
            (f"{one_line(row['subject'] or '')}  ", ""),
            (short_ids.short(row["id"]), "dim"),
        )
    else:
        out.lines(
            [
                "\t".join(
                    (
                        row["id"],
                        console.iso_time(row["time"]),
                        one_line(row["type"]),
                        one_line(row["subject"] or ""),
                    )
                )
            ]
        )


def _follow_events(engine: Functory, type_: str | None, seen: set[str]) -> Iterator[dict[str, Any]]:
    """Events that are not ``seen`` yet, without end."""
    while True:
        anchor = lowest_id(engine.now() - _LOOK_BACK)
        fresh: set[str] = set()
        while page := engine.events.list(type_=type_, after=anchor, limit=1000):
            for row in page:
                fresh.add(row["id"])
                if row["id"] not in seen:
                    yield row
            anchor = page[-1]["id"]
        seen = fresh
        time.sleep(_POLL_SECONDS)

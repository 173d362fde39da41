"""``functory schedule``: events at times, and the functions that they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import ExpectedVersion, MaxPerMinute, Yes, command_group, confirm, option
from functory.cli.input import values
from functory.cli.output.saved import print_saved
from functory.cli.source_verbs import SourceNoun, source_verbs
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Schedules: events at times given by cron, intervals or dates.")

Name = Annotated[str, typer.Argument(help="Name of the schedule.", show_default=False)]

_OVERLAPS = "skip, buffer_one, buffer_all, cancel_other, terminate_other or allow_all"

Count = Annotated[
    int, typer.Option("-n", "--count", min=1, max=1000, help="Maximum number of times to print.")
]
# An example of each option whose value is often written in another way.
_EXAMPLES = {
    "cron": "--cron '30 2 * * *' for half past two each day",
    "at": "--at 2026-12-24T18:00",
    "anchor": "--anchor 2026-12-24T18:00",
    "start": "--start 2026-12-24T18:00",
    "end": "--end 2026-12-24T18:00",
    "timezone": "--timezone Europe/Berlin",
}
Overlap = Annotated[str | None, option(f"If the previous execution still runs: {_OVERLAPS}.", "--overlap")]


@app.command(
    epilog="Example: functory schedule add nightly --cron '30 2 * * *' --timezone Europe/Berlin --function report"
)
def add(
    name: Name,
    cron: Annotated[
        str | None,
        option(
            "Cron expression: minute hour day month weekday (six fields: seconds first), or @daily and similar."
        ),
    ] = None,
    every: Annotated[str | None, option("Interval, such as 90s, 15m, 6h, 1d.")] = None,
    at: Annotated[list[str] | None, option("Date and time, such as 2026-12-24T18:00. Repeatable.")] = None,
    timezone: Annotated[str | None, option("IANA time zone, such as Europe/Berlin. Default: UTC.")] = None,
    function: Annotated[str | None, option("Function to run: name or name@3.")] = None,
    input_: Annotated[str | None, option("Input template: JSON with {{ … }} expressions.", "--input")] = None,
    data: Annotated[str | None, option("Data of the events: JSON text, @file, or - for stdin.")] = None,
    overlap: Overlap = None,
    catch_up: Annotated[
        str | None, option("Missed times to fire after a downtime: all, latest or none. Default: latest.")
    ] = None,
    catch_up_window: Annotated[
        str | None, option("Times that were missed longer ago are not caught up. Default: 365d.")
    ] = None,
    jitter: Annotated[
        str | None, option("Delay each time by a different part of this duration, such as 5m.")
    ] = None,
    pause_on_failure: Annotated[
        bool,
        typer.Option(
            "--pause-on-failure", help="Pause the schedule when an execution fails after all retries."
        ),
    ] = False,
    anchor: Annotated[
        str | None, option("Date and time from which --every counts. Default: 1970-01-01.")
    ] = None,
    start: Annotated[str | None, option("First possible date and time.")] = None,
    end: Annotated[str | None, option("Last possible date and time.")] = None,
    max_per_minute: MaxPerMinute = None,
    expected_version: ExpectedVersion = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Save a schedule. An existing schedule is replaced; its times start from now."""
    from functory.engine.errors import Invalid

    fields = {
        "cron": cron,
        "every": every,
        "at": at or None,
        "timezone": timezone,
        "data": values.read_json(data, "--data") if data is not None else None,
        "overlap": _policy(overlap),
        "catch_up": catch_up,
        "catch_up_window": catch_up_window,
        "jitter": jitter,
        "pause_on_failure": pause_on_failure or None,
        "anchor": anchor,
        "start": start,
        "end": end,
        "max_per_minute": max_per_minute,
    }
    with session.engine(create=True) as engine:
        try:
            row = engine.schedules.save(
                name,
                function=function,
                input=values.read_json(input_, "--input") if input_ is not None else None,
                expected_version=expected_version,
                **{field: value for field, value in fields.items() if value is not None},
            )
        except Invalid as error:
            # Its reason begins with the first field that is wrong, and may say itself what to write.
            says_how = any(words in error.why for words in ("instead", ": write ", "did you mean"))
            example = "" if says_how else _EXAMPLES.get(error.why.partition(":")[0], "")
            raise Invalid(error.what, error.why, error.try_ or example) from None
        times = engine.schedules.next(name, 3)
        shown = _NOUN.as_json(engine, row) if json else {}
    for warning in row["warnings"]:
        console.warn(warning)
    more = (
        [f"it is paused; to resume it: functory schedule resume {name}"] if row["state"] == "paused" else []
    )
    more.append(f"next: {', then '.join(time['local_time'] for time in times)}")
    print_saved(CommandOutput(json=json, quiet=quiet), "schedule", row, shown, *more)


@app.command("next", epilog="Example: functory schedule next nightly -n 5")
def next_(
    name: Name,
    count: Count = 10,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the next times, in the schedule's time zone and in UTC. Nothing is started."""
    from functory.rows.sources import NextTime

    with session.engine() as engine:
        times = engine.schedules.next(name, count)
    CommandOutput(json=json, quiet=quiet).table(
        [time | {"utc": _utc(time["fire_time"]), "due_utc": _utc(time["due"])} for time in times],
        {"local_time": "LOCAL", "utc": "UTC", "due_utc": "DUE"},
        key="utc",
        data=lambda: [NextTime.as_json(time) for time in times],
        empty=f"{name} has no more times: all are in the past",
    )


@app.command(epilog="Example: functory schedule ticks nightly -n 20")
def ticks(
    name: Name,
    count: Count = 20,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List the times that became events, newest first, and the executions that they started."""
    from functory.rows.sources import Tick

    with session.engine() as engine:
        rows = engine.schedules.ticks(name, count)
    # A time fired by hand has microseconds; they are not shown.
    shown = [row | {"second": row["local_time"][:19] + row["local_time"][-6:]} for row in rows]
    CommandOutput(json=json, quiet=quiet).table(
        shown,
        {"second": "TIME", "origin": "ORIGIN", "written_at": "WRITTEN", "execution_id": "EXECUTION"},
        key="event_id",
        data=lambda: [Tick.as_json(row) for row in rows],
        empty=f"{name} has not fired yet; try: functory schedule next {name}",
    )


@app.command(epilog="Example: functory schedule trigger nightly")
def trigger(name: Name, overlap: Overlap = None, json: AsJson = False, quiet: Quiet = False) -> None:
    """Fire a schedule now, in addition to its times, even while it is paused. Prints the id of the event."""
    with session.engine() as engine:
        id_ = engine.schedules.trigger(name, overlap=overlap)
    out = CommandOutput(json=json, quiet=quiet)
    if json:
        out.value({"event_id": id_})
    elif quiet:
        out.lines([id_])
    else:
        out.styled((console.hint(f"event {id_}; to see what follows: functory execution tree {id_}"), ""))


@app.command(epilog="Example: functory schedule backfill nightly --from 2026-11-01 --to 2026-11-08 --dry-run")
def backfill(
    name: Name,
    first: Annotated[
        str, option("Start of the range, in the schedule's time zone: 2026-11-01T00:00.", "--from")
    ],
    last: Annotated[str, option("End of the range (inclusive).", "--to")],
    overlap: Annotated[
        str | None,
        option(
            f"If the previous execution still runs: {_OVERLAPS}. Default: buffer_all, one after the other.",
            "--overlap",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the times; write nothing.")] = False,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fire the times of a range that were not fired before. Their events are marked as backfill."""
    from functory.rows.sources import BackfillTime

    with session.engine() as engine:
        found = engine.schedules.backfill_rows(name, first, last, overlap=overlap, dry_run=dry_run)
    columns = {"local_time": "LOCAL", "utc": "UTC", "status": "STATUS", "event_id": "EVENT"}
    if dry_run:
        del columns["event_id"]
    CommandOutput(json=json, quiet=quiet).table(
        [row | {"utc": _utc(row["fire_time"])} for row in found],
        columns,
        key="utc",
        data=lambda: [BackfillTime.as_json(row) for row in found],
        empty=f"{name} has no time in that range",
    )


@app.command(epilog="Example: functory schedule resume nightly")
def resume(name: Name) -> None:
    """Resume a paused schedule. Times that passed during the pause are not caught up."""
    with session.engine() as engine:
        since, passed = engine.schedules.resume(name)
        times = engine.schedules.next(name, 1)
    out = CommandOutput()
    following = f"; next: {times[0]['local_time']}" if times else "; all its times are in the past"
    out.styled((f"schedule {name} is enabled{following}", ""))
    if since is not None and passed:
        count = f"{passed} times" if passed > 1 else "one time"
        out.styled(
            (
                f"{count} passed while it was paused; to run them: functory schedule backfill {name} "
                f"--from {_utc(since)} --to …",
                "",
            )
        )


@app.command(epilog="Example: functory schedule delete nightly --yes")
def delete(name: Name, yes: Yes = False) -> None:
    """Delete a schedule and the trigger that runs its function. Its events and executions stay."""
    with session.engine() as engine:
        engine.schedules.get(name)
        confirm(f"Delete the schedule {name}?", yes)
        engine.schedules.delete(name)
    CommandOutput().styled((f"schedule {name} is deleted", ""))


def _policy(text: str | None) -> str | None:
    return None if text is None else text.replace("-", "_")


def _utc(time: Any) -> str:
    return console.iso_time(time)


def _detail(engine: Functory, row: dict[str, Any]) -> dict[str, Any]:
    times = engine.schedules.next(row["name"], 3)
    return row | {
        "next": [time["fire_time"] for time in times],
        "next_local": [time["local_time"] for time in times],
    }


def _draw(out: CommandOutput, row: Mapping[str, Any]) -> None:
    config = row["config"]
    out.styled(
        (f"{row['name']} v{row['version']}", "bold"),
        (f"   {row['state']}", console.STYLES.get(row["state"], "")),
    )
    out.record(
        {
            "saved": f"{console.format_time(row['updated_at'])} by {row['author']}",
            "note": row["note"],
            "problem": row["problem"],
            "when": row["when"],
            "time zone": row["timezone"],
            "between": " and ".join(config[bound] for bound in ("start", "end") if bound in config) or None,
            "jitter": config.get("jitter"),
            "events a minute": config.get("max_per_minute"),
            "function": row["function"],
            "input": row["trigger"]["definition"]["input"] if row["trigger"] else None,
            "data": config.get("data"),
            "overlap": config["overlap"],
            "catch up": f"{config['catch_up']}, within {config['catch_up_window']}",
            "on failure": "the schedule is paused" if config["pause_on_failure"] else None,
            "last": row["last_at"],
            "missed": row["missed"] or None,
            "next": "\n".join(row["next_local"]) or "never: all its times are in the past",
        }
    )


_NOUN = SourceNoun(
    name="schedule",
    kinds=("schedule",),
    name_help="Name of the schedule.",
    example="nightly",
    first_step="add --help",
    help={
        "list": "List all schedules with their next time.",
        "show": "Show when a schedule fires, what it runs, and what it has missed.",
        "pause": "Pause a schedule: its times pass without events until it is resumed.",
    },
    fields="name state version config function note problem next_at last_at missed author created_at updated_at",
    details="next",
    columns={
        "name": "NAME",
        "state": "STATE",
        "when": "WHEN",
        "timezone": "TIME ZONE",
        "function": "FUNCTION",
        "next_at": "NEXT",
        "last_at": "LAST",
        "missed": "MISSED",
        "trouble": "NOTE",
    },
    rows=lambda engine: [row | {"trouble": row["problem"] or row["note"]} for row in engine.schedules.list()],
    find=lambda engine, name: engine.schedules.get(name),
    detail=_detail,
    draw=_draw,
)
source_verbs(app, _NOUN)

"""Verbs of ``functory trigger`` about guards: promote, replay, budget, kill switch, cycles, backtest.

:mod:`functory.cli.commands.trigger.crud` registers them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.input import ids, values
from functory.engine.serialization.control_characters import one_line
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, count_of
from functory.terminal.progress import progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from functory.triggers.analysis.cycles import Graph

Name = Annotated[str, typer.Argument(help="Name of the trigger.", show_default=False)]


def promote(name: Name) -> None:
    """Enable a trigger that is in shadow mode: it fires instead of recording only."""
    with session.engine() as engine:
        engine.triggers.promote(name, author=engine.author)
    CommandOutput().styled((f"trigger {name} is enabled; it fires from the next event on", ""))


def replay(
    name: Name,
    event: Annotated[str, typer.Argument(help="Id of the event.", show_default=False)],
    json: AsJson = False,
) -> None:
    """Fire a trigger once for an event for which it was suppressed. The execution gets its place in the causal tree."""
    with session.engine() as engine:
        handle = engine.replay_suppressed(name, ids.event_id(engine, event))
        row = (
            engine.executions.wait([handle.id])[0]
            if engine.settings.embedded
            else engine.executions.get(handle.id)
        )
    out = CommandOutput(json=json)
    if json:
        out.value({"execution_id": row["id"], "state": row["state"]})
    else:
        out.styled(
            (
                console.hint(
                    f"execution {row['id']} {row['state']}; to read it: functory execution show {row['id']}"
                ),
                "",
            )
        )


def resume_suppressed(
    trigger: Annotated[
        str | None, typer.Option(help="Only matches of this trigger.", show_default=False)
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(help="Only matches in the tree of this event or execution.", show_default=False),
    ] = None,
    reason: Annotated[
        list[str] | None,
        typer.Option(help="Only matches suppressed for this reason; may be repeated.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The matches of all triggers.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them, and start nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Fire all suppressed matches of a trigger, a root or a reason, once each. Without --reason, those that guards, a
    pause, a missing function or a wrong input suppressed. The matches of a deleted trigger are among them."""
    from functory.engine.errors import Invalid

    if not (trigger or root or reason or everything):
        raise Invalid(
            "no suppressed matches were named",
            "without a trigger, a root or a reason all of them would start",
            "functory trigger resume-suppressed --trigger NAME --dry-run, or --all",
        )
    with session.engine() as engine:
        root = ids.any_id(engine, root) if root else None
        done = engine.resume_suppressed(trigger=trigger, root=root, reasons=reason or (), dry_run=dry_run)
        existing = {row["name"] for row in engine.triggers.list()} if done.counts else set[str]()
    for name in sorted({name for name, _ in done.counts} - existing):
        runs = "would run" if dry_run else "run"
        console.warn(f"the trigger {name} is deleted: matches from before that {runs}")
    rows = [
        {"trigger": name, "reason": why, "count": count} for (name, why), count in sorted(done.counts.items())
    ]
    total = sum(row["count"] for row in rows)
    out = CommandOutput(json=json)
    if json:
        counted = "would_resume" if dry_run else "resumed"
        out.value({counted: total, "matches": rows, "failed": done.failed_count, "errors": done.failed})
        return 1 if done.failed_count else 0
    columns = {"trigger": "TRIGGER", "reason": "REASON", "count": "COUNT"}
    if rows:
        out.table(rows, columns, key="trigger", empty="")
    said = f"{count_of(total, 'match', 'matches')} {'would be resumed' if dry_run else 'resumed'}"
    out.styled((said, ""))
    for one in done.failed:
        out.styled((f"{one['trigger']}, event {one['event_id']}: {one['error']}", "red"))
    if done.failed_count:
        out.styled((f"{done.failed_count:,} could not be resumed; their matches stay suppressed", "red"))
    return 1 if done.failed_count else 0


def budget(
    root: Annotated[str, typer.Argument(help="Id of the root: an event or execution.", show_default=False)],
    maximum: Annotated[
        int,
        typer.Argument(
            help="Maximum number of executions in the causal tree of the root.", min=1, show_default=False
        ),
    ],
) -> None:
    """Change the budget of one root. Suppressed firings stay suppressed: see resume-suppressed."""
    with session.engine() as engine:
        root_id = engine.lineage.change_budget(ids.any_id(engine, root), maximum, author=engine.author)
        left = engine.resume_suppressed(root=root_id, reasons=["budget"], dry_run=True).counts.total()
    out = CommandOutput()
    out.styled((f"root {root_id} may cause {count_of(maximum, 'execution')}", ""))
    if left:
        out.styled(
            (
                f"{count_of(left, 'match', 'matches')} suppressed; to fire again: "
                f"functory trigger resume-suppressed --root {root_id}",
                "",
            )
        )


def halt(
    note: Annotated[str, typer.Option(help="Reason, shown by functory status.", show_default=False)] = "",
) -> None:
    """Kill switch: stop all triggers. Events stay pending; functions that are started by hand still run."""
    from functory.engine.firings.kill_switch import TRIGGERS

    with session.engine(create=True) as engine:
        engine.switches.throw(TRIGGERS, note=note, author=engine.author)
    CommandOutput().styled(
        ("all triggers are halted; events wait. To resume: functory trigger unhalt", "yellow")
    )


def unhalt() -> None:
    """Release the kill switch: pending events are routed now."""
    from functory.engine.firings.kill_switch import TRIGGERS

    with session.engine() as engine:
        waiting = engine.lineage.open_work()["pending events"]
        engine.switches.release(TRIGGERS, author=engine.author)
    CommandOutput().styled((f"triggers fire again; {count_of(waiting, 'event')} waited", ""))


def suppressed(
    events: Annotated[
        bool, typer.Option("--events", help="One line for each match that was not resumed, and not a count.")
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(help="With --events: of this trigger.", show_default=False)
    ] = None,
    reason: Annotated[
        list[str] | None,
        typer.Option(help="With --events: for this reason; may be repeated.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """List suppressed firings, newest first: one line per trigger, root and reason, with a count."""
    from functory.engine.errors import Invalid

    if events:
        _print_matches(trigger, reason or (), json)
        return
    if trigger or reason:
        raise Invalid(
            "--trigger and --reason need --events", "the list of counts has all of them", "--events"
        )
    from functory.rows.operations import Suppression

    with session.engine() as engine:
        rows = engine.suppressions.list()
    columns = {
        "last_at": "LAST",
        "trigger": "TRIGGER",
        "reason": "REASON",
        "count": "COUNT",
        "first_event_id": "FIRST EVENT",
    }
    CommandOutput(json=json).table(
        rows,
        columns,
        key="first_event_id",
        data=lambda: [Suppression.as_json(row) for row in rows],
        empty="nothing was suppressed",
    )


def _print_matches(trigger: str | None, reasons: Sequence[str], json: bool) -> None:
    names = ("time", "trigger", "reason", "event_id", "root_id", "detail")
    with session.engine() as engine:
        found = engine.inspections.suppressed_matches(trigger, reasons)
        rows = [{name: row[name] for name in names} for row in found]
    columns = {"time": "TIME", "trigger": "TRIGGER", "reason": "REASON", "event_id": "EVENT"}
    CommandOutput(json=json).table(rows, columns, key="event_id", empty="no suppressed match is left")


def graph(
    json: AsJson = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print Graphviz DOT.")] = False,
) -> None:
    """Show which trigger can start which, and every cycle with its path."""
    from functory.triggers.analysis.cycles import format_cycle

    with session.engine() as engine:
        found = engine.trigger_graph()
    rings = found.cycles()
    out = CommandOutput(json=json)
    if json:
        from functory.rows.triggers import TriggerGraph

        out.value(
            TriggerGraph.as_json(
                {
                    "triggers": [
                        {"name": name, "function": one.function} for name, one in found.triggers.items()
                    ],
                    "steps": [step.as_json() for steps in found.edges.values() for step in steps],
                    "cycles": [[step.as_json() for step in ring] for ring in rings],
                }
            )
        )
    elif dot:
        sys.stdout.write(_dot(found))
    else:
        _print_graph(out, found, {ring[0].trigger for ring in rings if len(ring) == 1})
        for ring in rings:
            out.styled(("cycle  ", "yellow"), (format_cycle(ring), ""))
        if not rings:
            out.styled(("no cycles", "green"))


def backtest(
    what: Annotated[
        str, typer.Argument(help="Name of a trigger, or a JSON file with a new trigger.", show_default=False)
    ],
    since: Annotated[str, typer.Option(help="Age of the oldest event: 90m, 12h, 30d.")] = "30d",
    json: AsJson = False,
) -> None:
    """Test a trigger on the stored events: what would it have done? Nothing is started."""
    from functory.engine.serialization import durations

    with session.engine() as engine:
        start = engine.now() - timedelta(seconds=durations.parse(since, "--since"))
        draft = values.read_json_object(f"@{what}", "the draft") if Path(what).is_file() else None
        name = str(draft.pop("name", Path(what).stem)) if draft is not None else what
        with progress(engine.events.count(start), "events") as tell:
            result = engine.backtest(name, draft, since=start, progress=tell)
    out = CommandOutput(json=json)
    if json:
        out.value({"trigger": name, **result.as_json()})
    else:
        _print_comparison(out, name, result.as_json())


def _print_comparison(out: CommandOutput, name: str, result: Mapping[str, Any]) -> None:
    out.record(
        {
            "trigger": name,
            "events": f"{result['events']:,} checked in {result['seconds']:.1f} s",
            "matched": f"{result['matched']:,}",
            "would fire": _count_firings(result),
            "would be suppressed": _counts(result["would_be_suppressed"]) or "none",
            "still waiting": f"{result['still_waiting']:,}" if result["still_waiting"] else None,
            "cannot know": _counts(result["cannot_know"]) or None,
            "examples": "\n".join(result["examples"][:5]) or None,
        }
    )
    if "stored" in result:
        difference = result["difference"]
        out.record(
            {
                "stored version": f"would fire {_count_firings(result['stored'], 'time')}",
                "difference": count_of(difference["events"], "event"),
                "only the draft": "\n".join(difference["only_draft"][:5]) or None,
                "only the stored one": "\n".join(difference["only_stored"][:5]) or None,
            }
        )
    out.styled(("what cannot be known", "bold"))
    for fact in result["unknown"]:
        number = "" if fact["events"] is None else f" ({count_of(fact['events'], 'event')})"
        out.styled((f"  {fact['what']}{number}: ", "yellow"), (fact["why"], ""))


def _count_firings(counts: Mapping[str, Any], unit: str = "") -> str:
    fires, events = counts["would_fire"], counts["events_fired"]
    said = count_of(fires, unit) if unit else f"{fires:,}"
    return said + (f" (for {count_of(events, 'event')})" if events != fires else "")


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(counted.items()))


def _print_graph(out: CommandOutput, found: Graph, looping: Collection[str]) -> None:
    """Print the edges. A trigger that starts itself is a cycle only when it is among the ``looping`` ones."""
    for name, steps in sorted(found.edges.items()):
        target = found.triggers[name].function
        out.styled((name, "bold"), (f" → {target}", ""))
        certain = [step for step in steps if step.emission.certain]
        for step in certain:
            about = f" ({step.emission.subject})" if step.emission.subject else ""
            stopped = step.target == name and name not in looping
            out.styled(
                (f"   {step.emission.type}{about} → ", "dim"),
                (step.target, ""),
                (" (itself: the guard own_event stops it)" if stopped else "", "dim"),
            )
        if len(certain) < len(steps):
            out.styled(("   it emits events of a computed type: they may start any trigger", "dim"))


def _dot(found: Graph) -> str:
    lines = ["digraph triggers {", "  rankdir=LR;"]
    for steps in found.edges.values():
        for step in steps:
            style = "" if step.emission.certain else ", style=dotted"
            lines.append(
                f"  {_quoted(step.trigger)} -> {_quoted(step.target)} [label={_quoted(step.emission.type)}{style}];"
            )
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return '"' + one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


VERBS = (
    (promote, "functory trigger promote reorder"),
    (replay, "functory trigger replay reorder 01998c5e-0000-7000-8000-000000000000"),
    (suppressed, "functory trigger suppressed"),
    (resume_suppressed, "functory trigger resume-suppressed --trigger reorder --dry-run"),
    (budget, "functory trigger budget 01998c5e-0000-7000-8000-000000000000 2000"),
    (halt, "functory trigger halt --note 'storm'"),
    (unhalt, "functory trigger unhalt"),
    (graph, "functory trigger graph"),
    (backtest, "functory trigger backtest reorder --since 30d"),
)

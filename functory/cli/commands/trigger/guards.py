"""What stops triggers and how to go on: shadow and promotion, replay, backtest, cycles, budget, the switch.

These are verbs of ``functory trigger``; ``functory.cli.commands.trigger.crud`` registers them.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.input import values
from functory.terminal.console import AsJson, CommandOutput

if TYPE_CHECKING:
    from functory.triggers.analysis.backtest import Comparison
    from functory.triggers.analysis.cycles import Graph

Name = Annotated[str, typer.Argument(help="The trigger's name.", show_default=False)]

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def promote(name: Name) -> None:
    """Let a trigger in shadow mode run what it has only recorded so far."""
    with session.engine() as engine:
        engine.triggers.promote(name, author=engine.author)
    CommandOutput().styled((f"trigger {name} is enabled; it fires from the next event on", ""))


def replay(
    name: Name,
    event: Annotated[str, typer.Argument(help="The event's id.", show_default=False)],
    json: AsJson = False,
) -> None:
    """Run once what was suppressed for one event, in its place of the lineage."""
    with session.engine() as engine:
        handle = engine.replay_suppressed(name, event)
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
            (f"execution {row['id']} {row['state']}; to read it: functory execution show {row['id']}", "")
        )


def budget(
    root: Annotated[str, typer.Argument(help="The root: an event's or execution's id.", show_default=False)],
    maximum: Annotated[
        int, typer.Argument(help="How many executions it may cause in all.", min=1, show_default=False)
    ],
) -> None:
    """Raise (or lower) the budget of one root. What was suppressed stays so: see replay."""
    from functory.engine.database import audit
    from functory.engine.executions import root_budget

    with session.engine() as engine:
        root_id = engine.lineage.tree(root).root_id
        with engine.database.write() as tx:
            root_budget.set_maximum(tx, root_id, maximum)
            audit.append(tx, engine.author, "budget.raise", root_id, {"maximum": maximum})
    CommandOutput().styled((f"root {root_id} may cause {maximum} executions", ""))


def halt(
    note: Annotated[str, typer.Option(help="Why; shown by functory status.", show_default=False)] = "",
) -> None:
    """The kill switch: no trigger fires. Events stay pending, functions started by hand still run."""
    from functory.engine.triggers.kill_switch import TRIGGERS

    with session.engine() as engine:
        engine.switches.throw(TRIGGERS, note=note, author=engine.author)
    CommandOutput().styled(
        ("all triggers are halted; events wait. To go on: functory trigger unhalt", "yellow")
    )


def unhalt() -> None:
    """Release the kill switch; the events that waited are routed now."""
    from functory.engine.triggers.kill_switch import TRIGGERS

    with session.engine() as engine:
        waiting = engine.lineage.open_work()["pending events"]
        engine.switches.release(TRIGGERS, author=engine.author)
    CommandOutput().styled((f"triggers fire again; {waiting} events were waiting", ""))


def suppressed(json: AsJson = False) -> None:
    """What was stopped, newest first: a line for each trigger, root and reason, with its count."""
    with session.engine() as engine:
        rows = engine.suppressions.list()
    columns = {
        "last_at": "LAST",
        "trigger": "TRIGGER",
        "reason": "REASON",
        "count": "COUNT",
        "first_event_id": "FIRST EVENT",
    }
    CommandOutput(json=json).table(rows, columns, key="first_event_id", empty="nothing was suppressed")


def graph(
    json: AsJson = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print Graphviz DOT.")] = False,
) -> None:
    """Which trigger may start which, and every cycle with its path."""
    from functory.triggers.analysis.cycles import format_cycle

    with session.engine() as engine:
        found = engine.trigger_graph()
    rings = found.cycles()
    out = CommandOutput(json=json)
    if json:
        out.value(
            {
                "edges": [
                    {
                        "trigger": s.trigger,
                        "function": s.function,
                        "event": s.emission.type,
                        "subject": s.emission.subject,
                        "target": s.target,
                        "certain": s.emission.certain,
                    }
                    for steps in found.edges.values()
                    for s in steps
                ],
                "cycles": [[step.trigger for step in ring] for ring in rings],
            }
        )
    elif dot:
        sys.stdout.write(_dot(found))
    else:
        _print_graph(out, found)
        for ring in rings:
            out.styled(("cycle  ", "yellow"), (format_cycle(ring), ""))
        if not rings:
            out.styled(("no cycles", "green"))


def backtest(
    what: Annotated[
        str, typer.Argument(help="A trigger's name, or a JSON file with a draft of one.", show_default=False)
    ],
    since: Annotated[str, typer.Option(help="How far back: 90m, 12h, 30d.")] = "30d",
    json: AsJson = False,
) -> None:
    """Run a trigger over the stored events without running anything: what would it have done?"""
    with session.engine() as engine:
        start = engine.database.clock.now() - timedelta(seconds=_parse_seconds(since))
        draft = values.read_json_object(f"@{what}", "the draft") if Path(what).is_file() else None
        name = str(draft.pop("name", Path(what).stem)) if draft is not None else what
        with _progress(engine.events.count(start), json) as tell:
            result = engine.backtest(name, draft, since=start, progress=tell)
    out = CommandOutput(json=json)
    if json:
        out.value({"trigger": name, **result.as_json()})
    else:
        _print_comparison(out, name, result)


def _print_comparison(out: CommandOutput, name: str, result: Comparison) -> None:
    tally = result.draft
    out.record(
        {
            "trigger": name,
            "events": f"{result.events:,} looked at in {result.seconds:.1f} s",
            "matched": f"{tally.matched:,}",
            "would fire": f"{tally.fired:,}",
            "would be suppressed": ", ".join(
                f"{count:,} {reason}" for reason, count in tally.suppressed.items()
            )
            or "none",
            "conditions that failed": tally.problems or None,
            "examples": "\n".join(tally.examples[:5]) or None,
        }
    )
    if result.stored is not None:
        out.record(
            {
                "stored version": f"would fire {result.stored.fired:,} times",
                "difference": f"{result.differing:,} events",
                "only the draft": "\n".join(result.only_draft[:5]) or None,
                "only the stored one": "\n".join(result.only_stored[:5]) or None,
            }
        )


def _progress(total: int, quiet: bool) -> Any:
    import contextlib

    @contextlib.contextmanager
    def nothing() -> Any:
        yield None

    if quiet or not sys.stderr.isatty() or total < 10_000:
        return nothing()
    from rich.console import Console
    from rich.progress import Progress

    @contextlib.contextmanager
    def bar() -> Any:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("events", total=total)
            yield lambda done: progress.update(task, completed=done)

    return bar()


def _parse_seconds(text: str) -> float:
    from functory.engine.errors import Invalid

    number, unit = text[:-1], text[-1:]
    if unit not in UNITS or not number.isdigit():
        raise Invalid(
            f"{text!r} is not a span of time", "it is a number and one of s, m, h, d, w", "--since 30d"
        )
    return int(number) * UNITS[unit]


def _print_graph(out: CommandOutput, found: Graph) -> None:
    for name, steps in sorted(found.edges.items()):
        target = found.triggers[name].function
        out.styled((name, "bold"), (f" → {target}", ""))
        certain = [step for step in steps if step.emission.certain]
        for step in certain:
            about = f" ({step.emission.subject})" if step.emission.subject else ""
            out.styled((f"   {step.emission.type}{about} → ", "dim"), (step.target, ""))
        if len(certain) < len(steps):
            out.styled(("   it emits a computed type: that may start anything", "dim"))


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
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


VERBS = (
    (promote, "functory trigger promote reorder"),
    (replay, "functory trigger replay reorder 01998c5e-0000-7000-8000-000000000000"),
    (suppressed, "functory trigger suppressed"),
    (budget, "functory trigger budget 01998c5e-0000-7000-8000-000000000000 2000"),
    (halt, "functory trigger halt --note 'storm'"),
    (unhalt, "functory trigger unhalt"),
    (graph, "functory trigger graph"),
    (backtest, "functory trigger backtest reorder --since 30d"),
)

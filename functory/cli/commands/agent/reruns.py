"""Verbs of ``functory agent runs`` that repeat runs: fork, replay, eval. :mod:`functory.cli.commands.agent.runs`
registers them.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Timeout, option
from functory.cli.input import values
from functory.cli.output import reruns as shown
from functory.engine.agents import run_comparison
from functory.engine.errors import Invalid, WaitTimeout
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory

Run = Annotated[str, typer.Argument(help="Id of the run, or @last.", show_default=False)]
Model = Annotated[str | None, option("Another model than that of the agent.")]
LiveTools = Annotated[
    bool,
    typer.Option("--live-tools", help="Use tools that act, too. Else their recorded results are taken."),
]


def fork(
    run: Run,
    step: Annotated[int, typer.Argument(min=1, help="Number of the step to begin with.", show_default=False)],
    model: Model = None,
    set_: Annotated[
        list[str] | None, option("Another value in the memo: name=value. Repeatable.", "--set")
    ] = None,
    live_tools: LiveTools = False,
    timeout: Timeout = None,
    json: AsJson = False,
) -> None:
    """Go another way from a step of an ended run: a new run, with the code of now. Nothing of the first one changes."""
    from functory.cli.commands.agent import runs

    with session.engine(start=True) as engine:
        made = engine.reruns.start(
            runs.run_id(engine, run),
            step=step,
            model=model,
            memo=values.parse_pairs(set_, "--set") if set_ else None,
            tools="live" if live_tools else "recorded",
            author=engine.author,
        )
        runs.follow(engine, made["id"], timeout=timeout, json=json)


def replay(run: Run, timeout: Timeout = None, json: AsJson = False) -> None:
    """Repeat an ended run with the code of now and the recorded answers, and show where it goes another way. No model
    is asked by a step, and no tool acts.
    """
    from functory.cli.commands.agent import runs

    with session.engine(start=True) as engine:
        before = engine.runs.get(runs.run_id(engine, run))
        now = _repeat(engine, [before["id"]], timeout, models="recorded")[0]
        recorded = _recorded_request(engine, now)
    verdict = run_comparison.verdict_of(before, now)
    if json:
        CommandOutput().value(shown.public_case(before, now, verdict))
    else:
        CommandOutput().styled((shown.replayed(now, verdict), ""))
        asked = (now["detail"] or {}).get("differs", {}).get("asked")
        if asked is not None:
            CommandOutput().lines(_diff(recorded, shown.request(asked)))
    if verdict != "same":
        raise typer.Exit(1)


def eval_(
    run: Annotated[
        list[str] | None, typer.Argument(help="Ids of ended runs, or none with --agent.", show_default=False)
    ] = None,
    agent: Annotated[str | None, option("The newest ended runs of this agent.")] = None,
    last: Annotated[int, typer.Option(min=1, max=200, help="With --agent: how many.")] = 10,
    model: Model = None,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Ask no model: take the recorded answers, as replay does.")
    ] = False,
    timeout: Timeout = None,
    json: AsJson = False,
) -> None:
    """Repeat ended runs as cases: how many pass with the code, the prompts and the model of now, and at what cost. No
    tool acts, and no person is asked.
    """
    from functory.cli.commands.agent import runs

    with session.engine(start=True) as engine:
        cases = [runs.run_id(engine, one) for one in run or ()]
        if agent is not None:
            found = [one for one in engine.runs.list(agent=agent, limit=1000) if one["ended_at"] is not None]
            cases += [one["id"] for one in found if one["author"] != shown.AUTHOR][:last]
        if not cases:
            raise Invalid(
                "there are no cases", "an ended run is one", "functory agent runs eval --agent NAME"
            )
        before = [engine.runs.get(one) for one in cases]
        now = _repeat(engine, cases, timeout, models="recorded" if recorded else "live", model=model)
    verdicts = [run_comparison.verdict_of(*pair) for pair in zip(before, now, strict=True)]
    summary = run_comparison.summary(now)
    if json:
        rows = [shown.public_case(*one) for one in zip(before, now, verdicts, strict=True)]
        CommandOutput().value({"cases": rows, "summary": shown.public_summary(summary)})
    else:
        CommandOutput().table(
            [shown.case(*one) for one in zip(before, now, verdicts, strict=True)],
            {
                "run": "RUN",
                "goal": "GOAL",
                "verdict": "VERDICT",
                "before": "BEFORE",
                "now": "NOW",
                "calls": "CALLS",
                "cost": "COST",
            },
            key="run",
            ids=("run",),
        )
        CommandOutput().styled((shown.summed(summary), ""))
    if summary["passed"] < summary["runs"]:
        raise typer.Exit(1)


VERBS = (
    ("fork", fork, "functory agent runs fork @last 3 --model large --set tone=friendly"),
    ("replay", replay, "functory agent runs replay @last"),
    ("eval", eval_, "functory agent runs eval --agent clerk --last 20 --model small"),
)


def _repeat(
    engine: Functory, cases: Sequence[str], timeout: float | None, **options: Any
) -> list[dict[str, Any]]:
    """Repeat runs at the same time. Returns them when they have ended, or after ``timeout`` seconds."""
    made = [
        engine.reruns.start(one, author=shown.AUTHOR, people="recorded", **options)["id"] for one in cases
    ]
    began = time.monotonic()
    for id_ in made:
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
        try:
            engine.runs.wait(id_, left)
        except WaitTimeout:
            console.note(f"run {id_} has not ended: functory agent runs show {id_}")
    return [engine.runs.get(id_) for id_ in made]


def _recorded_request(engine: Functory, now: Mapping[str, Any]) -> list[str]:
    """Return the recorded request that a replay does not repeat."""
    call = (now["detail"] or {}).get("differs", {}).get("call")
    if call is None:
        return []
    request = engine.calls.get(call)["request"]
    return [] if request is None else shown.lines_of(request)


def _diff(before: Sequence[str], now: Sequence[str]) -> list[str]:
    return list(difflib.unified_diff(before, now, "recorded request", "request of now", lineterm=""))

"""``functory top``: what runs now, and which functions are busy."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.terminal.console import AsJson, CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory


def top(
    minutes: Annotated[int, typer.Option(min=1, max=60, help="Minutes of executions that have ended.")] = 5,
    number: Annotated[
        int, typer.Option("-n", "--number", min=1, max=100, help="Number of functions, and of executions.")
    ] = 20,
    interval: Annotated[float, typer.Option(min=0.5, max=3600, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once. A pipe and --json do, too.")] = False,
    json: AsJson = False,
) -> None:
    """Show what runs now, the longest first, and the busiest functions, until q or Ctrl-C."""
    from functory.cli.output import activity as output
    from functory.rows.activity import Activity

    out = CommandOutput(json=json)
    with session.engine() as engine:
        if json:
            out.value(Activity.as_json(_look(engine, minutes, number)))
        elif once or not out.is_terminal:
            output.draw(out, _look(engine, minutes, number))
        else:
            _follow(engine, out, minutes, number, interval)


def _look(engine: Functory, minutes: int, number: int) -> dict[str, Any]:
    return engine.inspections.activity(minutes=minutes, count=number)


def _follow(engine: Functory, out: CommandOutput, minutes: int, number: int, interval: float) -> None:
    from functory.cli.output import activity as output
    from functory.engine.errors import Unavailable
    from functory.terminal.screen import Screen

    shown: dict[str, Any] | None = None
    with contextlib.suppress(KeyboardInterrupt), Screen() as screen:
        while True:
            problem = ""
            try:
                shown = _look(engine, minutes, number)
            except Unavailable as error:
                if shown is None:
                    raise
                # What was seen last stays, with its time.
                problem = error.what
            draw = functools.partial(output.draw, out, shown, height=screen.height, problem=problem)
            screen.draw(draw)
            if not screen.wait(interval):
                return

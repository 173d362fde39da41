"""Prints where the time of an event went (``functory event why --times``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functory.terminal.console import CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory
    from functory.engine.executions.event_timeline import ExecutionSteps, Step

_COLUMNS = {
    "step": "STEP",
    "since": "MS SINCE EVENT",
    "difference": "MS SINCE STEP BEFORE",
    "waited_for": "WAITED FOR",
}


def draw(engine: Functory, id_: str, out: CommandOutput) -> None:
    """Print a table of the event and one of each execution. In a pipe: lines, each with the id that it is about."""
    found = engine.inspections.event_times(id_)
    if out.json:
        from functory.rows.executions import Times

        out.value(Times.as_json(found.fields()))
        return
    if not out.is_terminal:
        rows = [{"of": found.event_id} | row for row in _rows(found.steps, 0)]
        for one in found.executions:
            rows += [{"of": one.id} | row for row in _rows(one.steps, 0)]
        out.table(rows, {"of": "ID"} | _COLUMNS, key="of")
        return
    out.styled((f"event {found.type}  ", "bold"), (found.event_id or "", "dim"))
    out.table(_rows(found.steps, 9), _COLUMNS, key="step")
    for one in found.executions:
        out.title(_heading(one))
        out.table(_rows(one.steps, 9), _COLUMNS, key="step")


def _heading(one: ExecutionSteps) -> str:
    by = f" by {one.trigger}" if one.trigger else ""
    return f"{one.function} v{one.version}{by}: execution {one.id}, {one.state}"


def _rows(steps: Sequence[Step], width: int) -> list[dict[str, Any]]:
    return [
        {
            "step": step.name,
            "since": _shown(step.since_event, width),
            "difference": _shown(step.difference, width),
            "waited_for": _words(step),
        }
        for step in steps
    ]


def _words(step: Step) -> str:
    if not step.clock_difference:
        return step.waited_for
    apart = f"(the clocks of two processes differ by {step.clock_difference * 1000:.1f} ms)"
    return f"{step.waited_for} {apart}".strip()


def _shown(seconds: float | None, width: int) -> str:
    return "" if seconds is None else f"{seconds * 1000:{width}.1f}"

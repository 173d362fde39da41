"""Compensation of a failed execution on the terminal: its steps and an operator's decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from functory.cli.output import execution_result
from functory.terminal import console
from functory.terminal.console import CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory

_FIELDS = (
    "saga_id",
    "position",
    "step_id",
    "step_fence",
    "step_seq",
    "function",
    "compensate",
    "state",
    "execution_id",
    "problem",
    "created_at",
    "updated_at",
)


def as_json(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step as --json shows it."""
    return {name: step[name] for name in _FIELDS}


def draw(out: CommandOutput, id_: str, plan: Sequence[Mapping[str, Any]]) -> None:
    """The steps of a failed execution with their states."""
    out.title("compensated steps, the newest first")
    for step in plan:
        by = f" by {step['compensate']}" if step["compensate"] else ""
        out.styled(
            (f"{step['position']:>3}  ", "dim"),
            (f"{step['state']:<8} ", console.STYLES.get(step["state"], "")),
            (f"{step['function']}{by}", ""),
            (f"  {step['execution_id'] or ''}", "dim"),
            (f"  {step['problem']}" if step["problem"] else "", "yellow"),
        )
    if any(step["state"] == "failed" for step in plan):
        console.note(
            f"to try the failed step again: functory execution compensate {id_}; to skip it: add --skip"
        )


def retry_or_skip(engine: Functory, id_: str, skip: bool, reason: str, out: CommandOutput) -> None:
    """Try the step again at which a saga has stopped, or skip it. Raises :class:`Conflict` when none has."""
    operator = engine.compensations
    if skip:
        row = operator.skip(id_, author=engine.author, reason=reason)
    else:
        row = operator.retry(id_, author=engine.author)
    if out.json:
        out.value(as_json(row))
    elif row["state"] == "failed":
        console.warn(f"{row['function']} still cannot be undone: {row['problem']}")
    elif skip:
        out.styled((f"{row['function']} stays as it is", ""))
    else:
        out.styled((f"{row['compensate']} undoes {row['function']}: execution {row['execution_id']}", ""))
    if any(step["state"] in ("pending", "running") for step in operator.plan(id_)):
        execution_result.warn_without_workers(engine, "nothing more is undone")

"""What happens now, as ``functory top`` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.terminal.console import CommandOutput, count_of, format_duration, format_time

_FUNCTIONS = {
    "name": "FUNCTION",
    "running": "RUNNING",
    "runs": "RUNS",
    "failures": "FAILED",
    "run_p95": "P95",
    "queued_p95": "QUEUED P95",
}
_EXECUTIONS = {
    "id": "EXECUTION",
    "function": "FUNCTION",
    "running": "RUNS FOR",
    "attempt": "ATTEMPT",
    "cause": "CAUSE",
    "worker": "WORKER",
}
# Lines that are no rows: the head has two, a table has four with an empty line, its title and two lines of headings;
# then how many more run, and the line of the cursor.
_OTHER_LINES = 12


def draw(
    out: CommandOutput, found: Mapping[str, Any], *, height: int | None = None, problem: str = ""
) -> None:
    """Print what happens now. ``height`` is how many lines there are: rows beyond are left out, and counted.
    ``problem`` says why this is not newer.
    """
    functions, executions = found["functions"], found["executions"]
    if height is not None:
        functions, executions = _fitting(functions, executions, max(2, height - _OTHER_LINES))
    _draw_head(out, found, problem, "" if height is None else "   q ends")
    out.title(f"functions, {count_of(found['minutes'], 'minute')}")
    if functions:
        out.table([_function(row) for row in functions], _FUNCTIONS, key="name")
    else:
        out.styled(("no function ran", "dim"))
    out.title("running now")
    if executions:
        out.table([_execution(row, found) for row in executions], _EXECUTIONS)
    else:
        out.styled(("nothing runs", "dim"))
    hidden = found["running"] - len(executions)
    if executions and hidden > 0:
        out.styled((f"and {hidden:,} more", "dim"))


def _draw_head(out: CommandOutput, found: Mapping[str, Any], problem: str, keys: str) -> None:
    rate = found["runs"] / (60 * (found["minutes"] - 1) + found["at"].second + 1)
    out.styled(
        (format_time(found["at"]), "bold"),
        (f"   {found['running']:,} running, {found['queued']:,} queued", ""),
        (f"   {f'{rate:,.0f}' if rate >= 10 else f'{rate:.2g}'} a second", ""),
        (f", {found['failures']:,} failed", "red" if found["failures"] else ""),
    )
    if problem:
        out.styled((f"not newer: {problem}", "red"))
    elif not found["workers"]:
        out.styled(("no worker is alive", "red"))
    else:
        workers, slots = count_of(found["workers"], "worker"), count_of(found["slots"], "slot")
        out.styled((f"{workers}, {found['running']:,} of {slots} busy{keys}", "dim"))


def _fitting(functions: Sequence[Any], executions: Sequence[Any], lines: int) -> tuple[Any, Any]:
    """The rows that fit into ``lines``: half of them each, and what the one does not need for the other."""
    first = min(len(functions), max(lines // 2, lines - len(executions)))
    return functions[:first], executions[: max(1, lines - first)]


def _function(row: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: row[f"{name}_seconds"] for name in ("run_p95", "queued_p95")}
    return {**row, **{name: "" if took is None else format_duration(took) for name, took in times.items()}}


def _execution(row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "function": f"{row['function']}@{row['version']}",
        "running": format_duration(max(0.0, (found["at"] - row["started_at"]).total_seconds())),
        "worker": row["worker_id"],
    }

"""One execution on the terminal, as ``functory execution show`` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.cli.output import compensation, hints
from functory.engine import names
from functory.terminal import console, json_fields
from functory.terminal.console import CommandOutput


def draw(
    out: CommandOutput,
    found: Mapping[str, Any],
    *,
    places: Sequence[Mapping[str, Any]],
    attempts: Sequence[Mapping[str, Any]],
    calls: int,
    log_lines: int,
) -> None:
    """Print an execution with its cause, attempts, error and compensations.

    ``found`` is what :meth:`Lineage.cause` returns; ``places`` are the slots that it has or waits for; ``calls`` and
    ``log_lines`` are counts.
    """
    row, firing = found["execution"], found["firing"]
    out.styled(
        (f"{row['function']} v{row['version']}", "bold"),
        (f"   {row['state']}", console.STYLES.get(row["state"], "")),
    )
    open_ = row["state"] in ("queued", "running")
    out.record(
        {
            "id": row["id"],
            "created": row["created_at"],
            "started": row["started_at"],
            "finished": row["finished_at"],
            "took": console.format_duration(json_fields.duration(row)) or None,
            "due": row["run_at"] if row["state"] == "queued" else None,
            "waits for": "; ".join(_slot_request_text(place) for place in places if place["taken_at"] is None)
            or None,
            "cause": row["cause"],
            "trigger": f"{firing['trigger'] or row['trigger_id']} v{firing['trigger_version']}"
            if firing
            else None,
            "event": f"{found['event']['type']} {row['event_id']}" if found["event"] else row["event_id"],
            "events": console.hint(f"{len(found['events'])}: functory execution why {row['id']}")
            if found["events"]
            else None,
            "parent": f"{found['parent']['function']} {row['parent_id']}" if found["parent"] else None,
            "undoes": f"{found['undoes']['function']} {found['undoes']['step_id']}"
            if found["undoes"]
            else None,
            "replay of": row["replay_of"],
            "resolved by": row["resolved_by"],
            "root": row["root_id"] if row["root_id"] != row["id"] else None,
            "depth": row["depth"],
            "chain": " → ".join(link["name"] for link in row["chain"]) or None,
            "versions": ", ".join(row["versions"] or ()) or None,
            "input": console.short_json(row["input"], 10_000),
            "result": console.short_json(row["result"], 10_000) if row["state"] == "succeeded" else None,
            "result is": "a text (repr), because the value is not JSON"
            if row["result_kind"] == "repr"
            else None,
            "attempts": _attempts_text(row),
            "cancelled by": names.author_in_words(row["cancelled_by"]) if row.get("cancelled_by") else None,
            "no retry": (row["error"] or {}).get("final") or None,
            "worker": row["worker_id"] if open_ else None,
            "log": console.hint(f"{console.count_of(log_lines, 'line')}: functory execution logs {row['id']}")
            if log_lines
            else None,
            "calls": console.hint(f"{calls}: functory execution spans {row['id']}") if calls else None,
        }
    )
    for warning in row["warnings"] or ():
        out.styled(("warning: ", "yellow"), (warning, ""))
    if len(attempts) > 1 or any(a["outcome"] not in (None, "succeeded", row["state"]) for a in attempts):
        out.title("attempts")
        for attempt in attempts:
            _print_attempt(out, attempt)
    if row["error"]:
        _print_error(out, row["error"])
    if found["plan"]:
        compensation.draw(out, row["id"], found["plan"])


def _attempts_text(row: Mapping[str, Any]) -> str:
    """The attempts of an execution, and how many there may be: after an error fewer than after a lost worker."""
    attempt, most = row["attempt"], row["max_attempts"]
    after_error = min(row["retries"] + 1, most)
    if after_error == most:
        return f"{attempt} of at most {most}"
    return f"{attempt} (at most {after_error} when it fails, {most} when its workers are lost)"


def _slot_request_text(request: Mapping[str, Any]) -> str:
    """The slot that an execution waits for."""
    from functory.engine.flow_control.concurrency import UNLIMITED

    room = (
        f"{request['running']} of {request['capacity']} in use"
        if request["capacity"] < UNLIMITED
        else "no longer limited"
    )
    return f"a slot of {request['group']} ({room}, {request['ahead']} ahead of it)"


def _print_attempt(out: CommandOutput, attempt: Mapping[str, Any]) -> None:
    from functory.explanations.executions import error_summary

    ended = attempt["outcome"] or "running"
    took = console.format_duration(attempt["duration_seconds"])
    out.styled(
        (f"{attempt['number']:>3}  ", "dim"),
        (f"{console.format_time(attempt['started_at'])}  ", "dim"),
        (f"{ended:<10}", console.STYLES.get(ended, "")),
        (f" {took:<9}", ""),
        (f" on {attempt['worker_id']}", "dim"),
        (f"  {error_summary(attempt['error'])}" if attempt["error"] else "", "red"),
    )


def _print_error(out: CommandOutput, error: Mapping[str, Any]) -> None:
    from functory.explanations.executions import error_summary

    out.title("error")
    trace = error.get("traceback")
    if trace:
        for line in hints.in_message(str(trace)).rstrip("\n").split("\n"):
            # Indented, so that no line of a message looks like one of ours.
            out.styled((f"  {line}", ""))
    else:
        out.styled((error_summary(error), "red"))

"""What holds a trigger up, and what to do. Pure: the rows of an inspection in, one sentence out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from functory.engine.firings.inspection import TriggerInspection
from functory.explanations.quantities import count_of, format_duration

# A router releases a buffer within a second of its time. A buffer that is later than this has no router (seconds).
OVERDUE_SECONDS = 10.0

Row = Mapping[str, Any]


def advice(found: TriggerInspection, *, workers: int, embedded: bool) -> str:
    """Return one sentence about the first obstacle: what it is and what to do."""
    name, state, now = found.trigger["name"], found.trigger["state"], found.now
    if found.halted:
        return "all triggers are halted: functory trigger unhalt"
    if state == "paused":
        held = f", with {count_of(found.matches, 'match', 'matches')} waiting" if found.matches else ""
        return f"it is paused{held}: functory trigger resume {name}"
    if state == "shadow":
        return f"it only records what it would do: functory trigger promote {name}"
    until = found.breaker["open_until"] if found.breaker else None
    if until is not None and until > now:
        return f"its circuit breaker is open, it closes {format_until(until, now)}: functory trigger resume {name}"
    for row in found.buffers.rows:
        if row["due_at"] is not None and (now - row["due_at"]).total_seconds() > OVERDUE_SECONDS:
            start = "functory dev" if embedded else "functory router"
            return f"key {key_of(row)} was due {format_ago(row['due_at'], now)}: is a router running? {start}"
    full = next(
        (row for row in found.concurrency_groups.rows if row["waiting"] and row["taken"] >= row["capacity"]),
        None,
    )
    if full is not None and full["holders"] and (workers or full["holders"][0]["state"] == "running"):
        id_ = full["holders"][0]["id"]
        return f"key {key_of(full)} has no free slot; {id_} holds one longest: functory execution show {id_}"
    if not workers and (found.states.get("ready") or full is not None):
        return f"executions are ready and no worker is alive: {'functory dev' if embedded else 'functory worker'}"
    if found.states.get("delayed"):
        starts = [row["run_at"] for row in found.executions.rows if row["run_at"] > now]
        soonest = (
            f"the next start is {format_until(min(starts), now)}" if starts else "executions are delayed"
        )
        return f"nothing is stuck; {soonest}"
    due = [row["due_at"] for row in found.buffers.rows if row["due_at"] is not None]
    if due:
        return f"nothing is stuck; the next decision is {format_until(min(due), now)}"
    if found.buffers.count:
        return "nothing is stuck; it waits for further events"
    if found.states:
        return (
            f"nothing is stuck: functory execution list --function {found.trigger['definition']['function']}"
        )
    if found.pending:
        return f"nothing of it waits; {count_of(found.pending, 'event is', 'events are')} not routed yet"
    return f"nothing waits; to see why an event did not start it: functory trigger test {name} --event ID"


def format_until(time: datetime, now: datetime) -> str:
    """Format a time from now on, relative to now."""
    ahead = (time - now).total_seconds()
    return f"in {format_duration(ahead)}" if ahead > 0.001 else "now"


def format_ago(time: datetime, now: datetime) -> str:
    """Format a time in the past, relative to now."""
    return f"{format_duration(max(0.0, (now - time).total_seconds()))} ago"


def key_of(row: Row) -> str:
    """Return the key of a buffer, a group or a limit, as texts show it."""
    key = row["key"] or "(no key)"
    # A server hides the keys of those who may not read payloads.
    return key if isinstance(key, str) else "(hidden)"

"""What a trigger has waiting, in words: pure, rows in and lines out (``engine.triggers.inspection`` reads the rows)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functory.cli.output import trigger_definition
from functory.engine.flow_control.concurrency import UNLIMITED
from functory.engine.serialization import durations
from functory.engine.triggers.inspection import Page, TriggerInspection
from functory.terminal import console

# A bucket is decided about within a moment of its time, so one that is this late has nobody to do it (seconds).
OVERDUE_SECONDS = 10.0


@dataclass(frozen=True)
class Section:
    """One control: its name, what waits in it as a whole, and a line for each key or execution."""

    title: str
    summary: str
    lines: Sequence[str] = ()


def sections(inspection: TriggerInspection) -> list[Section]:
    """Every control of the trigger in the order in which a match passes them, and its open executions."""
    definition = inspection.trigger["definition"]
    controls = definition.get("flow") or {}
    found = [
        *_idempotency(inspection, controls),
        *_rate_limit(inspection, controls),
        *_buffers(inspection, definition, controls),
        *_throttle(inspection, controls),
        *_concurrency_groups(inspection),
        *_cancellations(inspection, controls),
        *_executions(inspection),
    ]
    if inspection.suppressed:
        told = ", ".join(f"{count:,} {reason}" for reason, count in inspection.suppressed.items())
        found.append(
            Section("suppressed so far" if inspection.key is None else "suppressed so far, of all keys", told)
        )
    return found


def advice(inspection: TriggerInspection, *, workers: int, embedded: bool) -> str:
    """What keeps it, and what to do about it: one sentence, about the first thing in the way."""
    name = inspection.trigger["name"]
    state = inspection.trigger["state"]
    if inspection.halted:
        return "all triggers are halted: functory trigger unhalt"
    if state == "paused":
        held = (
            f", with {_pluralize(inspection.matches, 'match', 'matches')} waiting"
            if inspection.matches
            else ""
        )
        return f"it is paused{held}: functory trigger resume {name}"
    if state == "shadow":
        return f"it only records what it would do: functory trigger promote {name}"
    until = inspection.breaker["open_until"] if inspection.breaker else None
    if until is not None and until > inspection.now:
        return f"its breaker is open, {format_until(until, inspection.now)} it closes: functory trigger resume {name}"
    late = next((row for row in inspection.buckets.rows if _overdue(row["due_at"], inspection.now)), None)
    if late is not None:
        start = "functory dev" if embedded else "functory router"
        since = format_ago(late["due_at"], inspection.now)
        return f"{_key(late)} should have been decided {since}: is a router running? {start}"
    full = next(
        (row for row in inspection.lanes.rows if row["waiting"] and row["taken"] >= row["capacity"]), None
    )
    if full is not None and full["holders"]:
        holder = full["holders"][0]
        if holder["state"] == "running" or workers:
            return (
                f"{_key(full)} is full; {holder['id']} has been in it longest: "
                f"functory execution show {holder['id']}"
            )
    if not workers and (inspection.states.get("ready") or (full is not None)):
        start = "functory dev" if embedded else "functory worker"
        return f"executions are ready and no worker is alive: {start}"
    if inspection.states.get("delayed"):
        starts = [row["run_at"] for row in inspection.executions.rows if row["run_at"] > inspection.now]
        soonest = (
            f"the next start is {format_until(min(starts), inspection.now)}"
            if starts
            else "others wait for their time"
        )
        return f"nothing is stuck; {soonest}"
    due = [row["due_at"] for row in inspection.buckets.rows if row["due_at"] is not None]
    if due:
        return f"nothing is stuck; the next decision is {format_until(min(due), inspection.now)}"
    if inspection.buckets.count:
        return "nothing is stuck; it waits for further events"
    if inspection.states:
        return f"nothing is stuck: functory execution list --function {inspection.trigger['definition']['function']}"
    if inspection.pending:
        return f"nothing of it waits; {inspection.pending:,} events are not routed yet"
    return f"nothing waits; why an event did not start it: functory trigger test {name} --event ID"


def format_until(time: datetime, now: datetime) -> str:
    """A moment from now on as people read it."""
    ahead = (time - now).total_seconds()
    return f"in {console.format_duration(ahead)}" if ahead > 0.001 else "now"


def format_ago(time: datetime, now: datetime) -> str:
    """A moment that has passed as people read it."""
    return f"{console.format_duration(max(0.0, (now - time).total_seconds()))} ago"


def next_allowed_at(stored: datetime, settings: Mapping[str, Any]) -> datetime:
    """When GCRA lets the next one through, by its moment (``functory.engine.flow_control.controls.Pace``)."""
    step = durations.parse(settings["period"], "period") / settings["limit"]
    return stored - timedelta(seconds=step * (settings.get("burst", 1) - 1))


def _idempotency(inspection: TriggerInspection, controls: Mapping[str, Any]) -> Iterator[Section]:
    part = inspection.once
    if "idempotency" in controls or part.count:
        lines = [
            f"{_key(row)}  ran for event {row['event_id']}, free {format_until(row['expires_at'], inspection.now)}"
            for row in part.rows
        ]
        yield Section(
            "idempotency",
            f"{_pluralize(part.count, 'key')} remembered, the newest first",
            _with_remainder(lines, part),
        )


def _rate_limit(inspection: TriggerInspection, controls: Mapping[str, Any]) -> Iterator[Section]:
    part, settings = inspection.rate_limit, controls.get("rate_limit")
    if settings is None and not part.count:
        return
    lines = []
    for row in part.rows:
        free = next_allowed_at(row["next_at"], settings) if settings else row["next_at"]
        lines.append(f"{_key(row)}  {row['dropped']:,} dropped, free {format_until(free, inspection.now)}")
    yield Section("rate limit", f"{inspection.dropped:,} dropped lately", _with_remainder(lines, part))


def _buffers(
    inspection: TriggerInspection, definition: Mapping[str, Any], controls: Mapping[str, Any]
) -> Iterator[Section]:
    part = inspection.buckets
    composite = definition.get("composite")
    title = "debounce" if "debounce" in controls else "batch" if "batch" in controls else "matches that wait"
    if composite is not None:
        title = f"composite {trigger_definition.composite_kind(composite)}"
    elif title == "matches that wait" and not part.count:
        return
    summary = (
        f"{_pluralize(inspection.matches, 'match', 'matches')} waiting, for {_pluralize(part.count, 'key')}"
    )
    now = inspection.now
    lines: list[str] = []
    for row in part.rows:
        if composite is not None:
            lines += _composite(row, composite, now)
        elif "debounce" in controls:
            lines.append(_debounce(row, controls["debounce"], now))
        elif "batch" in controls:
            lines.append(_batch(row, controls["batch"], now))
        else:
            lines.append(f"{_key(row)}  {_matches(row)}, due {_due(row, now)}")
    yield Section(title, summary, _with_remainder(lines, part))


def _debounce(row: Mapping[str, Any], settings: Mapping[str, Any], now: datetime) -> str:
    timeout = settings.get("timeout")
    most = row["opened_at"] + timedelta(seconds=durations.parse(timeout, "timeout")) if timeout else None
    why = (
        f"the most that is waited, {timeout}"
        if most is not None and row["due_at"] is not None and row["due_at"] >= most
        else f"unless another event comes (quiet for {settings['period']})"
    )
    return f"{_key(row)}  {_matches(row)} since {console.format_time(row['opened_at'])}, due {_due(row, now)}: {why}"


def _batch(row: Mapping[str, Any], settings: Mapping[str, Any], now: datetime) -> str:
    size = settings.get("max_size", 100)
    most = settings.get("max_bytes")
    bytes_ = f", {row['bytes']:,} bytes" + (f" of {most:,}" if most is not None else "")
    return (
        f"{_key(row)}  {row['matches']:,} of {size:,} events{bytes_}, due {_due(row, now)} or when it is full"
    )


def _composite(row: Mapping[str, Any], composite: Mapping[str, Any], now: datetime) -> Iterator[str]:
    named = trigger_definition.composite_parts(composite)
    there = {int(number): count for number, count in row["parts"].items()}
    due = "when a further event comes" if row["due_at"] is None else f"at the latest {_due(row, now)}"
    first = f", the first of {console.format_time(row['first_time'])}" if row["first_time"] else ""
    yield f"{_key(row)}  {_matches(row)}{first}; decided {due}"
    if trigger_definition.composite_kind(composite) == "absence":
        yield from _absence(row, composite["absence"])
        return
    if trigger_definition.composite_kind(composite) == "threshold":
        yield f"    {row['matches']:,} of {composite['threshold']['count']}"
        return
    for number, (name, _) in enumerate(named):
        count = there.get(number, 0)
        yield f"    {'✓' if count else '·'} {name}" + (f"  {count:,}" if count else "  missing")


def _absence(row: Mapping[str, Any], absence: Mapping[str, Any]) -> Iterator[str]:
    if absence.get("after") is not None:
        yield f"    · {_pluralize(row['matches'], 'event')} not answered yet"
        return
    memory = row["memory"] or {}
    last = f"the last event is {memory['id']}" if memory.get("id") else "nothing has come since it was saved"
    yield f"    · {last}" + (", and its silence is told" if row["due_at"] is None else "")


def _throttle(inspection: TriggerInspection, controls: Mapping[str, Any]) -> Iterator[Section]:
    part, settings = inspection.throttle, controls.get("throttle")
    if settings is None and not part.count:
        return
    lines = []
    for row in part.rows:
        free = next_allowed_at(row["next_at"], settings) if settings else row["next_at"]
        lines.append(f"{_key(row)}  one more starts {format_until(free, inspection.now)} at the soonest")
    delayed = inspection.states.get("delayed", 0)
    yield Section(
        "throttle", f"{_pluralize(delayed, 'execution')} wait for their time", _with_remainder(lines, part)
    )


def _concurrency_groups(inspection: TriggerInspection) -> Iterator[Section]:
    now = inspection.now
    for row in inspection.lanes.rows:
        lines = []
        for one in row["holders"]:
            on = f" on {one['worker']}" if one["state"] == "running" and one["worker"] else ""
            lines.append(
                f"holds  {one['id']}  {_owner_prefix(one, inspection)}{one['state']}{on}, since {_held_since(one, now)}"
            )
        lines += _remainder_line(row["taken"] - len(row["holders"]), "hold a slot")
        for place, one in enumerate(row["line"], 1):
            later = f", not before {format_until(one['run_at'], now)}" if one["run_at"] > now else ""
            lines.append(
                f"{place:>3}.   {one['id']}  {_owner_prefix(one, inspection)}"
                f"came {format_ago(one['queue_at'], now)}{later}"
            )
        lines += _remainder_line(row["waiting"] - len(row["line"]), "wait in this line")
        yield Section(
            f"lane {_key(row)}", f"{row['taken']} of {_capacity(row)} taken, {row['waiting']} waiting", lines
        )
    yield from (
        [Section("lanes", f"and {inspection.lanes.remaining:,} more")] if inspection.lanes.remaining else []
    )


def _cancellations(inspection: TriggerInspection, controls: Mapping[str, Any]) -> Iterator[Section]:
    part = inspection.cancellations
    if "cancel_on" in controls or part.count:
        lines = [
            f"event {row['event_id']}  {row['type']} {row['subject'] or ''}  rule {row['rule'] + 1}, "
            f"waits until every event before it is routed"
            for row in part.rows
        ]
        yield Section(
            "cancel on",
            f"{_pluralize(part.count, 'cancellation')} not carried out yet",
            _with_remainder(lines, part),
        )


def _executions(inspection: TriggerInspection) -> Iterator[Section]:
    part, now = inspection.executions, inspection.now
    title = "executions" if inspection.key is None else "executions, of all keys"
    if not part.count:
        yield Section(title, "none is open")
        return
    words = {
        "running": "running",
        "ready": "ready",
        "waiting_for_slot": "waiting for a slot",
        "delayed": "waiting for their time",
    }
    summary = ", ".join(
        f"{inspection.states[name]:,} {word}" for name, word in words.items() if name in inspection.states
    )
    lines = []
    for row in part.rows:
        if row["state"] == "running":
            asked = ", asked to end" if row["cancel_requested_at"] else ""
            said = f"runs since {console.format_time(row['started_at'])} on {row['worker']}{asked}"
        elif row["run_at"] > now:
            said = f"starts {format_until(row['run_at'], now)} at the soonest"
        else:
            said = "waits for a slot" if row["waiting_for_slot"] else "is ready for a worker"
        if row["expires_at"] is not None and row["state"] == "queued":
            said += f", expires {format_until(row['expires_at'], now)}"
        lines.append(f"{row['id']}  {said}")
    yield Section(title, summary, _with_remainder(lines, part))


def _capacity(row: Mapping[str, Any]) -> str:
    return "any number" if row["capacity"] >= UNLIMITED else f"{row['capacity']:,}"


def _owner_prefix(one: Mapping[str, Any], inspection: TriggerInspection) -> str:
    """The trigger of an execution in a shared lane, when it is another one."""
    other = one["trigger"] or one["function"]
    return "" if other == inspection.trigger["name"] else f"{other}, "


def _held_since(one: Mapping[str, Any], now: datetime) -> str:
    return f"{console.format_time(one['taken_at'])} ({format_ago(one['taken_at'], now)})"


def _key(row: Mapping[str, Any]) -> str:
    return row["key"] or "(no key)"


def _matches(row: Mapping[str, Any]) -> str:
    return _pluralize(row["matches"], "match", "matches")


def _due(row: Mapping[str, Any], now: datetime) -> str:
    if row["due_at"] is None:
        return "never by itself"
    return format_until(row["due_at"], now)


def _overdue(due: datetime | None, now: datetime) -> bool:
    return due is not None and (now - due).total_seconds() > OVERDUE_SECONDS


def _with_remainder(lines: Sequence[str], part: Page) -> list[str]:
    return [*lines, *([f"… and {part.remaining:,} more"] if part.remaining else [])]


def _remainder_line(count: int, what: str) -> list[str]:
    return [f"… and {count:,} more {what}"] if count > 0 else []


def _pluralize(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"

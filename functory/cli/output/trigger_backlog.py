"""Tables of ``functory trigger debug``, from the rows that :mod:`functory.engine.firings.inspection` reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functory.cli.output import trigger_definition
from functory.engine.firings.inspection import Page, TriggerInspection
from functory.engine.flow_control.concurrency import UNLIMITED
from functory.engine.serialization import durations
from functory.explanations.trigger_flow import format_ago, format_until, key_of
from functory.terminal import console
from functory.terminal.console import count_of

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """One control: title, totals, and a table. The keys of a row are the headings; ``remaining`` rows are not shown."""

    title: str
    summary: str
    rows: Sequence[Row] = ()
    remaining: int = 0


def sections(found: TriggerInspection) -> Iterator[Section]:
    """Return a table per control of the trigger, in the order in which a match passes them, then its executions."""
    now, definition = found.now, found.trigger["definition"]
    flow = definition.get("flow") or {}
    all_keys = "" if found.key is None else ", of all keys"

    def control(name: str, summary: str, page: Page, show: Callable[[Row], Row]) -> Iterator[Section]:
        if name in flow or page.count:
            yield Section(name.replace("_", " "), summary, [show(row) for row in page.rows], page.remaining)

    yield from control(
        "idempotency",
        f"{console.count_of(found.idempotency_keys.count, 'key')} stored, newest first",
        found.idempotency_keys,
        lambda row: {
            "KEY": key_of(row),
            "EVENT": row["event_id"],
            "FREE": format_until(row["expires_at"], now),
        },
    )
    yield from control(
        "rate_limit",
        f"{found.dropped:,} dropped within a day",
        found.rate_limit,
        lambda row: {
            "KEY": key_of(row),
            "DROPPED": f"{row['dropped']:,}",
            "FREE": _free(row, flow.get("rate_limit"), now),
        },
    )
    yield from _buffers(found, definition, flow)
    yield from control(
        "throttle",
        f"{console.count_of(found.states.get('delayed', 0), 'execution')} delayed",
        found.throttle,
        lambda row: {"KEY": key_of(row), "NEXT START": _free(row, flow.get("throttle"), now)},
    )
    for row in found.concurrency_groups.rows:
        yield _concurrency_group(row, found)
    if found.concurrency_groups.remaining:
        yield Section("concurrency", f"{found.concurrency_groups.remaining:,} more groups")
    yield from control(
        "cancel_on",
        f"{console.count_of(found.cancellations.count, 'cancellation')} until earlier events are routed",
        found.cancellations,
        lambda row: {
            "EVENT": row["event_id"],
            "TYPE": row["type"],
            "SUBJECT": row["subject"] or "",
            "RULE": row["rule"] + 1,
        },
    )
    yield _executions(found, f"executions{all_keys}")
    if found.suppressed:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in found.suppressed.items())
        yield Section(f"suppressed so far{all_keys}", counts)


def next_allowed_at(stored: datetime, settings: Row) -> datetime:
    """Return the time of the next start that the rate limit (GCRA) allows, from its stored time."""
    step = durations.parse(settings["period"], "period") / settings["limit"]
    return stored - timedelta(seconds=step * (settings.get("burst", 1) - 1))


def _buffers(found: TriggerInspection, definition: Row, flow: Row) -> Iterator[Section]:
    composite, now = definition.get("composite"), found.now
    if composite is not None:
        title = f"composite {trigger_definition.composite_kind(composite)}"
    else:
        title = next((name for name in ("debounce", "batch") if name in flow), "buffer")
        if title == "buffer" and not found.buffers.count:
            return
    rows = [
        {
            "KEY": key_of(row),
            "MATCHES": f"{row['matches']:,}",
            "SINCE": console.format_time(row["first_time"] or row["opened_at"]),
            "DUE": "with a further event" if row["due_at"] is None else format_until(row["due_at"], now),
            "PROGRESS": _progress(row, composite, flow),
        }
        for row in found.buffers.rows
    ]
    waiting, keys = (found.matches, "match", "matches"), (found.buffers.count, "key")
    summary = f"{console.count_of(*waiting)} waiting, for {console.count_of(*keys)}"
    yield Section(title, summary, rows, found.buffers.remaining)


def _progress(row: Row, composite: Row | None, flow: Row) -> str:
    """Describe what a buffer has, and what it still needs."""
    if composite is not None:
        return _composite_progress(row, composite)
    if "batch" in flow:
        size, limit = flow["batch"].get("max_size", 100), flow["batch"].get("max_bytes")
        return f"{row['matches']:,} of {size:,} events, {count_of(row['bytes'], 'byte')}" + (
            f" of {limit:,}" if limit else ""
        )
    if "debounce" not in flow:
        return ""
    period, timeout = flow["debounce"]["period"], flow["debounce"].get("timeout")
    if timeout and row["due_at"] is not None:
        latest = row["opened_at"] + timedelta(seconds=durations.parse(timeout, "timeout"))
        if row["due_at"] >= latest:
            return f"{timeout} at most"
    return f"{period} without an event"


def _composite_progress(row: Row, composite: Row) -> str:
    kind = trigger_definition.composite_kind(composite)
    if kind == "threshold":
        return f"{row['matches']:,} of {composite['threshold']['count']}"
    if kind == "absence":
        if composite["absence"].get("after") is not None:
            return f"{console.count_of(row['matches'], 'event')} not answered yet"
        last = (row["memory"] or {}).get("id")
        reported = ", absence reported" if row["due_at"] is None else ""
        return (f"last event {last}" if last else "no event since it was saved") + reported
    counts = {int(number): count for number, count in row["parts"].items()}
    names = [name for name, _ in trigger_definition.composite_parts(composite)]
    return ", ".join(
        f"✓ {name} {counts[number]:,}" if counts.get(number) else f"· {name} missing"
        for number, name in enumerate(names)
    )


def _concurrency_group(row: Row, found: TriggerInspection) -> Section:
    def line(place: Any, one: Row, since: datetime) -> Row:
        other = one["trigger"] or one["function"]
        return {
            "PLACE": place,
            "EXECUTION": one["id"],
            "TRIGGER": "" if other == found.trigger["name"] else other,
            "STATE": one["state"],
            "WORKER": one["worker"] or "",
            "SINCE": format_ago(since, found.now),
            "NOT BEFORE": format_until(one["run_at"], found.now) if one["run_at"] > found.now else "",
        }

    rows = [line("slot", one, one["taken_at"]) for one in row["holders"]]
    rows += [line(place, one, one["queue_at"]) for place, one in enumerate(row["queue"], 1)]
    capacity = "unlimited" if row["capacity"] >= UNLIMITED else f"{row['capacity']:,}"
    summary = f"{row['taken']:,} of {capacity} slots taken, {row['waiting']:,} waiting"
    return Section(f"concurrency {key_of(row)}", summary, rows, row["taken"] + row["waiting"] - len(rows))


def _executions(found: TriggerInspection, title: str) -> Section:
    words = {
        "running": "running",
        "ready": "ready",
        "waiting_for_slot": "waiting for a slot",
        "delayed": "delayed",
    }
    rows = []
    for row in found.executions.rows:
        if row["state"] == "running":
            state, time = "running", format_ago(row["started_at"], found.now)
            state += ", cancel requested" if row["cancel_requested_at"] else ""
        elif row["run_at"] > found.now:
            state, time = "delayed", format_until(row["run_at"], found.now)
        else:
            state, time = "waiting for a slot" if row["waiting_for_slot"] else "ready", ""
        expires = row["expires_at"] if row["state"] == "queued" else None
        rows.append(
            {
                "EXECUTION": row["id"],
                "STATE": state,
                "WORKER": row["worker"] or "",
                "TIME": time,
                "EXPIRES": "" if expires is None else format_until(expires, found.now),
            }
        )
    counts = ", ".join(
        f"{found.states[name]:,} {word}" for name, word in words.items() if name in found.states
    )
    return Section(title, counts if found.executions.count else "none open", rows, found.executions.remaining)


def _free(row: Row, settings: Row | None, now: datetime) -> str:
    return format_until(next_allowed_at(row["next_at"], settings) if settings else row["next_at"], now)

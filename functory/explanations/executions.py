"""Why an execution ran, waits or failed, in sentences. Pure: rows in, words out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from functory.engine.names import author_in_words
from functory.explanations.quantities import count_of

FormatTime = Callable[[datetime | None], str]

# Advice for each reason of a suppressed firing. {trigger} is the trigger's name, {root} the root's id.
REMEDIES = {
    "own_event": "if that is meant, set the guard allow_self of {trigger} to true",
    "cycle": "if that is meant, raise the guard max_revisits of {trigger}, or acknowledge_cycle if it has that one",
    "depth": "if that is meant, raise FUNCTORY_MAX_DEPTH, or the guard max_depth of {trigger}",
    "budget": "functory trigger budget {root} N raises it for this root, FUNCTORY_ROOT_BUDGET for all",
    "rate": "functory trigger pause {trigger}, or raise its guard rate",
    "breaker_open": "functory trigger resume {trigger} closes the breaker, once the loop is gone",
    "shadow": "functory trigger promote {trigger}",
    "trigger_paused": "functory trigger resume {trigger}",
    "function_unavailable": "save or activate the function, or change {trigger}",
    "input_error": "change the parameters of its function, or the input of {trigger} for later events",
    "condition_error": "correct the condition: functory trigger show {trigger}",
    "idempotent": "the same idempotency key has fired before; functory trigger debug {trigger} shows the keys",
    "rate_limited": "raise its rate_limit, or use a throttle, with which further executions wait",
    "singleton": "functory trigger debug {trigger} shows the execution that is not finished",
    "overlap": "functory trigger debug {trigger} shows the execution that is not finished",
    "debounced": "a later event replaced it; a debounce with keep: all gets all events",
    "undone": "the execution that caused the event failed, and its effects are compensated: run it again",
    "late": "raise the allowance of {trigger}, if its events come late",
    "unmatched": "the other events of its composite did not come in time: functory trigger show {trigger}",
}


# The states of a step in the order of its life.
STEP_STATES = ("waiting", "pending", "running", "done", "failed", "skipped")


def explain(
    found: Mapping[str, Any],
    *,
    children: Sequence[Mapping[str, Any]] = (),
    workers: int = 0,
    embedded: bool = True,
    format_time: FormatTime,
) -> list[str]:
    """Explain an execution, one sentence per item.

    ``found`` is what :meth:`Lineage.cause` returns; ``children`` the open executions that it waits for;
    ``workers`` how many are alive.
    """
    row = found["execution"]
    said = [*_origin(row, found, format_time), *_trigger_chain(row)]
    said += _state(row, children, workers, embedded, format_time)
    said += _compensation_progress(row, found.get("plan", ()))
    return [*said, *(_suppressed(stopped) for stopped in found["stopped"])]


def utc_time(time: datetime | None) -> str:
    """Format a time for programs and pages, to the second in UTC."""
    return "" if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def fields(
    found: Mapping[str, Any], said: Sequence[str], children: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The fields of :class:`functory.rows.executions.Why`: what :func:`explain` has said, and about what."""
    firing, parent, event = found["firing"], found["parent"], found["event"]
    return {
        "sentences": said,
        "event_id": event and event["id"],
        "trigger": firing and firing["trigger"],
        "parent_id": parent and parent["id"],
        "waits_for": [row["id"] for row in children],
        "suppressed": [
            {
                **row,
                "version": row["trigger_version"],
                "event_type": row["type"],
                "limit": row["limit_value"],
                "value": row["actual_value"],
            }
            for row in found["stopped"]
        ],
    }


def error_summary(error: Mapping[str, Any]) -> str:
    """A recorded error on one line."""
    message = str(error.get("message") or "").split("\n")[0]
    return f"{error.get('type', 'error')}: {message}".rstrip(": ")


def _origin(row: Mapping[str, Any], found: Mapping[str, Any], format_time: FormatTime) -> list[str]:
    name = f"{row['function']} v{row['version']}"
    event, firing, parent = found["event"], found["firing"], found["parent"]
    if row["cause"] == "trigger" and event is not None:
        trigger = (
            f"{firing['trigger'] or row['trigger_id']} v{firing['trigger_version']}"
            if firing
            else "(deleted)"
        )
        said = [f"{name} was started by the trigger {trigger}."]
        if found.get("events"):
            said += _joint_events(found["events"], event, format_time)
        else:
            about = f" about {event['subject']}" if event["subject"] else ""
            said.append(
                f"It fired on the event {event['type']}{about} ({event['id']}) of {format_time(event['time'])}."
            )
        if event["cause_execution_id"]:
            said.append(f"That event was caused by the execution {event['cause_execution_id']}.")
        return said
    if row["cause"] == "parent" and parent is not None:
        by = f"{parent['function']} v{parent['version']}"
        return [f"{name} was called by {by} (execution {parent['id']}, {parent['state']})."]
    if row["cause"] == "compensation" and parent is not None:
        return _compensation_origin(name, found, parent)
    if row["cause"] == "step":
        run = parent["id"] if parent is not None and parent["cause"] == "step" else row["id"]
        return [f"{name} is a step of the run {run}; its steps: functory agent runs steps {run}."]
    if row["cause"] == "tool" and parent is not None:
        by = f"{parent['function']} v{parent['version']}"
        return [f"{name} was asked for by a step of a run: {by} (execution {parent['id']})."]
    if row["cause"] == "replay":
        gone = ", which was pruned" if row["replay_of"] in found.get("pruned", ()) else ""
        return [f"{name} is a replay of the execution {row['replay_of']}{gone}, with the same input."]
    by = "from the command line" if row["cause"] == "manual" else "through the API"
    return [f"{name} was started {by} at {format_time(row['created_at'])}."]


def _compensation_origin(name: str, found: Mapping[str, Any], parent: Mapping[str, Any]) -> list[str]:
    """An execution that undoes a step of its parent."""
    failed = f"{parent['function']} v{parent['version']} (execution {parent['id']}, {parent['state']})"
    step = found.get("undoes")
    if step is None:
        return [f"{name} was to compensate a step of {failed}; the compensation has been tried again since."]
    return [f"{name} undoes {step['function']} (execution {step['step_id']}), a step of {failed}."]


def _compensation_progress(row: Mapping[str, Any], plan: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the compensation of a failed execution."""
    steps = [step for step in plan if step["compensate"]]
    if not steps:
        return []
    counts = Counter(step["state"] for step in steps)
    listed = ", ".join(f"{counts[state]} {state}" for state in STEP_STATES if counts[state])
    said = [f"{count_of(len(steps), 'step is', 'steps are')} compensated, the newest first: {listed}."]
    stuck = next((step for step in steps if step["state"] == "failed"), None)
    if stuck is not None:
        said += [
            f"The compensation of {stuck['function']} has stopped: {stuck['problem']}.",
            f"To try it again: functory execution compensate {row['id']}; to leave that step as it is: --skip",
        ]
    return said


# Events that are named one by one.
_MAX_NAMED_EVENTS = 20


def _joint_events(
    events: Sequence[Mapping[str, Any]], by: Mapping[str, Any], format_time: FormatTime
) -> list[str]:
    """The events that started it together; the one that decided gave it its root."""
    named = ", ".join(f"{event['type']} ({event['id']})" for event in events[:_MAX_NAMED_EVENTS])
    more = f" and {len(events) - _MAX_NAMED_EVENTS} more" if len(events) > _MAX_NAMED_EVENTS else ""
    return [
        f"It fired on {len(events)} events together: {named}{more}.",
        f"The deciding one was {by['id']} of {format_time(by['time'])}.",
    ]


def _trigger_chain(row: Mapping[str, Any]) -> list[str]:
    if not row["chain"]:
        return []
    path = " → ".join(link["name"] for link in row["chain"])
    return [f"The triggers on the way to it: {path} (depth {row['depth']} of the root {row['root_id']})."]


def _state(
    row: Mapping[str, Any],
    children: Sequence[Mapping[str, Any]],
    workers: int,
    embedded: bool,
    format_time: FormatTime,
) -> list[str]:
    state = row["state"]
    if state == "queued":
        return _queued(row, workers, embedded, format_time)
    if state == "running":
        return _running(row, children, format_time)
    if state == "succeeded":
        return [f"It succeeded at attempt {row['attempt']}." if row["attempt"] > 1 else "It succeeded."]
    error = error_summary(row["error"] or {})
    if state == "cancelled":
        return [f"It was cancelled: {error}."]
    if state == "expired":
        return [
            "It expired: it was not started in time.",
            f"To run it: functory execution replay {row['id']}",
        ]
    tries = f"{row['attempt']} of at most {count_of(row['max_attempts'], 'attempt')} were made"
    if state == "dead":
        said = f"It is dead: each attempt ended without a result ({error}); {tries}."
    else:
        asked = _why_not_again(row)
        said = f"It {state.replace('_', ' ')}: {error}; {asked}."
    return [
        said,
        f"To see the traceback: functory execution show {row['id']}",
        f"To run it again with the corrected function: functory execution retry {row['id']} --latest",
    ]


def _why_not_again(row: Mapping[str, Any]) -> str:
    """Why an execution that failed is not tried again."""
    if (row["error"] or {}).get("final"):
        return f"it was not tried again: {row['error']['final']}"
    if not row["retries"]:
        return "it has no retries"
    return f"its {count_of(row['retries'], 'retry is', 'retries are')} used up"


def _queued(row: Mapping[str, Any], workers: int, embedded: bool, format_time: FormatTime) -> list[str]:
    said = []
    if row["attempt"]:
        error = error_summary(row["error"] or {})
        said.append(
            f"Attempt {row['attempt']} ended with {error}; the next is due at {format_time(row['run_at'])}."
        )
    elif row["run_at"] > row["created_at"]:
        said.append(f"It does not start before {format_time(row['run_at'])}.")
    if row.get("waiting_for_slot"):
        name = row["chain"][-1]["name"] if row["chain"] else ""
        said.append(
            f"It is queued until there is a slot for its concurrency limit: functory trigger debug {name}"
        )
    elif workers:
        said.append(
            f"It is queued and waits for {'the living worker' if workers == 1 else f'one of {workers} living workers'}."
        )
    else:
        start = "functory dev" if embedded else "functory worker"
        said.append(f"It is queued, and no worker is alive. To start one: {start}")
    return said


def _running(
    row: Mapping[str, Any], children: Sequence[Mapping[str, Any]], format_time: FormatTime
) -> list[str]:
    tries = f"attempt {row['attempt']} of at most {row['max_attempts']}"
    said = [
        f"It has been running since {format_time(row['started_at'])} on the worker {row['worker_id']}, {tries}."
    ]
    if children:
        waiting = ", ".join(f"{c['function']} v{c['version']} ({c['state']}, {c['id']})" for c in children)
        said.append(f"It waits for {waiting}.")
    if row["cancel_requested_at"] is not None:
        by = f" by {author_in_words(row['cancelled_by'])}" if row.get("cancelled_by") else ""
        said.append(f"Its worker has been asked to stop it{by}.")
    return said


def _suppressed(row: Mapping[str, Any]) -> str:
    trigger = row["trigger"] or row["trigger_id"]
    limit = row["limit_value"]
    bounds = f" (limit {limit}, value {row['actual_value']})" if limit is not None else ""
    detail = f": {row['detail'].splitlines()[0]}" if row["detail"] else ""
    remedy = REMEDIES.get(row["reason"], "").format(trigger=trigger, root=row["root_id"])
    if remedy:
        # A replay makes the same input again, by the version of the trigger that matched.
        when = "Then" if row["reason"] == "input_error" else "Once only"
        remedy += f". {when}: functory trigger replay {trigger} {row['event_id']}"
    return (
        f"Its event {row['type']} matched the trigger {trigger} v{row['trigger_version']}, which was "
        f"suppressed by {row['reason']}{bounds}{detail}." + (f" What to do: {remedy}." if remedy else "")
    )

"""Translates a rule of a pack to a trigger: its events, its criteria, and the input of its function.

What StackStorm's trigger types become here:

- ``core.st2.generic.actiontrigger`` (an action has ended) becomes the end of an execution;
- ``core.st2.webhook`` becomes a webhook of Functory; senders keep their header ``St2-Api-Key``;
- the timers ``core.st2.CronTimer``, ``IntervalTimer`` and ``DateTimer`` become schedules;
- a type that a pack declares for its sensors becomes an event type of the same name, which any program may emit.

The payload is the event's ``data`` in each case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.events.store import check_type
from functory.packs.stackstorm.report import Entry, LeftOut
from functory.packs.stackstorm.template import Rename, translate_parameters
from functory.packs.stackstorm.timer import TIMERS, schedule_config
from functory.triggers.sources.webhooks.event_mapping import TYPE as WEBHOOK

API_KEY = "st2-api-key"
ACTION_ENDED = "core.st2.generic.actiontrigger"

# Ends of an action, and the equivalent event here.
_STATES = {
    "succeeded": "execution.succeeded",
    "failed": "execution.failed",
    "timeout": "execution.timed_out",
    "canceled": "execution.cancelled",
    "abandoned": "execution.dead",
}
# Members of the payload of an action's end, and their equivalents here.
_MEMBERS = {
    "execution_id": "execution_id",
    "action_name": "function",
    "action_ref": "function",
    "status": "state",
    "result": "output",
}

_UNSUPPORTED_TRIGGERS = {
    "core.st2.generic.notifytrigger": "emit an event of your own where the notification was sent",
    "core.st2.generic.inquiry": "there are no questions to people yet",
    "core.st2.action.file_written": "emit an event from the function that writes the file",
    "core.st2.sensor.process_spawn": "there are no sensors here",
    "core.st2.sensor.process_exit": "there are no sensors here",
    "linux.file_watch.line": "emit an event for each line, from a program that follows the file",
}

_HEADER = re.compile(r"trigger\.headers(?:_lower)?(?:\[['\"]([^'\"]+)['\"]\]|\.([A-Za-z_][\w-]*))")
_ROOT = re.compile(r"trigger\.([A-Za-z_]\w*)(?=$|[.\[#\s])")


@dataclass(frozen=True)
class Target:
    """The function that an action became: its name, and which of its parameters are texts.

    ``imported`` is False for an action of another pack, and for one that ``cannot`` be imported.
    """

    function: str
    texts: frozenset[str]
    imported: bool
    cannot: bool = False


# From an action's reference (pack.name) to its function.
Find = Callable[[str], Target]


def read_rule(
    entry: Entry, rule: Mapping[str, Any], prefix: str, find: Find, declared: frozenset[str]
) -> None:
    """Fill ``entry`` with the trigger that ``rule`` becomes. ``declared`` are the pack's own trigger types.

    Raises :class:`LeftOut`.
    """
    trigger, action = rule.get("trigger"), rule.get("action")
    if not isinstance(trigger, Mapping) or not isinstance(trigger.get("type"), str):
        raise LeftOut("it has no trigger with a type", "correct the rule")
    if not isinstance(action, Mapping) or not isinstance(action.get("ref"), str):
        raise LeftOut("it has no action with a ref", "correct the rule")
    kind = rule.get("type")
    if isinstance(kind, Mapping) and kind.get("ref", "standard") != "standard":
        raise LeftOut(
            "it is a backstop rule: it fires when no other rule does",
            "write a trigger whose pattern matches the events that the other rules do not match",
        )
    criteria = rule.get("criteria") or {}
    if not isinstance(criteria, Mapping):
        raise LeftOut("its criteria are not an object", "correct the rule")
    parameters = trigger.get("parameters") or {}
    parameters = parameters if isinstance(parameters, Mapping) else {}
    entry.became = trigger_name(prefix, entry.name)
    times: dict[str, Any] | None = None
    headers: set[str] = set()
    if trigger["type"] in TIMERS:
        times = schedule_config(trigger["type"], parameters)
        if criteria:
            raise LeftOut(
                "its criteria test a timer",
                "make a schedule and a trigger on its events: functory schedule add, functory trigger add",
            )
        on: dict[str, Any] = {}
        rename: Rename = _of_timer
    elif trigger["type"] == "core.st2.webhook":
        name = _webhook_name(prefix, parameters)
        on = {"type": [WEBHOOK], "subject": [name]}
        criteria = {_lower_header(key, headers): asked for key, asked in criteria.items()}

        rename = lambda steps: ["data", *_with_lower_header(steps, headers)]  # noqa: E731
    else:
        on, criteria, rename = _events(entry, trigger["type"], parameters, criteria, find, declared)
    target = find(action["ref"])
    given = action.get("parameters") or {}
    if not isinstance(given, Mapping):
        raise LeftOut("its action's parameters are not an object", "correct the rule")
    fields: dict[str, Any] = {
        "on": on,
        "function": target.function,
        "input": translate_parameters(given, rename, target.texts),
    }
    if criteria:
        fields["criteria"] = dict(criteria)
    if times is not None:
        entry.schedule = {
            "name": entry.became,
            **times,
            "function": target.function,
            "input": fields["input"],
        }
    else:
        entry.trigger = {"name": entry.became, **fields}
    if trigger["type"] == "core.st2.webhook":
        _add_webhook(entry, prefix, on["subject"][0], headers)
    if rule.get("enabled") is not True:
        entry.pause("it is not enabled in the pack")
    if not target.imported:
        pack_name = action["ref"].partition(".")[0]
        if pack_name == "core":
            why = f"it runs {action['ref']}, which is a part of StackStorm"
        elif target.cannot:
            why = f"its action {action['ref']} cannot be imported; the report says why"
        else:
            why = f"the function {target.function} is not part of this import"
        own = pack_name == "core" or target.cannot
        entry.pause(
            why,
            f"write a function {target.function} that does the same"
            if own
            else f"import the pack {pack_name} first, or write the function",
        )
    if entry.outcome == "paused" and not entry.try_:
        verb = "schedule" if entry.schedule is not None else "trigger"
        entry.try_ = f"functory {verb} resume {entry.became}"


def trigger_name(prefix: str, name: str) -> str:
    """A trigger's name from the names of pack and rule."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{prefix}.{name}" if prefix else name)
    return cleaned if re.match(r"[A-Za-z_]", cleaned) else f"rule-{cleaned}"


def _of_timer(steps: list[str | int]) -> list[str | int]:
    if steps != ["executed_at"]:
        raise LeftOut(
            "it uses " + ".".join(["trigger", *map(str, steps)]) + " of a timer, which schedules do not have",
            "they have trigger.executed_at",
        )
    return ["data", "fire_time"]


def _webhook_name(prefix: str, parameters: Mapping[str, Any]) -> str:
    url = str(parameters.get("url", "")).strip("/")
    if not url:
        raise LeftOut("its webhook has no url", "correct the rule")
    return trigger_name(prefix, url).replace(".", "-")


def _with_lower_header(steps: list[str | int], headers: set[str]) -> list[str | int]:
    """Names of headers are lower-case in events. ``headers`` collects those that events must have."""
    if len(steps) > 1 and steps[0] in ("headers", "headers_lower") and isinstance(steps[1], str):
        headers.add(steps[1].lower())
        return ["headers", steps[1].lower(), *steps[2:]]
    return steps


def _lower_header(key: str, headers: set[str]) -> str:
    match = _HEADER.match(key)
    if match is None:
        return key
    name = (match[1] or match[2]).lower()
    headers.add(name)
    return f"trigger.headers['{name}']{key[match.end() :]}"


def _add_webhook(entry: Entry, prefix: str, name: str, headers: set[str]) -> None:
    secret = re.sub(r"\W", "_", f"{prefix}_webhook_key" if prefix else "webhook_key").upper()
    auth = {"type": "token", "header": API_KEY, "secret": [secret]}
    entry.webhook = {"name": name, "auth": auth, "headers": sorted(headers - {API_KEY, "authorization"})}
    entry.notes.append(
        f"its webhook is POST /webhooks/{name} with the header St2-Api-Key: functory secret set {secret}"
    )


def _events(
    entry: Entry,
    type_: str,
    parameters: Mapping[str, Any],
    criteria: Mapping[str, Any],
    find: Find,
    declared: frozenset[str],
) -> tuple[dict[str, Any], Mapping[str, Any], Rename]:
    """The pattern, the translated criteria, and the path of the payload's members."""
    if type_ in _UNSUPPORTED_TRIGGERS:
        raise LeftOut(f"there are no events of the type {type_}", _UNSUPPORTED_TRIGGERS[type_])
    if type_ == ACTION_ENDED:
        return _ended(criteria, find)
    if type_.startswith("core."):
        raise LeftOut(f"there are no events of the type {type_}", "choose one of the event types of Functory")
    try:
        check_type(type_)
    except Invalid as error:
        raise LeftOut(f"its trigger type cannot be an event type: {error.what}", error.try_) from None
    entry.notes.append(f"it waits for events of the type {type_}: functory event emit {type_} --data …")
    if type_ not in declared:
        entry.pause(f"no file of the pack declares the trigger type {type_}")
    elif parameters:
        entry.pause(f"the parameters of its trigger are a sensor's: {dict(parameters)}")
    return {"type": [type_]}, criteria, _in_data


def _in_data(steps: list[str | int]) -> list[str | int]:
    return ["data", *steps]


def _ended(criteria: Mapping[str, Any], find: Find) -> tuple[dict[str, Any], Mapping[str, Any], Rename]:
    """An action's end: status and action choose events if compared with plain values; the rest is renamed."""
    types = list(_STATES.values())
    subjects: list[str] | None = None
    rest: dict[str, Any] = {}
    for key, asked in criteria.items():
        match = _ROOT.match(key)
        if match is None:
            raise LeftOut(
                f"its criterion {key} tests the whole end of an action",
                "test a member, such as trigger.status",
            )
        member = match[1]
        if member in ("status", "action_name", "action_ref"):
            wanted = _wanted(asked)
            if wanted is None:
                raise LeftOut(
                    f"its criterion {key} does more than compare with values", "use equals or inside"
                )
            if member == "status":
                types = [_STATES[state] for state in wanted if state in _STATES and _STATES[state] in types]
            else:
                named = [find(action).function for action in wanted]
                subjects = named if subjects is None else [name for name in subjects if name in named]
        else:
            rest[f"trigger.{_member(member)}{key[match.end() :]}"] = asked
    if not types or subjects == []:
        raise LeftOut(
            "its criteria contradict each other, or name a status that is no end",
            "use " + ", ".join(_STATES),
        )
    on: dict[str, Any] = {"type": types}
    if subjects is not None:
        on["subject"] = subjects

    def rename(steps: list[str | int]) -> list[str | int]:
        if not steps or not isinstance(steps[0], str):
            return ["data", *steps]
        return ["data", _member(steps[0]), *steps[1:]]

    return on, rest, rename


def _member(name: str) -> str:
    if name not in _MEMBERS:
        raise LeftOut(
            f"it uses {name} of an action's end, which execution events do not have",
            "they have " + ", ".join(_MEMBERS),
        )
    return _MEMBERS[name]


def _wanted(asked: Any) -> list[str] | None:
    if not isinstance(asked, Mapping):
        return None
    operator, operand = str(asked.get("type", "")).lower(), asked.get("pattern")
    listed = [operand] if operator in ("equals", "eq") else operand if operator in ("inside", "in") else None
    if not isinstance(listed, list):
        return None
    values = [value for value in listed if isinstance(value, str) and "{{" not in value]
    return values if len(values) == len(listed) else None

"""Agents, their runs and the questions of runs, as commands print them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.cli.output.hidden import HIDDEN
from functory.engine.agents import money
from functory.engine.agents.directives import KEY
from functory.terminal.console import format_time, short_json

_AGENT = ("name", "state", "version", "definition", "author", "created_at", "updated_at")
_DEFINITION = (
    "function", "description", "model", "memo", "tools", "agents", "checks", "ask_before", "limits",
)  # fmt: skip
_RUN = (
    "id", "root_id", "parent_run_id", "agent", "agent_version", "function", "goal", "user_name", "author", "state",
    "reason", "detail", "step", "max_steps", "errors", "memo", "result", "checked", "pause_requested_at", "created_at",
    "updated_at", "ended_at",
)  # fmt: skip
_STEP = (
    "number", "kind", "execution_id", "state", "version", "input", "result", "error", "attempt", "cost", "created_at",
    "started_at", "finished_at",
)  # fmt: skip


def public(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent as JSON."""
    definition = row["definition"]
    ordered = {name: definition[name] for name in _DEFINITION if name in definition}
    return {name: row[name] for name in _AGENT} | {"definition": ordered}


def public_run(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run as JSON."""
    return {name: row[name] for name in _RUN if name in row}


def public_step(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step as JSON."""
    found = {name: row[name] for name in _STEP}
    return found | {"cost_usd": row["cost"] / money.NANO}


def public_question(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question as the API has it."""
    from functory.rows.agents import Question

    return Question.as_json(row)


def in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent as a row of a list."""
    definition = row["definition"]
    return {
        **row,
        "function": definition["function"],
        "model": definition["model"],
        "tools": ", ".join(definition["tools"]),
        "description": definition["description"].split("\n")[0],
    }


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent as a record."""
    definition = row["definition"]
    record = {
        "name": row["name"],
        "state": row["state"],
        "version": row["version"],
        "description": definition["description"] or None,
        "function": definition["function"],
        "model": definition["model"],
        "tools": ", ".join(definition["tools"]) or None,
        "agents": ", ".join(definition["agents"]) or None,
        "checks": ", ".join(definition["checks"]) or None,
        "asks before": ", ".join(definition.get("ask_before", [])) or None,
        "limits": ", ".join(f"{name}={value}" for name, value in sorted(definition["limits"].items()))
        or None,
        "memo": short_json(definition["memo"]) if definition["memo"] else None,
        "changed": f"{format_time(row['updated_at'])} by {row['author']}",
    }
    return {name: value for name, value in record.items() if value is not None}


def run_in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run as a row of a list."""
    return {**row, "state": _state(row), "goal": row["goal"].split("\n")[0][:60]}


def run(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run as a record."""
    spent = row["spent"] or {}
    record: dict[str, Any] = {
        "id": row["id"],
        "agent": f"{row['agent']} v{row['agent_version']}" if row["agent"] else None,
        "function": row["function"],
        "goal": row["goal"],
        "state": _state(row),
        "why": (row["detail"] or {}).get("message"),
        "result": None if row["result"] is None else short_json(row["result"]),
        "checked": _CHECKED[row["checked"]] if row["state"] == "succeeded" else None,
        "steps": f"{row['step']} of at most {row['max_steps']}",
        "waits for": _waits(row),
        "questions": "\n".join(question_text(one) for one in row["questions"]) or None,
        "spent": (
            f"{money.dollars(spent['usd_spent'])} of {money.dollars(spent['usd_limit'])}, "
            f"{spent['calls']:,} of {spent['calls_limit']:,} calls of models, in its tree"
            if spent
            else None
        ),
        "memo": short_json(row["memo"]),
        "part of": f"run {row['parent_run_id']}" if row["parent_run_id"] else None,
        "started": f"{format_time(row['created_at'])} by {row['author'] or 'unknown'}",
        "ended": format_time(row["ended_at"]) if row["ended_at"] else None,
    }
    return {name: value for name, value in record.items() if value is not None}


def step_in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step as a row of a list."""
    return {
        **row,
        "given": row["kind"],
        "then": _then(row),
        "cost": money.dollars(row["cost"]) if row["cost"] else "",
    }


def question_text(row: Mapping[str, Any]) -> str:
    """Return a question as a sentence."""
    payload = row["payload"]
    if row["kind"] == "ask":
        return payload["question"]
    if row["kind"] == "proposal":
        return f"May {payload['function']} v{payload['version']} become active?"
    return f"May it run {payload['tool']} with {short_json(payload['arguments'])}?"


def question_in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question as a row of a list."""
    choices = row["payload"].get("choices")
    return {
        **row,
        "question": question_text(row).split("\n")[0][:80],
        "choices": ", ".join(choices) if choices else "",
    }


def watched(row: Mapping[str, Any]) -> str:
    """Return the line about a step of a run that is watched."""
    parts = [f"step {row['number']}", f"({row['kind']})", row["state"]]
    if then := _then(row):
        parts.append(f"→ {then}")
    if row["cost"]:
        parts.append(f" {money.dollars(row['cost'])}")
    return " ".join(parts)


def ended(row: Mapping[str, Any]) -> str:
    """Return the last line about a run."""
    why = (row["detail"] or {}).get("message")
    return f"run {row['id']} {_state(row)}" + (f": {why}" if why else "")


_CHECKED: Mapping[Any, str] = {
    True: "its checks have passed",
    False: "its checks have not passed",
    None: "no (the agent has no checks)",
}


def _state(row: Mapping[str, Any]) -> str:
    state = row["state"].replace("_", " ")
    if row["reason"]:
        return f"{state} ({row['reason']})"
    pausing = row.get("pause_requested_at") is not None and row["state"] != "paused"
    return f"{state}, will pause" if pausing else state


def _waits(row: Mapping[str, Any]) -> str | None:
    found = [f"{wait['kind']} {wait['target_id']}" for wait in row["waits"]]
    return "\n".join(found) or None


def _then(row: Mapping[str, Any]) -> str:
    """What the step asked for."""
    result = row["result"]
    if row["state"] != "succeeded":
        return (row["error"] or {}).get("message", "")[:80].split("\n")[0]
    if result == HIDDEN:
        return "(hidden)"
    if not (isinstance(result, Mapping) and isinstance(result.get(KEY), Mapping)):
        return "done"
    given = result[KEY]
    calls = given.get("calls")
    if isinstance(calls, list):
        return f"{given['do']} {', '.join(str(one.get('name')) for one in calls[:4])}"
    return str(given.get("do"))


def choice_of(text: str, choices: list[str] | None) -> Any:
    """Return an answer as it was typed: a choice, or JSON, or a text."""
    from functory.cli.input import values

    return text if choices and text in choices else values.parse_value(text)

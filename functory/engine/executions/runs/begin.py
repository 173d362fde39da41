"""The begin of a run: its row, its first step, and the limits of its tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.engine.agents import agent_fields, agents, meters
from functory.engine.agents.agent_fields import Limits
from functory.engine.agents.directives import MAX_MEMO_BYTES
from functory.engine.agents.money import nano_dollars
from functory.engine.database.schema import budget, meter, run
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid
from functory.engine.events.causation import Cause, CausingExecution
from functory.engine.executions import start
from functory.engine.executions.runs import metric_counts, rows, transitions
from functory.engine.serialization import json_codec
from functory.engine.settings import Settings

MAX_GOAL = 32_000
# Executions that a step may start on average, without asking for a larger budget.
EXECUTIONS_OF_A_STEP = 4


def of_agent(
    tx: Tx,
    name: str,
    goal: str,
    settings: Settings,
    *,
    author: str,
    memo: Mapping[str, Any] | None = None,
    user: str | None = None,
    parent: Cause | None = None,
    limits: Mapping[str, Any] | None = None,
    id_: str | None = None,
    idempotency_key: str | None = None,
) -> dict[str, Any]:
    """Start a run of an agent. Returns its row. With ``parent``, a running execution, it belongs to that one's tree.

    ``limits`` are stricter ones than the agent's. Raises :class:`NotFound`, :class:`Conflict` and :class:`Invalid`.
    """
    found = agents.load_for_run(tx, name)
    definition = found["definition"]
    if limits:
        definition = {**definition, "limits": _stricter(definition["limits"], limits, settings)}
    own = _new_run(tx, goal, definition, author=author, memo=memo, user=user, id_=id_)
    own |= {"agent": name, "agent_version": found["version"]}
    if parent is None:
        _start(tx, own, settings, depth=0, chain=(), parent_id=None, key=idempotency_key)
    else:
        own["root_id"] = parent.root_id
        start.take_budget(tx, parent, own["function"], settings)
        _start(tx, own, settings, depth=parent.depth + 1, chain=parent.chain, parent_id=parent.execution_id)
    return own


def rerun(
    tx: Tx,
    source: Mapping[str, Any],
    definition: Mapping[str, Any],
    settings: Settings,
    *,
    memo: Mapping[str, Any],
    given: Mapping[str, Any] | None,
    author: str,
) -> dict[str, Any]:
    """Start a run that repeats ``source``. Its first step gets this memo and what is given. Returns its row."""
    own = _new_run(tx, source["goal"], definition, author=author, memo=memo, user=source["user_name"])
    own |= {name: source[name] for name in ("agent", "agent_version")}
    own["memo"] = dict(memo)
    kind = "start" if given is None else str(given.get("kind", "again"))
    _start(tx, own, settings, depth=0, chain=(), parent_id=None, given=given, kind=kind)
    return own


def child(
    tx: Tx,
    parent: Mapping[str, Any],
    step: CausingExecution,
    name: str,
    arguments: Mapping[str, Any],
    settings: Settings,
) -> str:
    """Start a run for which a step of another run waits; ``step`` is that step's execution. Returns its id.

    It draws from the same tree: its money, tokens and calls are those of the parent, not copies of them.
    """
    goal, memo = arguments.get("goal"), arguments.get("memo")
    if memo is not None and not isinstance(memo, Mapping):
        raise Invalid("wrong memo", "it is an object")
    found = agents.load_for_run(tx, name)
    own = _new_run(
        tx, goal, found["definition"], author=f"run {parent['id']}", memo=memo, user=parent["user_name"]
    )
    own |= {
        "agent": name,
        "agent_version": found["version"],
        "root_id": parent["root_id"],
        "parent_run_id": parent["id"],
    }
    start.take_budget(tx, Cause.from_row(step), own["function"], settings)
    _start(tx, own, settings, depth=step.depth + 1, chain=step.chain, parent_id=step.id)
    return own["id"]


def _new_run(
    tx: Tx,
    goal: Any,
    definition: Mapping[str, Any],
    *,
    author: str,
    memo: Mapping[str, Any] | None,
    user: str | None,
    id_: str | None = None,
) -> dict[str, Any]:
    if not isinstance(goal, str) or not goal.strip() or len(goal) > MAX_GOAL:
        raise Invalid("wrong goal", f"it is a text of 1 to {MAX_GOAL:,} characters")
    whole = {**definition["memo"], **(memo or {}), "goal": goal}
    if (size := len(json_codec.encode(whole))) > MAX_MEMO_BYTES:
        raise Invalid(f"the memo has {size:,} bytes", f"a memo has at most {MAX_MEMO_BYTES:,}")
    id_ = id_ or tx.new_id()
    return {
        "id": id_,
        "root_id": id_,
        "parent_run_id": None,
        "agent": None,
        "agent_version": None,
        "function": definition["function"],
        "definition": dict(definition),
        "goal": goal,
        "user_name": user,
        "author": author,
        "state": "running",
        "reason": None,
        "detail": None,
        "step": 0,
        "errors": 0,
        "memo": whole,
        "pending": None,
        "allowed": [],
        "pause_requested_at": None,
        "waiting_since": None,
        "result": None,
        "checked": None,
        "created_at": tx.now,
        "updated_at": tx.now,
        "ended_at": None,
    }


def _start(
    tx: Tx,
    own: dict[str, Any],
    settings: Settings,
    *,
    depth: int,
    chain: Sequence[Mapping[str, Any]],
    parent_id: str | None,
    key: str | None = None,
    given: Mapping[str, Any] | None = None,
    kind: str = "start",
) -> None:
    row = transitions.step_row(tx, own, given, depth=depth, chain=chain, parent_id=parent_id, id_=own["id"])
    row["idempotency_key"] = key
    tx.insert(run, [own])
    start.write(tx, [row])
    transitions.write_step(tx, own, kind, row["id"], transitions.seen(own, given))
    if own["root_id"] == own["id"]:
        _limit_tree(tx, own, settings)
    else:
        meters.ensure(tx, own["root_id"], settings)
        _ensure_budget(tx, own["root_id"], settings.root_budget)
    rows.emit(tx, own, "started", {"goal": own["goal"]}, None)
    metric_counts.started(tx, own)
    tx.wake("executions")


def _limit_tree(tx: Tx, own: Mapping[str, Any], settings: Settings) -> None:
    """The meter and the budget of a tree that begins with a run: the limits of its agent, else the settings."""
    given = own["definition"].get("limits") or {}
    row = meters.new_meter(tx, own["root_id"], settings)
    for name in ("tokens", "calls", "tool_calls", "children", "proposals"):
        if name in given:
            row[f"{name}_limit"] = given[name]
    if "usd" in given:
        row["usd_limit"] = nano_dollars(given["usd"], "usd")
    if "seconds" in given:
        row["deadline_at"] = meters.deadline(tx, given["seconds"])
    tx.insert(meter, [row])
    steps = Limits.of(own["definition"]).steps
    children = min(row["tool_calls_limit"] + row["children_limit"], steps * EXECUTIONS_OF_A_STEP)
    _ensure_budget(tx, own["root_id"], max(settings.root_budget, steps + children))


def _ensure_budget(tx: Tx, root_id: str, maximum: int) -> None:
    row = {"root_id": root_id, "used": 0, "maximum": maximum, "created_at": tx.now}
    tx.insert_missing(budget, [row])


def _stricter(known: Mapping[str, Any], given: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return limits of which none is above the agent's own, or above the settings where the agent has none."""
    checked = agent_fields.check_limits(given)
    most = {**agent_fields.usual_limits(settings), **known}
    if (name := agent_fields.above(checked, most)) is not None:
        whose = "the agent" if name in known else "an agent without its own"
        raise Invalid(
            f"the limit {name}={checked[name]} is above that of the agent", f"{whose} has {name}={most[name]}"
        )
    return {**known, **checked}

"""What a rerun takes from the run that it repeats: answers of models and people, and results of tools that act.

A rerun has its source in its definition: ``{"source": {"run": id, "step": 3, "models": "live", "people": "live",
"tools": "recorded", "used": {}}}``. Models and people: ``recorded`` asks none at all; ``live`` asks for what is not
recorded. Tools: ``recorded`` uses none that acts; ``live`` uses all. The same question twice gets the first and the
second answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.agents import calls
from functory.engine.agents.directives import Wanted
from functory.engine.database.schema import approval, execution, llm_call, run, run_step
from functory.engine.database.transaction import Tx
from functory.engine.executions.runs import consent, rows
from functory.engine.functions.version_row import VersionRow
from functory.engine.serialization import json_codec

# Rows of the source that are looked at for one question.
_MOST = 1_000
_NOT_RECORDED = "it is not in the recorded run, and a rerun uses nothing that acts"


def source_of(own: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a run repeats; None for a run that repeats none."""
    return own["definition"].get("source")


def model_answer(tx: Tx, own: dict[str, Any], sha256: str) -> dict[str, Any] | None:
    """Return the recorded answer to a request of a model with this hash, as a step is given it."""
    source = source_of(own)
    if source is None:
        return None
    found = tx.rows(
        sa.select(llm_call)
        .join(run_step, run_step.c.execution_id == llm_call.c.execution_id)
        .where(
            run_step.c.run_id == source["run"],
            run_step.c.number >= source["step"],
            llm_call.c.request_sha256 == sha256,
            llm_call.c.state == "succeeded",
        )
        .order_by(llm_call.c.id)
        .limit(_MOST)
    )
    row = _next(tx, own, f"model {sha256}", found)
    return None if row is None else {"kind": "model", **calls.answer(row, replayed=True)}


def call_of_step(tx: Tx, own: Mapping[str, Any]) -> str | None:
    """Return the call of a model that the source made in the step that this run's newest one repeats."""
    source = source_of(own)
    assert source is not None
    number = source["step"] + own["step"] - 1
    return tx.scalar(
        sa.select(llm_call.c.id)
        .join(run_step, run_step.c.execution_id == llm_call.c.execution_id)
        .where(run_step.c.run_id == source["run"], run_step.c.number == number)
        .order_by(llm_call.c.id)
        .limit(1)
    )


def person_answer(tx: Tx, own: dict[str, Any], question: str) -> dict[str, Any] | None:
    """Return what a person answered to the same question."""
    source = source_of(own)
    if source is None:
        return None
    rows_ = tx.rows(
        sa.select(approval)
        .where(
            approval.c.run_id == source["run"], approval.c.kind == "ask", approval.c.decided_by.is_not(None)
        )
        .order_by(approval.c.id)
        .limit(_MOST)
    )
    found = [row for row in rows_ if row["payload"].get("question") == question]
    row = _next(tx, own, f"ask {json_codec.digest(question)}", found)
    if row is None:
        return None
    return {
        "kind": "answer",
        "decision": row["state"],
        "answer": row["answer"],
        "feedback": row["feedback"],
        "by": row["decided_by"],
    }


def tool_result(
    tx: Tx, own: dict[str, Any], version: VersionRow, arguments: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the recorded result of a tool that acts, or the refusal of one that is not recorded; None when the tool
    is to be used.
    """
    source = source_of(own)
    if source is None or source["tools"] == "live" or consent.effect_of(tx, version) != "acts":
        return None
    steps = sa.select(run_step.c.execution_id).where(run_step.c.run_id == source["run"])
    rows_ = tx.rows(
        sa.select(execution.c.id, execution.c.state, execution.c.input, execution.c.result, execution.c.error)
        .where(
            execution.c.parent_id.in_(steps),
            execution.c.cause == "tool",
            execution.c.function == version.name,
            execution.c.finished_at.is_not(None),
        )
        .order_by(execution.c.id)
        .limit(_MOST)
    )
    wanted = json_codec.digest(arguments)
    found = [row for row in rows_ if json_codec.digest(row["input"]) == wanted]
    row = _next(tx, own, f"tool {version.name} {wanted}", found)
    return _refused() if row is None else _ended(row)


def child_result(tx: Tx, own: dict[str, Any], agent: str, wanted: Wanted) -> dict[str, Any] | None:
    """Return the recorded result of a run of another agent, or a refusal; None when it is to be started."""
    source = source_of(own)
    if source is None or source["tools"] == "live":
        return None
    goal = wanted.arguments.get("goal") if isinstance(wanted.arguments, Mapping) else None
    found = tx.rows(
        sa.select(run.c.id, run.c.state, run.c.result, run.c.detail.label("error"))
        .where(
            run.c.parent_run_id == source["run"],
            run.c.agent == agent,
            run.c.goal == goal,
            run.c.ended_at.is_not(None),
        )
        .order_by(run.c.id)
        .limit(_MOST)
    )
    row = _next(tx, own, f"agent {agent} {json_codec.digest(goal)}", found)
    return _refused() if row is None else _ended(row)


def _next(
    tx: Tx, own: dict[str, Any], key: str, found: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the first of ``found`` that this run has not used yet, and count it as used."""
    source = dict(own["definition"]["source"])
    used = source["used"].get(key, 0)
    if used >= len(found):
        return None
    source["used"] = {**source["used"], key: used + 1}
    rows.change(tx, own, definition={**own["definition"], "source": source})
    return found[used]


def _refused() -> dict[str, Any]:
    return {"ok": False, "error": {"state": "refused", "type": "NotRecorded", "message": _NOT_RECORDED}}


def _ended(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["state"] == "succeeded":
        return {"ok": True, "value": row["result"], "recorded": row["id"]}
    error = row["error"] or {}
    message = error.get("message") or f"it ended as {row['state']}"
    problem = {"state": row["state"], "type": error.get("type"), "message": message}
    return {"ok": False, "error": problem, "recorded": row["id"]}

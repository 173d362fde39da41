"""Explains why an event did or did not fire each trigger, clause by clause (``functory event why``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from functory.engine.errors import FunctoryError
from functory.engine.events import envelope as event_envelope
from functory.engine.events.firing_row import FiringRow
from functory.engine.executions.lineage import NamedFiring
from functory.engine.flow_control import trigger_row
from functory.triggers.definition import CompiledTrigger, compile_definition
from functory.triggers.patterns import Clause


def explain(
    event: Mapping[str, Any],
    triggers: Sequence[Mapping[str, Any]],
    firings: Sequence[NamedFiring],
    now: datetime,
) -> list[dict[str, Any]]:
    """One answer for each trigger, those with a recorded decision first, then those with the fewest failed clauses.

    ``decision`` is the recorded one (fired, suppressed), or ``no match``; then ``clauses`` compare
    the event with the current version of the trigger: path, expected value, found value.
    """
    recorded = {one.trigger_id: one for one in firings}
    envelope = event_envelope.of_mapping(event)
    answers: list[dict[str, Any]] = []
    for row in triggers:
        decided = recorded.pop(row["id"], None)
        answer: dict[str, Any] = {"trigger": row["name"], "version": row["version"], "state": row["state"]}
        answers.append(answer | (_decided(decided) if decided else _undecided(row, envelope, now)))
    # Triggers that are deleted by now have left their decisions.
    answers += [
        {
            "trigger": decided.trigger or decided.trigger_id,
            "version": decided.trigger_version,
            "state": "deleted",
        }
        | _decided(decided)
        for decided in recorded.values()
    ]
    order = {"fired": 0, "suppressed": 1}
    counted = [
        answer | {"failed_clauses": sum(not clause["matched"] for clause in answer.get("clauses", ()))}
        for answer in answers
    ]
    return sorted(counted, key=lambda a: (order.get(a["decision"], 2), a["failed_clauses"], a["trigger"]))


def _decided(row: FiringRow) -> dict[str, Any]:
    return {
        "decision": row.decision,
        "version": row.trigger_version,
        "reason": row.reason,
        "limit": row.limit_value,
        "value": row.actual_value,
        "detail": row.detail,
        "execution_id": row.execution_id,
        "chain": [link["name"] for link in row.chain or []],
    }


def _undecided(row: Mapping[str, Any], envelope: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    try:
        compiled = compile_definition(trigger_row.from_mapping(row))
        matched, clauses = explain_match(compiled, envelope, now)
        verdict = compiled.evaluate_conditions(envelope, now) if matched else None
        if compiled.criteria is not None:
            clauses = [*clauses, *compiled.criteria.explain(envelope, now)]
    except FunctoryError as error:
        return {"decision": "no match", "reason": f"the trigger is broken: {error.what}", "clauses": []}
    answer: dict[str, Any] = {"decision": "no match", "clauses": [asdict(clause) for clause in clauses]}
    wrong = next((clause for clause in clauses if not clause.matched), None)
    if not matched:
        answer["reason"] = wrong.sentence if wrong else "the pattern does not match"
    elif verdict is not None and not verdict.matched:
        answer["reason"] = verdict.problem or (wrong.sentence if wrong else "the condition is false")
    else:
        answer["reason"] = (
            "it matches now, but the event was routed before this version of the trigger, or is not routed yet"
        )
    return answer


def explain_match(
    compiled: CompiledTrigger, envelope: Mapping[str, Any], now: datetime
) -> tuple[bool, list[Clause]]:
    """Match an event and explain the result: whether it matches, and the clauses of the pattern.

    With a composite the clauses are those of the parts that match, else those of all parts.
    """
    if compiled.composite is None:
        assert compiled.pattern is not None
        return compiled.pattern.matches(envelope), list(compiled.pattern.explain(envelope))
    parts = compiled.composite.parts
    matching = [part for part in parts if part.matches(envelope, now)]
    return bool(matching), [
        replace(clause, path=f"part {part.name}: {clause.path}")
        for part in matching or parts
        for clause in part.explain(envelope, now)
    ]

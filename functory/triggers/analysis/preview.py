"""Preview: what a draft of a trigger decides about stored events, beside its stored version. Nothing is saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from functory.engine.errors import FunctoryError
from functory.engine.events import envelope
from functory.triggers.analysis.cycles import Edge, Graph, format_cycle
from functory.triggers.analysis.dry_run import Judgement, error_text, judge
from functory.triggers.definition import CompiledTrigger
from functory.triggers.routing.trigger_set import indexed_patterns
from functory.triggers.wanted_types import wanted_types

Row = Mapping[str, Any]


def preview_types(compiled: Iterable[CompiledTrigger], stored_types: Sequence[str]) -> frozenset[str]:
    """Return those of the stored types that a pattern of these triggers could match."""
    patterns = [one.pattern for trigger in compiled for one in indexed_patterns(trigger)]
    return wanted_types(patterns, stored_types)


def preview_event(compiled: CompiledTrigger, row: Row, now: datetime) -> dict[str, Any]:
    """Return what a trigger decides about one event, with its clauses: those that do not hold say why not.

    The event is judged as of the time at which it was routed, or now.
    """
    at = row["routed_at"] or now
    try:
        found = judge(compiled, envelope.of_mapping(row), at)
    except FunctoryError as error:
        return {"matched": False, "reason": error_text(error), "failed_clauses": 1, "clauses": []}
    return {
        "matched": found.matched,
        "reason": _reason(compiled, found),
        "failed_clauses": found.failed,
        "clauses": [asdict(clause) for clause in found.clauses] + _condition_clause(compiled, found),
    }


def cycle_of(ring: Sequence[Edge], graph: Graph) -> dict[str, Any]:
    """Return a cycle with its witness, and the guards of its triggers that bound it."""
    return {
        "path": format_cycle(ring),
        "steps": [step.as_json() for step in ring],
        "guards": [
            {
                "trigger": step.trigger,
                "max_revisits": graph.triggers[step.trigger].guards.max_revisits,
                "max_depth": graph.triggers[step.trigger].guards.max_depth,
                "acknowledge_cycle": graph.triggers[step.trigger].guards.acknowledge_cycle,
            }
            for step in ring
        ],
    }


def _reason(compiled: CompiledTrigger, found: Judgement) -> str | None:
    if found.matched:
        return None
    wrong = next((clause for clause in found.clauses if not clause.matched), None)
    if wrong is not None:
        return wrong.sentence
    if found.condition is False and compiled.condition is not None:
        return found.problem or f"the condition is false: {compiled.condition.text}"
    return "the pattern does not match"


def _condition_clause(compiled: CompiledTrigger, found: Judgement) -> list[dict[str, Any]]:
    if found.condition is None or compiled.condition is None:
        return []
    shown = found.problem or ("true" if found.condition else "false")
    return [{"path": "when", "expected": compiled.condition.text, "found": shown, "matched": found.condition}]

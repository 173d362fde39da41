"""The decision of one trigger about one event, clause by clause. Nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from functory.engine.errors import FunctoryError
from functory.engine.executions.start import check_enabled
from functory.engine.flow_control import trigger_row
from functory.engine.functions import dependencies
from functory.engine.serialization import json_schema
from functory.triggers.analysis.event_explanation import explain_match
from functory.triggers.definition import CompiledTrigger, SingleEventInput, compile_definition
from functory.triggers.flow_control.debounce_batch import key_of_event
from functory.triggers.patterns import Clause
from functory.triggers.routing.decision import matching_parts

GetFunction = Callable[[str, int | None], Mapping[str, Any]]


@dataclass(frozen=True)
class Judgement:
    """Whether a trigger matches an event, clause by clause. ``condition`` is False or None where it was not reached,
    and ``problem`` its error.
    """

    matched: bool
    clauses: Sequence[Clause]
    condition: bool | None = None
    problem: str | None = None

    @property
    def failed(self) -> int:
        """The number of clauses that do not hold, and of the condition."""
        return sum(not clause.matched for clause in self.clauses) + (self.condition is False)


def judge(compiled: CompiledTrigger, envelope: Mapping[str, Any], now: datetime) -> Judgement:
    """Compare an event with the pattern, the criteria and the condition of a trigger."""
    matches, clauses = explain_match(compiled, envelope, now)
    criteria = compiled.criteria.explain(envelope, now) if compiled.criteria is not None else []
    verdict = compiled.evaluate_conditions(envelope, now) if matches else None
    condition = problem = None
    if verdict is not None and compiled.condition is not None and all(one.matched for one in criteria):
        condition, problem = verdict.matched, verdict.problem
    matched = matches if verdict is None else verdict.matched
    return Judgement(matched, [*clauses, *criteria], condition, problem)


def render_input(
    compiled: CompiledTrigger, envelope: Mapping[str, Any], get_function: GetFunction
) -> tuple[dict[str, Any] | None, str | None]:
    """Return the input that the function gets for an event by itself, and what is wrong with it.

    The function may be missing or disabled, the template or a key of flow control may have no value for the event, and
    the input may not fit the function.
    """
    made: dict[str, Any] | None = None
    try:
        target = get_function(*dependencies.parse_reference(compiled.function))
        check_enabled(target["name"], target["number"], target["state"])
        rendered = SingleEventInput(compiled, envelope).render(target["parameters"])
        _check_keys(compiled, envelope)
        made = rendered
        json_schema.check(target["input_schema"], made, f"input of {target['name']} v{target['number']}")
    except FunctoryError as error:
        return made, error_text(error)
    return made, None


def dry_run(
    row: Mapping[str, Any], envelope: Mapping[str, Any], now: datetime, get_function: GetFunction
) -> dict[str, Any]:
    """Return what the trigger would decide about an event by itself.

    Guards need a real trigger chain, and flow control the events around it: ``undecided`` names the controls that
    decide after this.
    """
    compiled = compile_definition(trigger_row.from_mapping(row))
    found = judge(compiled, envelope, now)
    answer: dict[str, Any] = {
        "trigger": row["name"],
        "version": row["version"],
        "fires": found.matched,
        "clauses": [asdict(clause) for clause in found.clauses],
        "condition": None,
        "function": compiled.function,
        "input": None,
        "problem": None,
        "undecided": [
            *(["composite"] if compiled.composite is not None else []),
            *sorted(row["definition"].get("flow") or {}),
        ],
    }
    if found.condition is not None and compiled.condition is not None:
        answer["condition"] = {
            "text": compiled.condition.text,
            "holds": found.condition,
            "problem": found.problem,
        }
    if answer["fires"]:
        answer["input"], problem = render_input(compiled, envelope, get_function)
        if problem is not None:
            return answer | {"fires": False, "problem": problem}
    if answer["fires"] and row["state"] != "enabled":
        promote, resume = f"functory trigger promote {row['name']}", f"functory trigger resume {row['name']}"
        problem = f"the trigger is {row['state']}; {promote if row['state'] == 'shadow' else resume}"
        answer |= {"fires": False, "problem": problem}
    return answer


def error_text(error: FunctoryError) -> str:
    """Return an error on one line."""
    return ": ".join(part.replace("\n", "; ") for part in (error.what, error.why) if part)


def _check_keys(compiled: CompiledTrigger, envelope: Mapping[str, Any]) -> None:
    """Evaluate all keys of flow control. Raises :class:`Invalid` when one has no value for the event."""
    compiled.flow.evaluate(envelope)
    control = compiled.flow.debounce or compiled.flow.batch
    if control is not None:
        key_of_event(control.key, envelope)
    if compiled.composite is not None:
        compiled.composite.key_and_parts(envelope, matching_parts(compiled, envelope) or [0])

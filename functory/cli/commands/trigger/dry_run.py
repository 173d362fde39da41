"""``functory trigger test``: the decision of a trigger about an event, clause by clause. Nothing is started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from functory.cli.input import values
from functory.engine.errors import FunctoryError
from functory.engine.events import store as event_store
from functory.engine.executions.start import check_enabled
from functory.engine.functions import dependencies
from functory.engine.serialization import json_schema
from functory.terminal import console
from functory.terminal.console import CommandOutput
from functory.triggers.analysis.event_explanation import explain_match
from functory.triggers.definition import CompiledTrigger, SingleEventInput, compile_definition
from functory.triggers.flow_control.debounce_batch import key_of_event
from functory.triggers.routing.decision import matching_parts

if TYPE_CHECKING:
    from functory.client import Functory


def read_event(engine: Functory, reference: str) -> dict[str, Any]:
    """Return the envelope of a stored event, or of a file, completed with defaults."""
    if re.fullmatch(r"[0-9a-fA-F-]{36}", reference):
        return event_store.envelope(engine.events.get(reference))
    found = values.read_json_object(reference if reference == "-" else f"@{reference}", "the event")
    base = {
        "specversion": "1.0",
        "id": engine.database.new_id(),
        "source": "/functory/cli",
        "time": console.to_json_value(engine.database.clock.now()),
        "datacontenttype": "application/json",
        "data": None,
        "functorydepth": 0,
    }
    return base | found


def dry_run(engine: Functory, row: Mapping[str, Any], envelope: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the trigger would decide about an event by itself.

    Guards need a real trigger chain, and flow control the events around it: ``undecided`` names the controls that
    decide after this.
    """
    compiled = compile_definition(row)
    now = engine.database.clock.now()
    matches, clauses = explain_match(compiled, envelope, now)
    answer: dict[str, Any] = {
        "trigger": row["name"],
        "version": row["version"],
        "fires": matches,
        "clauses": [asdict(clause) for clause in clauses],
        "condition": None,
        "function": compiled.function,
        "input": None,
        "problem": None,
        "undecided": [
            *(["composite"] if compiled.composite is not None else []),
            *sorted(row["definition"].get("flow") or {}),
        ],
    }
    criteria = compiled.criteria.explain(envelope, now) if compiled.criteria is not None else []
    answer["clauses"] += [asdict(clause) for clause in criteria]
    verdict = compiled.evaluate_conditions(envelope, now) if matches else None
    if verdict is not None:
        answer["fires"] = verdict.matched
    if verdict is not None and compiled.condition is not None and all(clause.matched for clause in criteria):
        answer["condition"] = {
            "text": compiled.condition.text,
            "holds": verdict.matched,
            "problem": verdict.problem,
        }
    if answer["fires"]:
        try:
            target = engine.functions.get(*dependencies.parse_reference(compiled.function))
            check_enabled(target)
            answer["input"] = SingleEventInput(compiled, envelope).render(target["parameters"])
            _check_keys(compiled, envelope)
        except FunctoryError as error:
            return answer | {"fires": False, "problem": _error_text(error)}
        try:
            json_schema.check(
                target["input_schema"], answer["input"], f"input of {target['name']} v{target['number']}"
            )
        except FunctoryError as error:
            return answer | {"fires": False, "problem": _error_text(error)}
    if answer["fires"] and row["state"] != "enabled":
        remedy = (
            f"functory trigger promote {row['name']}"
            if row["state"] == "shadow"
            else f"functory trigger resume {row['name']}"
        )
        answer |= {
            "fires": False,
            "problem": f"the trigger is {row['state']}; {remedy}",
        }
    return answer


def _check_keys(compiled: CompiledTrigger, envelope: Mapping[str, Any]) -> None:
    """Evaluate all keys of flow control. Raises :class:`Invalid` when one has no value for the event."""
    compiled.flow.evaluate(envelope)
    control = compiled.flow.debounce or compiled.flow.batch
    if control is not None:
        key_of_event(control.key, envelope)
    if compiled.composite is not None:
        compiled.composite.key_and_parts(envelope, matching_parts(compiled, envelope) or [0])


def _error_text(error: FunctoryError) -> str:
    return ": ".join(part.replace("\n", "; ") for part in (error.what, error.why) if part)


def draw(out: CommandOutput, row: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Print the decision for people."""
    out.styled(
        (f"{row['name']} v{row['version']} ", "bold"),
        (f"would run {answer['function']}", "green") if answer["fires"] else ("would not fire", "yellow"),
    )
    for clause in answer["clauses"]:
        out.clause(clause)
    condition = answer["condition"]
    if condition is not None:
        found = condition["problem"] or ("true" if condition["holds"] else "false")
        out.clause(
            {"matched": condition["holds"], "path": "when", "expected": condition["text"], "found": found}
        )
    if answer["fires"] and answer["undecided"]:
        controls = ", ".join(answer["undecided"])
        out.styled(
            ("  not tested ", "bold"),
            (f"{controls}: these look at other events too; functory trigger backtest {row['name']}", ""),
        )
    if answer["problem"]:
        out.styled(("  ✗ ", "red"), (answer["problem"], ""))
    if answer["input"] is not None:
        out.styled(("  input ", "bold"), (console.short_json(answer["input"], 2000), ""))

"""What follows the success of a step: its directive takes effect, in the transaction that stores its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access.grants import Grants
from functory.engine.agents import calls, directives, meters, progress, redaction, tools
from functory.engine.agents.agent_fields import Limits
from functory.engine.agents.calls import Caller
from functory.engine.agents.directives import (
    Again,
    AskModel,
    AskPerson,
    AwaitProposal,
    Directive,
    Done,
    Fail,
    Join,
    Wanted,
)
from functory.engine.agents.requests import Request
from functory.engine.database.schema import approval, proposal
from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError, Invalid, Refused
from functory.engine.events.causation import Cause
from functory.engine.events.store import as_id
from functory.engine.executions import start
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.executions.runs import (
    answers,
    begin,
    consent,
    joins,
    metric_counts,
    recorded,
    rows,
    transitions,
)
from functory.engine.functions import annotations, versions
from functory.engine.functions.version_row import VersionRow
from functory.engine.serialization import json_codec
from functory.engine.settings import Settings

# An unanswered question ends after this time.
USUAL_EXPIRES = 7 * 86_400.0
# Characters of a request that are kept of a rerun that would have asked it.
MAX_SHOWN = 32_000
AGENT = "agent:"


@dataclass(frozen=True)
class Step:
    """A step that has succeeded: its run (locked), its execution before its end, and what its code was granted."""

    run: dict[str, Any]
    row: ExecutionRow
    grants: Grants
    settings: Settings

    @property
    def cause(self) -> Cause:
        return Cause.from_row(self.row)


def after_success(tx: Tx, row: ExecutionRow, result: Any, grants: Grants, settings: Settings) -> None:
    """Go on with the run of a step or of a tool that has succeeded with ``result``. ``row`` is the execution before
    its end.
    """
    if row.cause != transitions.STEP:
        transitions.after_end(tx, row, "succeeded", None)
        return
    own = transitions.of_step(tx, row.id)
    if own is None:
        return
    step = Step(own, row, grants, settings)
    try:
        parsed = directives.parse(result)
        if parsed.has_memo:
            rows.change(tx, own, memo=parsed.memo)
        asked = progress.hash_of(directives.without_memo(result))
        paused = isinstance(parsed.directive, Again) and parsed.directive.seconds > 0
        rows.change_step(tx, own, asked_hash=asked, paused=paused)
        _carry_out(tx, step, parsed.directive)
    except (Invalid, Refused) as error:
        problem = {"state": "succeeded", "type": type(error).__name__, "message": error.reason}
        transitions.go_on_with_problem(tx, own, problem, step.cause)


def _carry_out(tx: Tx, step: Step, directive: Directive) -> None:
    own, cause = step.run, step.cause
    if isinstance(directive, Again):
        transitions.begin(tx, own, "again", None, cause, delay=directive.seconds)
    elif isinstance(directive, AskModel):
        _ask_model(tx, step, directive)
    elif isinstance(directive, AskPerson):
        _ask_person(tx, step, directive)
    elif isinstance(directive, Join):
        _join(tx, step, directive.kind, directive.calls, directive.need)
    elif isinstance(directive, AwaitProposal):
        _await_proposal(tx, step, directive.id)
    elif isinstance(directive, Fail):
        transitions.fail(tx, own, {"message": directive.reason}, cause)
    else:
        _done(tx, step, directive)


def _ask_model(tx: Tx, step: Step, directive: AskModel) -> None:
    own, request = step.run, directive.request
    if request.model is None:
        named = own["definition"].get("model")
        granted = [name for name in step.grants.models if name != "*"]
        model = named or (granted[0] if len(granted) == 1 else None)
        if model is None:
            raise Invalid(
                "the request names no model", "neither does the agent", 'step.model(…, model="small")'
            )
        request = replace(request, model=model)
    elif request.model != own["definition"].get("model") and not step.grants.allows_model(request.model):
        raise Refused(
            f"{own['function']} may not ask the model {request.model[:80]}",
            "neither the function nor its agent declares it",
        )
    if directive.tool_names:
        described = [_described(tx, own, name) for name in directive.tool_names]
        request = replace(request, tools=[*request.tools, *described])
    caller = Caller(own["root_id"], own["function"], step.row.id, own["agent"], own["user_name"])
    redact = redaction.redaction(step.settings.llm_redact)
    if recorded.source_of(own) is not None and _from_record(tx, step, request, redact):
        return
    call = calls.queue(tx, request, caller, step.settings, redact, number=1)
    rows.wait_for(tx, own, "call", [call["id"]])
    rows.change(tx, own, state="waiting_model", pending={"kind": "model", "call_id": call["id"]})


def _from_record(tx: Tx, step: Step, request: Request, redact: redaction.Redact) -> bool:
    """Go on with the recorded answer of a rerun, or end a rerun that asks no model. False: ask the model."""
    own = step.run
    answer = recorded.model_answer(tx, own, calls.hash_of(request, redact))
    if answer is not None:
        rows.change(tx, own, errors=0)
        transitions.begin(tx, own, "model", answer, step.cause)
        return True
    source = recorded.source_of(own)
    if source is None or source["models"] == "live":
        return False
    asked = json_codec.dumps(redact(request.content()))
    detail = {
        "message": f"step {own['step']} asks what the recorded run did not ask",
        "differs": {"call": recorded.call_of_step(tx, own), "asked": asked[:MAX_SHOWN]},
    }
    transitions.fail(tx, own, detail, step.cause)
    return True


def _described(tx: Tx, own: Mapping[str, Any], name: str) -> dict[str, Any]:
    consent.check_allowed(tx, own, name)
    version = versions.load(tx, name, None)
    if version is None:
        raise Invalid(
            f"there is no tool {name[:80]!r}", "no function has this name", "functory function list"
        )
    return tools.described(version, annotations.description_of(tx, name))


def _ask_person(tx: Tx, step: Step, directive: AskPerson) -> None:
    own = step.run
    known = recorded.person_answer(tx, own, directive.question)
    if known is not None:
        transitions.begin(tx, own, "answer", known, step.cause)
        return
    source = recorded.source_of(own)
    if source is not None and source["people"] == "recorded":
        detail = {"message": f"step {own['step']} asks a person what the recorded run did not ask"}
        transitions.fail(tx, own, detail, step.cause)
        return
    payload = {"question": directive.question, "choices": directive.choices}
    row = _new_question(tx, step, "ask", payload, directive.expires or USUAL_EXPIRES)
    tx.insert(approval, [row])
    metric_counts.asked(tx, row["kind"])
    rows.wait_for(tx, own, "approval", [row["id"]])
    pending = {"kind": "answer", "approval_id": row["id"]}
    rows.change(tx, own, state="waiting_person", pending=pending, waiting_since=tx.now)
    asked = {"approval_id": row["id"], "question": directive.question, "choices": directive.choices}
    rows.emit(tx, own, "waiting", asked, step.cause)


def _await_proposal(tx: Tx, step: Step, id_: str) -> None:
    own = step.run
    found = tx.first(sa.select(proposal).where(proposal.c.id == as_id(id_, "proposal")))
    if found is None or found["root_id"] != own["root_id"]:
        raise Invalid(
            f"there is no proposal {id_[:80]!r} of this run", try_="functions.propose(source, tests=[...])"
        )
    if found["ended_at"] is not None:
        transitions.begin(tx, own, "proposal", answers.about_proposal(tx, found), step.cause)
        return
    rows.wait_for(tx, own, "proposal", [found["id"]])
    pending = {"kind": "proposal", "proposal_id": found["id"]}
    rows.change(tx, own, state="waiting_proposal", pending=pending, waiting_since=tx.now)


def _new_question(
    tx: Tx, step: Step, kind: str, payload: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    return {
        "id": tx.new_id(),
        "kind": kind,
        "state": "pending",
        "root_id": step.run["root_id"],
        "run_id": step.run["id"],
        "execution_id": step.row.id,
        "payload": dict(payload),
        "requested_at": tx.now,
        "expires_at": tx.now + timedelta(seconds=seconds),
    }


def _done(tx: Tx, step: Step, directive: Done) -> None:
    own = step.run
    checks = own["definition"].get("checks") or []
    if not checks:
        transitions.succeed(tx, own, directive.value, None, step.cause)
        return
    arguments = {"result": directive.value, "memo": own["memo"]}
    wanted = [Wanted(name, arguments) for name in checks]
    _join(tx, step, "checks", wanted, "all", value=directive.value)


def _join(tx: Tx, step: Step, kind: str, wanted: Any, need: str, **more: Any) -> None:
    """Start the calls of a step. A call that cannot be started has an error as its result."""
    own = step.run
    counted = {"tools": "tool_calls", "children": "children"}.get(kind)
    reached = meters.take(tx, own["root_id"], **{counted: len(wanted)}) if counted else None
    if reached is not None:
        transitions.stop(tx, own, reached.limit, reached.sentence(), step.cause)
        return
    asked: list[dict[str, Any]] = []
    executions: list[dict[str, Any]] = []
    questions: list[dict[str, Any]] = []
    runs: list[str] = []
    for number, one in enumerate(wanted, 1):
        call = {"id": one.id or f"call_{number}", "name": one.name}
        try:
            if kind == "children" and one.name.startswith(AGENT):
                name = one.name.removeprefix(AGENT)
                if (known := recorded.child_result(tx, own, name, one)) is not None:
                    call["recorded"] = known
                    asked.append(call)
                    continue
                call["target"] = _child_run(tx, step, one)
                runs.append(call["target"])
            else:
                row, version = _child(tx, step, one, is_check=kind == "checks")
                if kind != "checks" and (known := recorded.tool_result(tx, own, version, row["input"])):
                    call["recorded"] = known
                    asked.append(call)
                    continue
                if kind != "checks" and _needs_person(tx, own, version, row["input"]):
                    questions.append(_consent(tx, step, version, row["input"]))
                    call["approval"] = questions[-1]["id"]
                else:
                    executions.append(row)
                    call["target"] = row["id"]
        except FunctoryError as error:
            call["error"] = {"state": "refused", "type": type(error).__name__, "message": error.reason}
        asked.append(call)
    rows.wait_for(tx, own, "run", runs)
    pending = {"kind": kind, "need": need, "calls": asked, **more}
    if len(executions) + len(runs) + len(questions) == 0:
        given = joins.gathered(tx, pending)
        failed = next((one for one in given["results"] if not one["ok"]), None)
        if failed is None or any(one["ok"] for one in given["results"]):
            rows.change(tx, own, errors=0)
            transitions.begin(tx, own, kind, given, step.cause)
            return
        problem = {"state": "refused", "type": "Refused", "message": failed["error"]["message"]}
        if kind == "checks":
            transitions.fail(tx, own, problem, step.cause)
            return
        errors = own["errors"] + 1
        rows.change(tx, own, errors=errors)
        if errors >= Limits.of(own["definition"]).errors:
            transitions.fail(tx, own, {**problem, "errors": errors}, step.cause)
        else:
            transitions.begin(tx, own, kind, given, step.cause)
        return
    if not transitions.take_executions(tx, own, len(executions), step.cause):
        return
    start.write(tx, executions)
    rows.wait_for(tx, own, "execution", [row["id"] for row in executions])
    rows.wait_for(tx, own, "approval", [row["id"] for row in questions])
    tx.insert(approval, questions)
    if questions:
        rows.change(tx, own, state="waiting_person", pending=pending, waiting_since=tx.now)
        for row in questions:
            metric_counts.asked(tx, row["kind"])
            asked_for = {"approval_id": row["id"], "question": _question_about(row), "choices": None}
            rows.emit(tx, own, "waiting", asked_for, step.cause)
    else:
        rows.change(tx, own, state="waiting_children", pending=pending)
    tx.wake("executions")


def _needs_person(tx: Tx, own: Mapping[str, Any], version: VersionRow, arguments: Mapping[str, Any]) -> bool:
    if not consent.is_needed(tx, own["definition"], version):
        return False
    return not tools.is_always_allowed(own["allowed"], version.name, arguments)


def _consent(tx: Tx, step: Step, version: VersionRow, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question whether a tool may run."""
    payload = {
        "tool": version.name,
        "version": version.number,
        "arguments": dict(arguments),
        "effect": consent.effect_of(tx, version),
    }
    return _new_question(tx, step, "tool", payload, USUAL_EXPIRES)


def _question_about(row: Mapping[str, Any]) -> str:
    return f"May it run {row['payload']['tool']}?"


def _child(tx: Tx, step: Step, wanted: Wanted, *, is_check: bool) -> tuple[dict[str, Any], VersionRow]:
    """Return the execution of a tool, a function or a check, and its version. Raises :class:`FunctoryError` for a
    wrong call.
    """
    if not is_check:
        consent.check_allowed(tx, step.run, wanted.name)
    version = versions.load(tx, wanted.name, None)
    if version is None:
        raise start.missing_version_error(tx, wanted.name, None)
    start.check_enabled(version.name, version.number, version.state)
    return transitions.tool_row(tx, step.row, version, wanted.arguments), version


def _child_run(tx: Tx, step: Step, wanted: Wanted) -> str:
    own, name = step.run, wanted.name.removeprefix(AGENT)
    if name not in own["definition"].get("agents", []):
        raise Refused(f"this run may not start the agent {name[:80]}", "its agent does not name it in agents")
    arguments = wanted.arguments if isinstance(wanted.arguments, Mapping) else {}
    return begin.child(tx, own, step.row, name, arguments, step.settings)

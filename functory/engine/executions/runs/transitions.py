"""The transitions of runs: the next step, and the ends.

Each runs in the transaction that ends what came before: an execution, a call of a model, a decision, another run. The
steps of a run are siblings, children of its first one: a long run does not reach the guard of depth. Its own limits
bound it: steps, time, the budget of its tree. A limit that stops a run is recorded with its reason, and never as a
success.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.engine.agents import meters, progress, tools
from functory.engine.agents.agent_fields import Limits
from functory.engine.database.schema import run_step
from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError
from functory.engine.events.causation import Cause, CausingExecution
from functory.engine.executions import root_budget, start
from functory.engine.executions.cancel_row import cancel_row
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.executions.runs import joins, metric_counts, rows
from functory.engine.functions import versions
from functory.engine.functions.version_row import VersionRow
from functory.engine.serialization import json_schema

# The cause of a step, and of an execution that a step waits for (table execution).
STEP, TOOL = "step", "tool"
CAUSES = (STEP, TOOL)
# Why a run was stopped.
STOP_REASONS = (
    "usd", "tokens", "calls", "tool_calls", "children", "seconds", "steps", "executions", "loop", "no_progress",
)  # fmt: skip


def after_end(tx: Tx, row: ExecutionRow, state: str, error: Mapping[str, Any] | None) -> None:
    """Go on with the run of an execution that ends as ``state``. ``row`` is the execution before its end. Nothing
    happens for one that neither is a step nor was started by one.

    The success of a step is :func:`functory.engine.executions.runs.advance.after_success`.
    """
    if row.cause == TOOL:
        after_targets(tx, [row.id], Cause.from_row(row))
    elif row.cause == STEP:
        own = of_step(tx, row.id)
        if own is None:
            return
        if state == "cancelled":
            cancel(tx, own, (error or {}).get("message", ""), Cause.from_row(row))
        else:
            problem = {"state": state, **{key: (error or {}).get(key) for key in ("type", "message")}}
            go_on_with_problem(tx, own, problem, Cause.from_row(row))


def lock_runs(tx: Tx, causes: Mapping[str, str]) -> None:
    """Lock the runs that executions (their causes by id) belong to, in the order of the runs' ids. Who ends a run locks
    it before its executions; who ends executions does the same.
    """
    tools_ = [id_ for id_, cause in causes.items() if cause == TOOL]
    steps = [id_ for id_, cause in causes.items() if cause == STEP]
    runs = {wait["run_id"] for wait in rows.waiters(tx, tools_)}
    for id_ in steps:
        step = rows.step_of(tx, id_)
        runs |= set() if step is None else {step["run_id"]}
    for id_ in sorted(runs):
        rows.lock(tx, id_)


def of_step(tx: Tx, execution_id: str) -> dict[str, Any] | None:
    """Return the open run whose newest step an execution is, locked; else None."""
    step = rows.step_of(tx, execution_id)
    if step is None:
        return None
    own = rows.lock(tx, step["run_id"])
    return own if own["ended_at"] is None and own["step"] == step["number"] else None


def go_on_with_problem(tx: Tx, own: dict[str, Any], problem: Mapping[str, Any], cause: Cause | None) -> None:
    """An error is an observation: the next step gets it, until there were too many in a row."""
    errors = own["errors"] + 1
    if errors >= Limits.of(own["definition"]).errors:
        rows.change(tx, own, errors=errors)
        fail(tx, own, {**problem, "errors": errors}, cause)
        return
    rows.change(tx, own, errors=errors)
    begin(tx, own, "problem", {"kind": "problem", "error": dict(problem)}, cause)


def after_targets(tx: Tx, targets: Sequence[str], cause: Cause | None) -> None:
    """Go on with the runs that wait for executions or runs, which have ended in this transaction."""
    for wait in rows.waiters(tx, targets):
        own = rows.lock(tx, wait["run_id"])
        if own["ended_at"] is not None or own["pending"] is None:
            continue
        left = rows.stop_waiting(tx, own, wait["target_id"])
        if left and not (own["pending"].get("need") == "any" and joins.is_success(tx, wait)):
            continue
        go_on_with_results(tx, own, cause)


def go_on_with_results(tx: Tx, own: dict[str, Any], cause: Cause | None) -> None:
    """Go on with a locked run whose calls have ended, or are not needed any more."""
    pending = own["pending"]
    given = joins.gathered(tx, pending)
    _cancel_targets(tx, rows.close(tx, own), own)
    if pending["kind"] == "checks":
        _after_checks(tx, own, pending, given, cause)
        return
    if any(result["ok"] for result in given["results"]):
        rows.change(tx, own, errors=0)
    begin(tx, own, pending["kind"], given, cause)


def _after_checks(
    tx: Tx, own: dict[str, Any], pending: Mapping[str, Any], given: Mapping[str, Any], cause: Cause | None
) -> None:
    """A run is done when its checks say so: not when a model says so."""
    wrong = [result for result in given["results"] if not joins.has_passed(result)]
    if not wrong:
        succeed(tx, own, pending["value"], True, cause)
        return
    errors = own["errors"] + 1
    rows.change(tx, own, errors=errors)
    if errors >= Limits.of(own["definition"]).errors:
        detail = {"message": f"{wrong[0]['name']} does not accept the result", "checks": given["results"]}
        _end(tx, own, "needs_human", cause, detail=detail, result=pending["value"], checked=False)
        return
    begin(tx, own, "checks", given, cause)


def begin(
    tx: Tx,
    own: dict[str, Any],
    kind: str,
    given: Mapping[str, Any] | None,
    cause: Cause | None,
    *,
    delay: float = 0.0,
) -> None:
    """Start the next step of a locked run, or end the run where a limit does not allow another one.

    ``kind`` names what the step is given (table ``run_step``); ``cause`` is that of the event of such an end.
    """
    if own["pause_requested_at"] is not None:
        pending = {"kind": kind, "given": given, "delay": delay, "go_on": True}
        rows.change(tx, own, state="paused", pending=pending)
        rows.emit(tx, own, "paused", {}, cause)
        return
    steps = Limits.of(own["definition"]).steps
    if own["step"] >= steps:
        stop(tx, own, "steps", f"it has made {own['step']:,} steps, and may make no more", cause)
        return
    if own["waiting_since"] is not None:
        waited = (tx.now - own["waiting_since"]).total_seconds()
        meters.extend_deadline(tx, own["root_id"], waited)
    if rows.meter_of(tx, own["root_id"])["deadline_at"] <= tx.now:
        stop(tx, own, "seconds", "the time of its tree is over", cause)
        return
    noticed = seen(own, given)
    notice = _look(tx, own, noticed, cause)
    if own["ended_at"] is not None:
        return
    if notice is not None and given is not None:
        given = {**given, "notice": notice}
    if not take_executions(tx, own, 1, cause):
        return
    first = rows.first_execution(tx, own["id"])
    try:
        row = step_row(
            tx,
            own,
            given,
            depth=first["depth"] + 1,
            chain=first["chain"],
            parent_id=own["id"],
            priority=first["priority"],
            delay=delay,
        )
    except FunctoryError as error:
        fail(tx, own, {"message": error.reason}, cause)
        return
    start.write(tx, [row])
    was_waiting = own["state"] in ("waiting_person", "waiting_proposal")
    write_step(tx, own, kind, row["id"], noticed)
    rows.change(tx, own, state="running", pending=None, waiting_since=None)
    if was_waiting:
        rows.emit(tx, own, "resumed", {}, cause)
    tx.wake("executions")


def take_executions(tx: Tx, own: dict[str, Any], count: int, cause: Cause | None) -> bool:
    """Take executions from the budget of the run's tree. False when it does not allow them: the run is stopped."""
    if not count:
        return True
    root = own["root_id"]
    used, maximum = root_budget.take(tx, {root: count}, 0)()[root]
    if used + count <= maximum:
        return True
    root_budget.give_back(tx, {root: count})
    stop(tx, own, "executions", f"its tree has caused {used:,} executions, and may cause {maximum:,}", cause)
    return False


def seen(own: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the progress detectors see of a step that is about to start."""
    plan = own["memo"].get("plan") if isinstance(own["memo"], Mapping) else None
    return {
        "given_hash": progress.hash_of(given),
        "plan_hash": progress.hash_of(plan),
        "error_hash": progress.error_of(given),
    }


def _look(tx: Tx, own: dict[str, Any], noticed: Mapping[str, Any], cause: Cause | None) -> str | None:
    """Let the progress detectors look at a run before its next step. Returns a notice for that step; a run that makes
    no progress after a notice is stopped.
    """
    steps = [progress.Step.of(row) for row in rows.last_steps(tx, own, progress.WINDOW)]
    number = own["step"] + 1
    hashes = noticed["given_hash"], None, noticed["plan_hash"], noticed["error_hash"]
    steps.append(progress.Step(number, *hashes))
    found = progress.look(steps)
    if found is not None and found.stops:
        detail = {"detector": found.detector, "steps": list(found.steps)}
        stop(tx, own, found.reason, found.message, cause, **detail)
        return None
    if found is not None:
        return found.message
    spent = rows.meter_of(tx, own["root_id"])
    used = {
        name: (spent[f"{name}_spent"] + spent[f"{name}_reserved"]) / spent[f"{name}_limit"]
        for name in ("usd", "tokens")
        if spent[f"{name}_limit"]
    }
    if spent["calls_limit"]:
        used["calls"] = spent["calls"] / spent["calls_limit"]
    used["steps"] = number / Limits.of(own["definition"]).steps
    return progress.burn(used)


def write_step(tx: Tx, own: dict[str, Any], kind: str, execution_id: str, noticed: Mapping[str, Any]) -> None:
    """Count a step, and store its row; ``noticed`` is what the progress detectors see of it."""
    rows.change(tx, own, step=own["step"] + 1)
    row = {
        "run_id": own["id"],
        "number": own["step"],
        "kind": kind,
        "execution_id": execution_id,
        **noticed,
        "asked_hash": None,
        "paused": False,
        "created_at": tx.now,
    }
    tx.insert(run_step, [row])
    metric_counts.step(tx, kind)


def step_row(
    tx: Tx,
    own: Mapping[str, Any],
    given: Mapping[str, Any] | None,
    *,
    depth: int,
    chain: Sequence[Mapping[str, Any]],
    parent_id: str | None,
    priority: int | None = None,
    delay: float = 0.0,
    id_: str | None = None,
) -> dict[str, Any]:
    """Return the execution of a run's next step. Raises :class:`FunctoryError` when its function cannot run it."""
    version = versions.load_start(tx, own["function"], None)
    if version is None:
        raise start.missing_version_error(tx, own["function"], None)
    start.check_enabled(version.name, version.number, version.state)
    input_: dict[str, Any] = {"memo": own["memo"], "given": given}
    if "run" in (version.input_schema or {}).get("properties", {}):
        input_["run"] = {"id": own["id"], "step": own["step"] + 1, "goal": own["goal"], "agent": own["agent"]}
    json_schema.check(version.input_schema, input_, f"input of {own['function']} v{version.number}")
    return start.new_row(
        tx,
        version,
        input_,
        cause=STEP,
        root_id=own["root_id"],
        depth=depth,
        chain=chain,
        parent_id=parent_id,
        priority=priority,
        delay=delay,
        id_=id_,
    )


def tool_row(tx: Tx, step: CausingExecution, version: VersionRow, arguments: Any) -> dict[str, Any]:
    """Return the execution of a tool, a function or a check for a step, whose execution is ``step``. Raises
    :class:`FunctoryError` for wrong arguments.
    """
    return start.new_row(
        tx,
        version.as_start(),
        tools.checked_arguments(version, arguments),
        cause=TOOL,
        root_id=step.root_id,
        depth=step.depth + 1,
        chain=step.chain,
        parent_id=step.id,
    )


def succeed(tx: Tx, own: dict[str, Any], value: Any, checked: bool | None, cause: Cause | None) -> None:
    """The run has its result. ``checked`` is None for an agent without checks."""
    _end(tx, own, "succeeded", cause, result=value, checked=checked)


def fail(tx: Tx, own: dict[str, Any], detail: Mapping[str, Any], cause: Cause | None) -> None:
    """The run cannot go on."""
    _end(tx, own, "failed", cause, detail=dict(detail))


def stop(
    tx: Tx, own: dict[str, Any], reason: str, message: str, cause: Cause | None, **evidence: Any
) -> None:
    """A limit, or a progress detector, does not let the run go on."""
    _end(tx, own, "stopped", cause, reason=reason, detail={"message": message, **evidence})


def cancel(tx: Tx, own: dict[str, Any], message: str, cause: Cause | None = None) -> None:
    """A person ends the run, or the run that waited for it. Its open step is cancelled, too."""
    open_step = rows.newest_step(tx, own)
    _end(tx, own, "cancelled", cause, detail={"message": message})
    cancel_row(tx, open_step["execution_id"], message.removeprefix("cancelled by ").removeprefix("the user "))


def _end(
    tx: Tx,
    own: dict[str, Any],
    state: str,
    cause: Cause | None,
    *,
    reason: str | None = None,
    detail: Mapping[str, Any] | None = None,
    result: Any = None,
    checked: bool | None = None,
) -> None:
    waited_for = rows.close(tx, own)
    rows.change(
        tx,
        own,
        state=state,
        reason=reason,
        detail=detail,
        result=result,
        checked=checked,
        pending=None,
        pause_requested_at=None,
        waiting_since=None,
        ended_at=tx.now,
    )
    data = {"state": state, "reason": reason, "detail": detail, "checked": checked}
    rows.emit(tx, own, state, data | ({"result": result} if state == "succeeded" else {}), cause)
    metric_counts.ended(tx, own)
    tx.wake("finished")
    _cancel_targets(tx, waited_for, own)
    if own["parent_run_id"] is not None:
        after_targets(tx, [own["id"]], cause)


def _cancel_targets(tx: Tx, targets: Sequence[str], own: Mapping[str, Any]) -> None:
    """Cancel what a run does not wait for any more: executions, and other runs, whose ids are those of their first
    executions.
    """
    message = f"cancelled by run {own['id']}"
    for target in targets:
        other = rows.lock_if_run(tx, target)
        if other is None:
            cancel_row(tx, target, f"run {own['id']}")
        elif other["ended_at"] is None:
            cancel(tx, other, message)

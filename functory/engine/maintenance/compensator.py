"""The compensator: runs the plans of failed executions, one step after the other, the newest first.

A row's states; every arrow is one transaction, under the lock of the execution that failed (the *saga*)::

    waiting → pending             the step, which was still open, has succeeded after all
    waiting → skipped             it has not, or nothing undoes it (then its own steps follow it in the plan)
    pending → running             the execution that undoes it is queued
    running → done, failed        that execution has ended
    pending → failed              it cannot be started: what undoes it is missing, or what it needs is
    failed → pending, skipped     an operator

Any number of processes may call :func:`advance`. A failed row stops its saga until an operator decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import Id, compensation, execution, span
from functory.engine.errors import Conflict, FunctoryError, Invalid, NotFound
from functory.engine.events.store import as_id
from functory.engine.executions import cancellation
from functory.engine.executions import store as execution_store
from functory.engine.executions.compensation import plan as compensation_plan
from functory.engine.executions.compensation import steps
from functory.engine.functions import arguments, dependencies, versions
from functory.engine.serialization import json_schema
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics

# Each finished execution wakes this service; under load it waits this long between two rounds.
COALESCE_SECONDS = 0.05

OPEN = ("waiting", "pending", "running")


@dataclass
class _SagaProgress:
    """What one round changed: rows by their new state, and how the saga ended or stopped."""

    states: Counter[str] = field(default_factory=Counter)
    result: str | None = None


class Compensator(Service):
    """Runs the compensations of failed executions, one step of each plan in a round."""

    name, topic, coalesce_seconds = "compensator", "finished", COALESCE_SECONDS

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        self._database = database
        self._settings = settings

    def run_once(self) -> bool:
        """Advance one batch of plans. True when it was full. Raises :class:`Unavailable`."""
        return advance(self._database, self._settings) >= self._settings.batch_size


def advance(database: Database, settings: Settings) -> int:
    """Advance every saga that can go on: record finished steps, start the next one. Return the number of sagas."""
    with database.read() as tx:
        ready = _ready(tx, settings.batch_size)
    moved = 0
    for saga_id in ready:
        with database.write() as tx:
            progress = _SagaProgress()
            saga = _locked(tx, saga_id, skip=True)
            if saga is not None:
                _advance_saga(tx, saga, progress)
        _count(progress)
        moved += saga is not None
    return moved


class Compensations:
    """An operator's commands on compensation plans."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def plan(self, id_: str) -> list[dict[str, Any]]:
        """The plan of an execution that failed, in the order of compensation; empty when there is none."""
        with self._database.read() as tx:
            return _plan(tx, as_id(id_, "execution"))

    def retry(self, id_: str, *, author: str = "") -> dict[str, Any]:
        """Retry the step that stopped a saga, as a new execution. Return the step's row.

        Raises :class:`NotFound`, and :class:`Conflict` when no step has stopped.
        """
        return self._decide(id_, "pending", author, "")

    def skip(self, id_: str, *, author: str = "", reason: str = "") -> dict[str, Any]:
        """Skip the step that stopped a saga, and go on with the next. Return the step's row.

        Raises as :meth:`retry`.
        """
        return self._decide(id_, "skipped", author, reason)

    def _decide(self, id_: str, state: str, author: str, reason: str) -> dict[str, Any]:
        id_ = as_id(id_, "execution")
        progress = _SagaProgress()
        with self._database.write() as tx:
            saga = _locked(tx, id_)
            if saga is None:
                raise NotFound(f"execution {id_} not found", try_="functory execution list")
            row = next((one for one in _plan(tx, id_) if one["state"] == "failed"), None)
            if row is None:
                raise _not_stuck(tx, saga)
            why = row["problem"] if state == "pending" else f"skipped by {author or 'an operator'}"
            problem = f"{why}: {reason}" if reason else why
            _change(tx, row, progress, state, problem=problem)
            action = "execution.compensate" if state == "pending" else "execution.compensate.skip"
            data = {"step": row["step_id"], "function": row["function"], "position": row["position"]}
            audit.append(tx, author, action, id_, data | ({"reason": reason} if reason else {}))
            _advance_saga(tx, saga, progress)
            (row,) = (one for one in _plan(tx, id_) if one["position"] == row["position"])
        _count(progress)
        return row


def next_step(plan: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, str | None]:
    """The next step of a plan: the row to start, or the state of the saga ("stuck", "compensated").

    Strictly in order: nothing is started while a step is still open, or another one is being undone.
    """
    states = {row["state"] for row in plan}
    if "failed" in states:
        return None, "stuck"
    if states & {"waiting", "running"}:
        return None, None
    pending = next((row for row in plan if row["state"] == "pending"), None)
    return pending, None if pending is not None else "compensated"


def _advance_saga(tx: Tx, saga: Mapping[str, Any], progress: _SagaProgress) -> None:
    """Advance one locked saga by one round."""
    _record_finished(tx, saga, progress)
    plan = _plan(tx, saga["id"])
    if any(row["compensate"] for row in plan):
        because = f"the failure of {saga['function']}, execution {saga['id']}"
        for row in plan:
            if row["state"] == "waiting":
                cancellation.cancel_open(tx, row["step_id"], because)
    following, result = next_step(plan)
    if following is not None:
        try:
            started = _start(tx, saga, following)
            _change(tx, following, progress, "running", execution_id=started, problem=None)
        except FunctoryError as error:
            _stop(tx, saga, following, progress, str(error).replace("\n", "; "))
    elif result == "compensated" and progress.states and any(row["compensate"] for row in plan):
        counted = Counter(row["state"] for row in plan if row["compensate"])
        compensation_plan.emit_event(
            tx, saga, "saga.compensated", {"done": counted["done"], "skipped": counted["skipped"]}
        )
        progress.result = result
    if progress.states:
        # The next step is due at once.
        tx.wake("finished")


def _record_finished(tx: Tx, saga: Mapping[str, Any], progress: _SagaProgress) -> None:
    """Update the rows that wait for an execution's end once it has ended."""
    plan = _plan(tx, saga["id"])
    watched = {
        row["position"]: row["step_id"] if row["state"] == "waiting" else row["execution_id"]
        for row in plan
        if row["state"] in ("waiting", "running")
    }
    if not watched:
        return
    ended = {
        row["id"]: row
        for row in tx.rows(
            sa.select(execution).where(
                execution.c.id.in_(sorted(set(watched.values()))),
                execution.c.state.in_(execution_store.TERMINAL),
            )
        )
    }
    moved = 0
    for row in plan:
        other = ended.get(watched.get(row["position"], ""))
        if other is None:
            continue
        here = dict(row) | {"position": row["position"] + moved}
        if row["state"] == "running":
            if other["state"] == "succeeded":
                _change(tx, here, progress, "done")
            else:
                error = other["error"] or {}
                why = f"{error.get('type', '')}: {error.get('message', '')}".strip(": ")
                _stop(tx, saga, here, progress, f"{other['function']} {_words(other['state'])}: {why}")
        elif other["state"] != "succeeded":
            _change(
                tx, here, progress, "skipped", problem=f"it {_words(other['state'])}; nothing is left to undo"
            )
        elif row["compensate"]:
            _change(tx, here, progress, "pending")
        else:
            _change(tx, here, progress, "skipped", problem="nothing undoes it; its own steps follow")
            moved += _insert_below(tx, saga, here)


def _insert_below(tx: Tx, saga: Mapping[str, Any], row: Mapping[str, Any]) -> int:
    """Insert the steps below a step that has no compensation behind it. Return the number of places that they take."""
    found = steps.find(tx, row["step_id"])
    if not found:
        return 0
    behind = (compensation.c.saga_id == saga["id"], compensation.c.position > row["position"])
    # Twice: each place is taken by one row at a time, while the statement moves them as well.
    tx.execute(sa.update(compensation).where(*behind).values(position=-compensation.c.position - len(found)))
    tx.execute(
        sa.update(compensation)
        .where(compensation.c.saga_id == saga["id"], compensation.c.position < 0)
        .values(position=-compensation.c.position)
    )
    known = any(one["compensate"] for one in _plan(tx, saga["id"]))
    if compensation_plan.add_steps(tx, saga["id"], found, row["position"] + 1) and not known:
        compensation_plan.emit_event(tx, saga, "saga.started", {"state": saga["state"]})
    return len(found)


def _start(tx: Tx, saga: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Queue the execution that undoes a step. Return its id. Raises :class:`FunctoryError` when it cannot start."""
    name, pin = dependencies.parse_reference(row["compensate"])
    version = versions.load(tx, name, pin)
    if version is None:
        raise NotFound(f"the compensation {row['compensate']} does not exist", try_="save it")
    if version["state"] != "enabled":
        raise Conflict(
            f"the compensation {name} is {version['state']}",
            "no executions are started",
            f"functory function activate {name} {version['number']}",
        )
    input_ = _input(tx, saga, row, version)
    json_schema.check(version["input_schema"], input_, f"input of {name} v{version['number']}")
    new = execution_store.new_row(
        tx,
        version,
        input_,
        cause="compensation",
        root_id=saga["root_id"],
        depth=saga["depth"] + 1,
        chain=saga["chain"],
        parent_id=saga["id"],
    )
    # No start deadline: a late compensation is better than none.
    tx.insert(execution, [new | {"expires_at": None}])
    tx.wake("executions")
    return new["id"]


def _input(
    tx: Tx, saga: Mapping[str, Any], row: Mapping[str, Any], version: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of the compensation: the values of the names that it declares as parameters."""
    missing = arguments.missing_compensation_arguments(version["parameters"])
    if missing:
        raise Invalid(
            f"the compensation {row['compensate']} needs {', '.join(missing)}",
            f"it is given {', '.join(arguments.COMPENSATION_ARGUMENTS)} and nothing else",
            f"save {version['name']} with parameters of these names",
        )
    if row["step_seq"]:
        step = tx.first(
            sa.select(span.c.input, span.c.output.label("result")).where(
                span.c.execution_id == row["step_id"],
                span.c.fence == row["step_fence"],
                span.c.seq == row["step_seq"],
            )
        )
    else:
        step = tx.first(
            sa.select(execution.c.input, execution.c.result).where(execution.c.id == row["step_id"])
        )
    if step is None:
        raise NotFound(f"what {row['function']} was given and returned is not there any more")
    known = {
        "input": step["input"],
        "result": step["result"],
        "execution_id": row["step_id"],
        "error": saga["error"],
    }
    wanted = arguments.accepted_compensation_arguments(version["parameters"])
    for name in ("input", "result"):
        if name in wanted and not arguments.is_complete(known[name]):
            raise Invalid(
                f"the {name} of {row['function']} was not recorded whole",
                "it was too large, no JSON, or held a secret",
                f'undo it by hand and skip it; next time call("{row["function"]}", …, durable=True), '
                "and return what the compensation needs as JSON",
            )
    return {name: known[name] for name in wanted}


def _stop(
    tx: Tx, saga: Mapping[str, Any], row: Mapping[str, Any], progress: _SagaProgress, problem: str
) -> None:
    """Record that a step could not be undone: the saga stops until an operator decides."""
    _change(tx, row, progress, "failed", problem=problem)
    data = {
        "position": row["position"],
        "step_id": row["step_id"],
        "step_function": row["function"],
        "compensate": row["compensate"],
        "problem": problem,
    }
    compensation_plan.emit_event(tx, saga, "saga.stuck", data)
    progress.result = "stuck"


def _change(tx: Tx, row: Mapping[str, Any], progress: _SagaProgress, state: str, **values: Any) -> None:
    tx.execute(
        sa.update(compensation)
        .where(compensation.c.saga_id == row["saga_id"], compensation.c.position == row["position"])
        .values(state=state, updated_at=tx.now, **values)
    )
    progress.states[state] += 1


def _plan(tx: Tx, saga_id: str) -> list[dict[str, Any]]:
    return tx.rows(_OF_SAGA, {"saga": saga_id})


def _locked(tx: Tx, saga_id: str, *, skip: bool = False) -> dict[str, Any] | None:
    """Lock the execution that failed, so that one process at a time works on its plan.

    ``skip``: None when another process holds it. The lock is weak enough for compensations to refer to the row.
    """
    statement = sa.select(execution).where(execution.c.id == saga_id)
    statement = statement.with_for_update(key_share=True, skip_locked=skip)
    return tx.first(statement)


def _ready(tx: Tx, limit: int) -> list[str]:
    """Sagas that can be advanced now."""
    return [row["saga_id"] for row in tx.rows(_READY, {"limit": limit})]


def _not_stuck(tx: Tx, saga: Mapping[str, Any]) -> Conflict:
    """The error for a saga in which no step has stopped."""
    what = f"nothing of execution {saga['id']} has stopped"
    plan = _plan(tx, saga["id"])
    if plan:
        counts = Counter(row["state"] for row in plan)
        listed = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        return Conflict(what, f"its compensations: {listed}", f"functory execution show {saga['id']}")
    if saga["cause"] == "compensation":
        return Conflict(
            what, "it is a compensation itself", f"functory execution compensate {saga['parent_id']}"
        )
    why = (
        "it did nothing that is to be undone"
        if saga["state"] in steps.COMPENSATED_STATES
        else f"it is {saga['state']}"
    )
    return Conflict(what, why)


def _count(progress: _SagaProgress) -> None:
    for state, count in progress.states.items():
        metrics.compensations.labels(state).inc(count)
    if progress.result is not None:
        metrics.sagas.labels(progress.result).inc()


def _words(state: str) -> str:
    """A state as the end of a sentence."""
    return {"failed": "failed", "timed_out": "timed out"}.get(state, f"is {state}")


def _can_go_on() -> sa.Select[tuple[Any]]:
    here, other = compensation, compensation.alias("other")
    watched = sa.case(
        (here.c.state == "waiting", here.c.step_id), (here.c.state == "running", here.c.execution_id)
    )

    def beside(*conditions: Any) -> sa.Exists:
        return sa.exists().where(other.c.saga_id == here.c.saga_id, *conditions)

    ended = sa.and_(here.c.state != "pending", execution.c.state.in_(execution_store.TERMINAL))
    # The plan undoes steps, so steps that are still open are stopped.
    to_stop = sa.and_(
        here.c.state == "waiting", execution.c.cancel_requested_at.is_(None), beside(other.c.compensate != "")
    )
    due = sa.and_(
        here.c.state == "pending", sa.not_(beside(other.c.state.in_(("waiting", "running", "failed"))))
    )
    return (
        sa.select(here.c.saga_id)
        .distinct()
        .select_from(here)
        .outerjoin(execution, execution.c.id == watched)
        .where(here.c.state.in_(OPEN))
        .where(sa.or_(ended, to_stop, due))
        .order_by(here.c.saga_id)
        .limit(sa.bindparam("limit", type_=sa.Integer))
    )


# Every scheduler runs it all the time: built once.
_READY = _can_go_on()
_OF_SAGA = (
    sa.select(compensation)
    .where(compensation.c.saga_id == sa.bindparam("saga", type_=Id))
    .order_by(compensation.c.position)
)

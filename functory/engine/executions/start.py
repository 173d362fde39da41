"""The start of an execution: the checks before it, and the row that it writes.

:mod:`functory.engine.executions.start_one` puts the parts together. Triggers, replays and compensations
write the same row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import sqlalchemy as sa

from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import Id, durable_call, execution
from functory.engine.errors import Conflict, FunctoryError, Refused
from functory.engine.events.causation import Cause
from functory.engine.executions import queue_rows, root_budget
from functory.engine.executions.cancel_row import OPEN
from functory.engine.functions import activation, canary_assignment, open_canaries, versions
from functory.engine.functions.analysis import inspection
from functory.engine.functions.open_canaries import Assigned
from functory.engine.functions.version_row import StartVersion
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics

T = TypeVar("T")

MakeInput = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any] | None], Mapping[str, Any]]
"""Makes the input of an execution of the parameters and the input schema of the version that it runs."""

# Built once, because they run with every start.
_KEYED = sa.select(execution).where(execution.c.idempotency_key == sa.bindparam("key"))
_STEP = (
    sa.select(execution)
    .join(durable_call, durable_call.c.execution_id == execution.c.id)
    .where(
        durable_call.c.parent_id == sa.bindparam("parent", type_=Id),
        durable_call.c.step_key == sa.bindparam("key"),
    )
)
_STEP_TAKEN_OVER = (
    sa.update(durable_call)
    .where(
        durable_call.c.parent_id == sa.bindparam("parent", type_=Id),
        durable_call.c.step_key == sa.bindparam("key"),
        durable_call.c.execution_id == sa.bindparam("failed", type_=Id),
    )
    .values(execution_id=sa.bindparam("new", type_=Id))
)

RACED = "another execution has just taken this key"


class KeyTaken(Exception):
    """Another transaction has inserted the same key since this one looked for it."""


def commit(database: Database, work: Callable[[Tx], T], again: Callable[[Tx], T] | None = None) -> T:
    """Commit a start, which may raise :class:`KeyTaken`. Returns its result.

    The other transaction is then committed, so ``again`` (by default ``work``) finds what it has started. Raises
    :class:`Conflict` when its key is taken meanwhile once more.
    """
    with contextlib.suppress(KeyTaken), metrics.transaction("start"):
        return database.group_commit(work)
    try:
        return database.group_commit(again or work)
    except KeyTaken as error:
        raise Conflict(str(error)) from None


def new_row(
    tx: Tx,
    version: StartVersion,
    input_: Mapping[str, Any],
    *,
    cause: str,
    root_id: str | None,
    depth: int,
    chain: Sequence[Mapping[str, Any]],
    trigger_id: str | None = None,
    event_id: str | None = None,
    parent_id: str | None = None,
    replay_of: str | None = None,
    idempotency_key: str | None = None,
    delay: float = 0.0,
    priority: int | None = None,
    id_: str | None = None,
) -> dict[str, Any]:
    """Return the row of a queued execution of ``version``, ready to :func:`write`. Without ``root_id`` it is its own
    root.

    ``delay`` is in seconds.
    """
    limit = version.limits
    if id_ is None:
        for cause_id in (event_id, parent_id):
            if cause_id is not None:
                tx.follow(cause_id)
        id_ = tx.new_id()
    # The same object for all rows of a transaction: its text is made once.
    run_at = tx.now + timedelta(seconds=delay) if delay else tx.now
    return {
        "id": id_,
        "function": version.name,
        "version": version.number,
        "version_id": version.id,
        "cause": cause,
        "trigger_id": trigger_id,
        "event_id": event_id,
        "parent_id": parent_id,
        "replay_of": replay_of,
        "root_id": root_id or id_,
        "depth": depth,
        "chain": list(chain),
        "idempotency_key": idempotency_key,
        "input": dict(input_),
        "state": "queued",
        "attempt": 0,
        "failures": 0,
        "released": 0,
        "max_attempts": limit.attempts(),
        "retries": limit.retries,
        "fence": 0,
        "priority": limit.priority if priority is None else priority,
        "run_at": run_at,
        "has_concurrency": False,
        "throttle": None,
        "expires_at": tx.now + timedelta(seconds=limit.expires) if limit.expires else None,
        "created_at": tx.now,
    }


def assign(tx: Tx, version: StartVersion, id_: str, parent: Cause | None) -> Assigned | None:
    """Return what the open canary of a function chooses for a new execution with this id; None without a canary.
    ``version`` was loaded as the active one. A child has the root and the subject of its parent.
    """
    canary = open_canaries.find(tx, version)
    if canary is None:
        return None
    if parent is None:
        return canary.assign(id_, None)
    return canary.assign(parent.root_id, canary_assignment.subject_of_chain(parent.chain))


def write(tx: Tx, rows: Sequence[dict[str, Any]], *, sent: bool = False) -> None:
    """Insert new executions, and put them into the backlog; with ``sent`` they are in flight instead
    (:func:`functory.engine.executions.queue_rows.add_sent`).
    """
    tx.insert(execution, rows)
    (queue_rows.add_sent if sent else queue_rows.add)(tx, rows)


def find_by_key(tx: Tx, key: str | None, function: str | None) -> dict[str, Any] | None:
    """Return the execution that was started with this key. Raises :class:`Conflict` if it runs another function than
    ``function``; None is any.
    """
    if key is None:
        return None
    known = tx.first(_KEYED, {"key": key})
    if known is not None and function is not None and known["function"] != function:
        raise Conflict(
            "the idempotency_key was used for another function",
            f"it started {known['function']}, execution {known['id']}",
            "take another key",
        )
    return known


def find_step(tx: Tx, parent: Cause | None, step_key: str | None) -> dict[str, Any] | None:
    """Return the execution of a durable call, made by any attempt of the parent, whatever its state."""
    if parent is None or step_key is None:
        return None
    return tx.first(_STEP, {"parent": parent.execution_id, "key": step_key})


def is_done_or_open(step: Mapping[str, Any]) -> bool:
    """Return True when a durable call does not run again: its execution has succeeded, or may still do so."""
    return step["state"] in (*OPEN, "succeeded")


def record_step(tx: Tx, parent_id: str, step_key: str, id_: str, failed: str | None) -> bool:
    """Record which execution makes a durable call, in place of the one that ``failed``. False when another transaction
    has recorded another one since.
    """
    if failed is None:
        new = {"parent_id": parent_id, "step_key": step_key, "execution_id": id_}
        return tx.insert_missing(durable_call, [new]) == 1
    given = {"parent": parent_id, "key": step_key, "failed": failed, "new": id_}
    return tx.execute(_STEP_TAKEN_OVER, given).rowcount == 1


def missing_version_error(tx: Tx, function: str, version: int | None) -> FunctoryError:
    """Return the error for a function without this version, or without an active one."""
    latest = versions.load_latest(tx, function) if version is None else None
    if latest is not None and latest.active is None:
        found = inspection.find(latest.findings)
        problem = latest.environment_error or (found[1] if found is not None else None)
        return Conflict(
            f"function {function} has no active version",
            f"v{latest.number}: {problem}" if problem else "",
            f"functory function show {function}@{latest.number}"
            if problem
            else f"functory function activate {function}@N",
        )
    return versions.missing_error(tx, function, version)


def check_enabled(name: str, number: int, state: str) -> None:
    """Raise :class:`Conflict` when the function of a version starts no executions."""
    if state != "enabled":
        raise Conflict(
            f"function {name} is {state}",
            "no executions are started",
            f"functory function activate {name} {number}",
        )


def check_passed_gate(tx: Tx, version: StartVersion) -> None:
    """Raise :class:`Conflict` for a version that code asks for by its number, and that waits at the gate or was
    rejected there. People may try it.
    """
    if (
        version.number != version.active
        and (problem := activation.gate_problem(tx, version.function_id, version.name, version.number))
        is not None
    ):
        raise problem


def take_budget(tx: Tx, parent: Cause, function: str, settings: Settings) -> None:
    """Take one execution from the budget of the parent's root. Raises :class:`Refused`, also for its depth."""
    if parent.depth + 1 > settings.max_depth:
        raise Refused(
            f"the call of {function} was stopped: depth",
            f"limit {settings.max_depth}; root {parent.root_id}",
            f"functory execution tree {parent.execution_id}",
        )
    used, maximum = root_budget.take(tx, {parent.root_id: 1}, settings.root_budget)()[parent.root_id]
    if used >= maximum:
        root_budget.give_back(tx, {parent.root_id: 1})
        raise Refused(
            f"the call of {function} was stopped: budget",
            f"root {parent.root_id} has caused {used} of at most {maximum} executions",
            f"functory execution tree {parent.execution_id}",
        )

"""The router's one transaction: decisions in, firings and executions and routed events out.

What to decide is the ``triggers`` package's; this module takes the batch of pending events and
writes all that follows from it, so that a match is one firing and one execution, or nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine import budgets, counters, dependencies, events, executions, functions, triggers
from engine.database import Database, Tx
from engine.errors import FunctoryError, Unavailable
from engine.tables import execution, firing


@dataclass(frozen=True)
class Fire:
    """A trigger that matched: start ``function`` with what ``make_input`` makes of its parameters."""

    trigger: Mapping[str, Any]
    function: str
    make_input: Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Suppress:
    """A trigger that matched but must not run: the reason, with limit, actual value and chain."""

    trigger: Mapping[str, Any]
    reason: str
    limit: int | None = None
    actual: int | None = None
    detail: str = ""


Decision = Fire | Suppress
Decide = Callable[[Mapping[str, Any]], Sequence[Decision]]

# Suppressions that a guard made: each is also told as a trigger.suppressed event.
GUARDS = frozenset({"own_event", "cycle", "depth", "budget"})


@dataclass
class Routed:
    """What one batch did: counts for metrics and logs. ``events`` were routed, ``failed`` were not."""

    events: int = 0
    matched: int = 0
    fired: list[str] = field(default_factory=list)
    suppressed: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    oldest_age: float = 0.0

    def add(self, other: Routed) -> None:
        """Count in what another transaction did."""
        self.events += other.events
        self.matched += other.matched
        self.fired += other.fired
        self.suppressed += other.suppressed
        self.depths += other.depths
        self.oldest_age = max(self.oldest_age, other.oldest_age)


def version(tx: Tx) -> int:
    """The number of the trigger set: unchanged means that no trigger has changed."""
    return counters.read(tx, counters.TRIGGERS)


def load(tx: Tx) -> list[dict[str, Any]]:
    """The trigger set."""
    return triggers.load_all(tx)


def route(database: Database, limit: int, max_budget: int, prepare: Callable[[Tx], Decide]) -> Routed:
    """Take up to ``limit`` pending events, decide, and write everything in one transaction.

    ``prepare`` is called inside it and gives the decision function over the trigger set as of now.
    When the batch fails it is tried event by event: what fails alone is put back with a backoff,
    and quarantined at its fifth failure. Raises :class:`Unavailable`.
    """
    try:
        with database.write() as tx:
            return _write(tx, events.take_pending(tx, limit), prepare, max_budget)
    except Unavailable:
        raise
    except Exception:
        return _one_by_one(database, limit, max_budget, prepare)


def _one_by_one(database: Database, limit: int, max_budget: int, prepare: Callable[[Tx], Decide]) -> Routed:
    total = Routed()
    with database.read() as tx:
        ids = events.pending_ids(tx, limit)
    for id_ in ids:
        try:
            with database.write() as tx:
                total.add(_write(tx, events.take_one(tx, id_), prepare, max_budget))
        except Unavailable:
            raise
        except Exception as error:
            with database.write() as tx:
                state = events.mark_failed(tx, id_, f"{type(error).__name__}: {error}")
            total.failed.append((id_, state))
    return total


def _write(tx: Tx, batch: Sequence[Mapping[str, Any]], prepare: Callable[[Tx], Decide], max_budget: int) -> Routed:
    done = Routed(events=len(batch))
    if not batch:
        return done
    done.oldest_age = max(0.0, (tx.now - min(row["time"] for row in batch)).total_seconds())
    done.depths = [row["depth"] for row in batch]
    decide = prepare(tx)
    decided = [(row, decision) for row in batch for decision in decide(row)]
    done.matched = len({row["id"] for row, _ in decided})
    fires = [(row, d) for row, d in decided if isinstance(d, Fire)]
    firings = [_firing(tx, row, d.trigger, d.reason, d.limit, d.actual, d.detail) for row, d in decided if isinstance(d, Suppress)]
    new, refused = _start(tx, fires, max_budget)
    firings += refused
    started = []
    for row, decision, created in new:
        firings.append(_firing(tx, row, decision.trigger, None) | {"execution_id": created["id"]})
        started.append(created)
        done.fired.append(decision.trigger["name"])
    tx.insert(firing, firings)
    tx.insert(execution, started)
    names = {d.trigger["id"]: d.trigger["name"] for _, d in decided}
    told = []
    by_event = {row["id"]: row for row in batch}
    for item in firings:
        if item["reason"]:
            done.suppressed.append((names[item["trigger_id"]], item["reason"]))
        if item["reason"] in GUARDS:
            told.append(_told(tx, by_event[item["event_id"]], names[item["trigger_id"]], item))
    events.mark_routed(tx, [row["id"] for row in batch])
    events.add(tx, told)
    if started:
        tx.wake("executions")
    return done


def _start(tx: Tx, fires: Sequence[tuple[Mapping[str, Any], Fire]], max_budget: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """Executions for those that may run; firings with the reason for the others."""
    refused: list[dict[str, Any]] = []
    found = functions.load_many(tx, [dependencies.reference(d.function) for _, d in fires])
    ready: list[tuple[Mapping[str, Any], Fire, Mapping[str, Any], Mapping[str, Any]]] = []
    for row, decision in fires:
        target = found.get(dependencies.reference(decision.function))
        if target is None or target["state"] != "enabled":
            why = "does not exist" if target is None else f"is {target['state']}"
            refused.append(_firing(tx, row, decision.trigger, "function_unavailable", detail=f"function {decision.function} {why}"))
            continue
        try:
            input_ = decision.make_input(target)
        except FunctoryError as error:
            refused.append(_firing(tx, row, decision.trigger, "input_error", detail=str(error)))
            continue
        ready.append((row, decision, target, input_))
    wanted: dict[str, int] = {}
    for row, _, _, _ in ready:
        wanted[row["root_id"]] = wanted.get(row["root_id"], 0) + 1
    granted = budgets.take(tx, wanted, max_budget)
    left = {root: grant for root, (grant, _, _) in granted.items()}
    new: list[Any] = []
    for row, decision, target, input_ in ready:
        root = row["root_id"]
        if left[root] <= 0:
            grant, used, maximum = granted[root]
            refused.append(_firing(tx, row, decision.trigger, "budget", maximum, used + grant + 1,
                                   f"root {root} may cause {maximum} executions"))
            continue
        left[root] -= 1
        link = {"trigger": decision.trigger["id"], "name": decision.trigger["name"], "subject": row["subject"], "event": row["id"]}
        new.append((row, decision, executions.row(
            tx, target, input_, cause="trigger", root_id=root, depth=row["depth"] + 1, chain=[*row["chain"], link],
            trigger_id=decision.trigger["id"], event_id=row["id"],
        )))
    return new, refused


def _firing(tx: Tx, row: Mapping[str, Any], trigger: Mapping[str, Any], reason: str | None, limit: int | None = None,
            actual: int | None = None, detail: str = "") -> dict[str, Any]:
    return {
        "trigger_id": trigger["id"], "event_id": row["id"], "trigger_version": trigger["version"],
        "decision": "suppressed" if reason else "fired", "reason": reason, "limit_value": limit, "actual_value": actual,
        "detail": detail or None, "chain": list(row["chain"]), "execution_id": None, "root_id": row["root_id"], "time": tx.now,
    }


def _told(tx: Tx, row: Mapping[str, Any], name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """The trigger.suppressed event of a tripped guard. It is inert: it can never start a loop itself."""
    path = [link["name"] for link in row["chain"]] + [name]
    data = {"trigger": name, "version": item["trigger_version"], "event_id": row["id"], "reason": item["reason"],
            "limit": item["limit_value"], "value": item["actual_value"], "chain": path, "detail": item["detail"]}
    told = events.record(tx, "trigger.suppressed", name, data, source=f"/functory/triggers/{name}", inert=True)
    return told | {"root_id": row["root_id"], "cause_execution_id": row["cause_execution_id"], "depth": row["depth"],
                   "chain": list(row["chain"])}


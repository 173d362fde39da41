"""Counts the outcomes of a run: attempted, executed, lost and doubled executions, and the recovery times.

The counts come from the rows and from the lines that the functions wrote to a file, and not from the invariants: so
two independent checks can find a loss. Called when the deployment is idle, or after the longest wait.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from functory.engine.database.schema import attempt, event, execution, firing, trigger

if TYPE_CHECKING:
    from tests.chaos.fault import Chaos

TERMINAL = frozenset({"succeeded", "failed", "timed_out", "cancelled", "dead", "expired"})

# The errors of attempts that ended by something outside.
INTERRUPTED = frozenset({"lost", "released", "crashed"})

# The log event of a worker that finds its attempt owned by another one.
ZOMBIE = r"lease lost, (?:result refused|child killed)"


@dataclass
class Counts:
    """The numbers of one run; times are seconds."""

    # Expected executions: every start, every match, every child.
    attempted: int = 0
    # The expected executions that ended, and those that did not end or do not exist.
    executed: int = 0
    lost: int = 0
    # Those of the lost ones that were acknowledged and do not exist.
    forgotten: int = 0
    # A second execution of a match, a second success or final event of an execution, a second event of one emission.
    doubled: int = 0
    # Executions that wrote their end to the file more than once: effects outside are at-least-once.
    effects_repeated: int = 0
    attempts_lost: int = 0
    attempts_crashed: int = 0
    released: int = 0
    zombies_rejected: int = 0
    # Seconds from the harm to the success of each interrupted execution.
    recovery: list[float] = field(default_factory=list)
    # The longest time in which nothing succeeded, between the first and the last success.
    longest_pause: float = 0.0
    states: Counter[str] = field(default_factory=Counter)
    # A sentence for each lost or doubled thing.
    problems: list[str] = field(default_factory=list)

    @property
    def recovery_seconds(self) -> dict[str, float] | None:
        """Median and worst of the recoveries; None when nothing was interrupted."""
        if not self.recovery:
            return None
        return {"p50": round(statistics.median(self.recovery), 2), "max": round(max(self.recovery), 2)}


def count(chaos: Chaos) -> Counts:
    """Count one run."""
    from tests.chaos import workload

    with chaos.database.read() as tx:
        executions = {row["id"]: row for row in tx.rows(sa.select(execution))}
        attempts = tx.rows(sa.select(attempt))
        events = tx.rows(
            sa.select(event.c.id, event.c.type, event.c.state, event.c.cause_execution_id, event.c.data)
        )
        functions = tx.pairs(sa.select(trigger.c.id, trigger.c.name))
        firings = tx.rows(sa.select(firing))
    counts = Counts(states=Counter(row["state"] for row in executions.values()))
    _matched(chaos, counts, executions, events, firings, functions)
    _doubled(counts, executions, attempts, events, firings)
    ends = Counter((id_, what) for id_, _, what in workload.lines(chaos) if what == "end")
    counts.effects_repeated = sum(1 for number in ends.values() if number > 1)
    outcomes = Counter(row["outcome"] for row in attempts)
    counts.attempts_lost = outcomes["lost"]
    counts.attempts_crashed = outcomes["crashed"]
    counts.released = outcomes["released"]
    counts.zombies_rejected = len(chaos.lines(ZOMBIE))
    counts.recovery = recoveries(attempts, chaos.marks)
    counts.longest_pause = _longest_pause(attempts)
    return counts


def recoveries(attempts: Sequence[Mapping[str, Any]], marks: Sequence[datetime]) -> list[float]:
    """Seconds from the harm to the success of each execution that the harm interrupted."""
    succeeded = {row["execution_id"]: row["ended_at"] for row in attempts if row["outcome"] == "succeeded"}
    found: dict[str, float] = {}
    for row in attempts:
        if row["outcome"] not in INTERRUPTED or row["execution_id"] not in succeeded:
            continue
        # The first harm in its life; clocks of the two processes differ by less than this.
        begun = row["started_at"] - timedelta(seconds=0.2)
        mark = next((moment for moment in sorted(marks) if moment >= begun), None)
        if mark is not None:
            seconds = (succeeded[row["execution_id"]] - mark).total_seconds()
            found[row["execution_id"]] = max(seconds, found.get(row["execution_id"], 0.0))
    return sorted(found.values())


def _matched(
    chaos: Chaos,
    counts: Counts,
    executions: Mapping[str, Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    firings: Sequence[Mapping[str, Any]],
    triggers: Mapping[str, str],
) -> None:
    """Check that each acknowledged start and each match has an execution that has ended."""
    expected: set[str] = set(executions)
    for id_ in chaos.given.executions:
        if id_ not in executions:
            counts.problems.append(f"execution {id_} was acknowledged and does not exist")
            counts.lost += 1
            counts.forgotten += 1
    known = {row["id"] for row in events}
    for id_ in chaos.given.events:
        if id_ not in known:
            counts.problems.append(f"event {id_} was acknowledged and does not exist")
            counts.lost += 1
            counts.forgotten += 1
    fired = {(row["event_id"], triggers.get(row["trigger_id"], "")) for row in firings}
    for row in events:
        for name in chaos.fault.workload.matches.get(row["type"], ()):
            if (row["id"], name) not in fired:
                counts.problems.append(f"event {row['id']} of {row['type']} did not reach the trigger {name}")
                counts.lost += 1
    for row in firings:
        if row["decision"] == "fired" and row["execution_id"] not in executions:
            counts.problems.append(f"the match of event {row['event_id']} has no execution")
            counts.lost += 1
    counts.attempted = len(expected) + counts.lost
    for id_ in expected:
        if executions[id_]["state"] in TERMINAL:
            counts.executed += 1
        else:
            counts.problems.append(
                f"execution {id_} of {executions[id_]['function']} is {executions[id_]['state']}"
            )
            counts.lost += 1


def _doubled(
    counts: Counts,
    executions: Mapping[str, Mapping[str, Any]],
    attempts: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    firings: Sequence[Mapping[str, Any]],
) -> None:
    def no_more_than_one(what: str, keys: Counter[Any]) -> None:
        for key, number in keys.items():
            if number > 1:
                counts.problems.append(f"{number} times {what}: {key}")
                counts.doubled += 1

    no_more_than_one(
        "an execution of one match",
        Counter(
            (row["trigger_id"], row["event_id"])
            for row in executions.values()
            if row["trigger_id"] is not None and row["cause"] == "trigger"
        ),
    )
    no_more_than_one("a decision about one match", Counter((r["trigger_id"], r["event_id"]) for r in firings))
    no_more_than_one(
        "a success of one execution",
        Counter(row["execution_id"] for row in attempts if row["outcome"] == "succeeded"),
    )
    no_more_than_one(
        "the end of one execution",
        Counter(
            row["cause_execution_id"]
            for row in events
            if row["type"] in {f"execution.{state}" for state in TERMINAL}
        ),
    )
    no_more_than_one(
        "what one execution emits once",
        Counter((row["cause_execution_id"], row["type"]) for row in events if row["type"] == "order.taken"),
    )


def _longest_pause(attempts: Sequence[Mapping[str, Any]]) -> float:
    moments = sorted(row["ended_at"] for row in attempts if row["outcome"] == "succeeded")
    gaps = [(b - a).total_seconds() for a, b in itertools.pairwise(moments)]
    return round(max(gaps, default=0.0), 2)

"""The invariants of the promise, one SQL query each.

``functory verify`` runs them, the scheduler does now and then, and so does every simulation and chaos run at its end.
A query counts the rows that break its invariant and names a few of them; it changes nothing. It reads one
snapshot of the database, so it may run while everything runs. ``docs/reference/invariants.md`` explains each one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from functory.engine.database.connection import Database
from functory.engine.errors import Invalid
from functory.engine.maintenance.invariants import (
    activations,
    bad_ends,
    canaries,
    cancels,
    executions,
    lineage,
    model_calls,
    proposals,
    queue_rows,
    routing,
    runs,
    schedules,
    state_events,
)
from functory.engine.maintenance.invariants.query import QueryParameters, QueryScope, Violations, build_query
from functory.engine.settings import Settings


@dataclass(frozen=True)
class Invariant:
    """One invariant: its sentence, and the selects that find the rows that break it."""

    code: str
    title: str
    find_violations: Callable[[QueryScope], Sequence[Violations]]


INVARIANTS = (
    Invariant("I1", "every event is routed or quarantined in time", routing.unrouted),
    Invariant("I2", "a match has one firing, and its event is routed", routing.undecided),
    Invariant("I3", "a match that fired has exactly one execution", routing.unstarted),
    Invariant("I4", "every change has its event", state_events.missing_events),
    Invariant("I5", "open work makes progress", executions.stalled),
    Invariant("I6", "no execution has more attempts than its limit", executions.too_many_attempts),
    Invariant(
        "I7", "attempts are counted, and only a running execution has an open one", executions.miscounted
    ),
    Invariant("I8", "only the attempt with the newest claim finishes an execution", executions.unfenced),
    Invariant("I9", "an execution that ended has one event about its end", state_events.wrong_final_events),
    Invariant("I10", "a result takes effect once", executions.repeated),
    Invariant("I11", "every event and execution has its cause in the same tree", lineage.missing_causes),
    Invariant("I12", "an execution is one deeper than its cause, up to the limit", lineage.wrong_depths),
    Invariant("I13", "no root exceeds its budget, no concurrency group its capacity", lineage.exceeded),
    Invariant("I14", "a schedule has one tick for each of its times, and none is late", schedules.mistimed),
    Invariant("I15", "only running work has a lease, and none is too long", executions.invalid_leases),
    Invariant(
        "I16", "the active version of a function is its open activation", activations.wrong_activations
    ),
    Invariant("I17", "an open execution is in the backlog or in flight, no other is", queue_rows.misplaced),
    Invariant("I18", "an attempt has its execution, an execution its version", queue_rows.unreferenced),
    Invariant("I19", "a bad end is listed as one, nothing else is", bad_ends.mislisted),
    # I20 is about tallies: functory.engine.tallies.tallier checks it.
    Invariant("I21", "a meter is the sum of its calls of models", model_calls.wrong_meters),
    Invariant("I22", "a day has spent what its calls of models have cost", model_calls.wrong_days),
    Invariant(
        "I23",
        "a call of a model is held while it is sent, and costs what its tries do",
        model_calls.wrong_calls,
    ),
    Invariant("I24", "an open run has one open step, or waits, or is paused", runs.unfinished),
    Invariant("I25", "a run has its steps without a gap, each an execution of its tree", runs.wrong_steps),
    Invariant(
        "I26", "a function has the canary that is open, beside its active version", canaries.wrong_canaries
    ),
    Invariant("I27", "an execution has the version that its canary has chosen", canaries.wrong_versions),
    Invariant(
        "I28", "a proposed version is active only when it has passed the gate", proposals.ungated_versions
    ),
    Invariant(
        "I29",
        "a proposal waits for one person, and has nothing open when it has ended",
        proposals.wrong_proposals,
    ),
    Invariant("I30", "a child does not outlive a parent that ended without success", cancels.left_behind),
)
CODES = tuple(one.code for one in INVARIANTS)


@dataclass(frozen=True)
class InvariantResult:
    """The result of one invariant: ``count`` rows break it, ``examples`` are sentences about the first of them."""

    code: str  # I1 … I30
    title: str
    count: int
    examples: tuple[str, ...]
    seconds: float


def verify(
    database: Database,
    settings: Settings,
    *,
    since: datetime | None = None,
    patience: float | None = None,
    only: Collection[str] = (),
    examples: int = 5,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[InvariantResult]:
    """Check every invariant, or those of ``only``; one result each, in their order.

    ``since`` limits the check to rows made from then on. ``patience`` is the seconds that an open row may rest
    without progress before I1, I5 and I14 count it (default: the time after which the settings make a fault sure). With
    0 every open row counts, for a run that has ended. Each query reads a snapshot of its own. ``progress`` gets the
    number of invariants that were checked, and of those that are to be.
    Raises :class:`Unavailable`, and :class:`Invalid` for an unknown code.
    """
    check_codes(only)
    found: list[InvariantResult] = []
    wanted = [one for one in INVARIANTS if not only or one.code in only]
    for one in wanted:
        progress(len(found), len(wanted))
        start = time.perf_counter()
        with database.read() as tx:
            asked = QueryParameters.of(tx, settings, since, patience)
            count, words = build_query(one.find_violations, asked.shape(settings)).run(tx, asked, examples)
        found.append(InvariantResult(one.code, one.title, count, words, time.perf_counter() - start))
    return found


def check_codes(codes: Collection[str]) -> None:
    """Refuse codes that no invariant has."""
    unknown = sorted(set(codes) - set(CODES))
    if unknown:
        raise Invalid(
            f"there is no invariant {unknown[0]}", f"they are {CODES[0]} to {CODES[-1]}, without I20"
        )

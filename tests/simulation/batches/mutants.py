"""Mutants of batches: the engine with one wrong line, right for a batch of one or for a process that remembers nothing.

Each names the scenario in which the comparison must see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.engine.mutants import Edit, Mutant


@dataclass(frozen=True)
class BatchMutant:
    """A mutant and the name of the scenario that sees it; with ``remembers``, the one that compares fresh processes."""

    mutant: Mutant
    scenario: str
    remembers: bool = False


MUTANTS: Sequence[BatchMutant] = (
    BatchMutant(
        Mutant(
            "an idempotency key is free for all events of its batch",
            [
                Edit(
                    "functory.engine.firings.idempotency",
                    "IdempotencyKeys.used_by",
                    "if expires_at > self._now",
                    "if expires_at > self._now and (trigger_id, one.key.hash) not in self._used",
                )
            ],
        ),
        "an_idempotency_key_twice_in_a_batch",
    ),
    BatchMutant(
        Mutant(
            "a budget does not count the matches of its batch",
            [
                Edit(
                    "functory.engine.firings.admission",
                    "RootBudgets.refusal",
                    "spent >= limit",
                    "spent - self._taken[root] >= limit",
                )
            ],
        ),
        "a_budget_that_ends_inside_a_batch",
    ),
    BatchMutant(
        Mutant(
            "the trigger set is read once",
            [
                Edit(
                    "functory.triggers.routing.trigger_set",
                    "TriggerSet.refresh",
                    "if version == self.version:",
                    "if self.version >= 0:",
                )
            ],
        ),
        "a_trigger_that_changes_while_events_wait",
        remembers=True,
    ),
    BatchMutant(
        Mutant(
            "only the first execution of a claim has a started event",
            [
                Edit(
                    "functory.engine.executions.claims",
                    "Claims._claim",
                    'event_data(row, "running")) for row in rows]',
                    'event_data(row, "running")) for row in rows[:1]]',
                )
            ],
        ),
        "one_trigger",
    ),
    BatchMutant(
        Mutant(
            "an event is decided with triggers that have changed since",
            [
                Edit(
                    "functory.engine.events.decided_events",
                    "append",
                    "current = facts.trigger_changes == unwanted.trigger_changes",
                    "current = True",
                )
            ],
        ),
        "a_trigger_on_events_of_executions_that_changes",
        remembers=True,
    ),
    BatchMutant(
        Mutant(
            "an event is decided although triggers are halted",
            [
                Edit(
                    "functory.engine.events.decided_events",
                    "append",
                    "if current and not facts.halted:",
                    "if current:",
                )
            ],
        ),
        "the_kill_switch",
    ),
    BatchMutant(
        Mutant(
            "only patterns that fire a trigger want a type",
            [
                Edit(
                    "functory.triggers.trigger_knowledge",
                    "WorkerTriggerKnowledge.wanted_by",
                    "one.pattern for one in patterns",
                    'one.pattern for one in patterns if one.role == "on"',
                )
            ],
        ),
        "a_composite_of_ends",
    ),
    BatchMutant(
        Mutant(
            "a rule of cancel-on wants no type",
            [
                Edit(
                    "functory.triggers.trigger_knowledge",
                    "WorkerTriggerKnowledge.wanted_by",
                    "one.pattern for one in patterns",
                    'one.pattern for one in patterns if one.role != "cancel"',
                )
            ],
        ),
        "an_end_that_cancels",
    ),
    BatchMutant(
        Mutant(
            "the second result of a group is lost",
            [
                Edit(
                    "functory.engine.executions.success_batch",
                    "_store_on_sqlite",
                    "mine = [endings[position] for position in sorted(own)]",
                    "mine = [endings[position] for position in sorted(own)][:1]",
                )
            ],
        ),
        "one_trigger",
    ),
    BatchMutant(
        Mutant(
            "only the first result of a group has its output",
            [
                Edit(
                    "functory.engine.executions.success_batch",
                    "store",
                    "output.append(ending.attempt_result.output(ending.key))",
                    "output = output or [ending.attempt_result.output(ending.key)]",
                )
            ],
        ),
        "output_logs_spans_and_warnings",
    ),
)

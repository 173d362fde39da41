"""Trains of a message: executions of one version run in one child, without a pause between them.

The sandbox decides which versions may (:meth:`functory.workers.sandbox.runner.Runner.may_train`): those that have no
effect outside but through the worker, and are quick. What it gives back has had no effect, and runs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog

from functory.engine.errors import FunctoryError, Unavailable
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claims import Claim
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.workers.execution import violations
from functory.workers.execution.held_claims import HeldClaims, Running
from functory.workers.execution.job_mapping import attempt_result, job_of_same_version
from functory.workers.execution.result_groups import ResultGroup, defect
from functory.workers.redaction.redactor import Redactor
from functory.workers.sandbox.protocol.job import Job, Outcome
from functory.workers.sandbox.runner import Runner
from functory.workers.sandbox.supervision.train import Passenger

log = structlog.get_logger("functory.worker")


def by_version(claims: Sequence[Running]) -> Iterator[list[Running]]:
    """Yield the claims of a message by their versions, each version at the place of its first claim.

    Claims together have the same codes and grants.
    """
    groups: dict[Any, list[Running]] = {}
    for running in claims:
        claim = running.claim
        key = (claim.row.version_id, tuple(claim.codes), claim.grants, str(claim.problem))
        groups.setdefault(key, []).append(running)
    yield from groups.values()


class Trains:
    """Runs claims in trains. ``refuse`` returns the result of a claim that cannot start, ``job`` builds its job."""

    def __init__(
        self,
        runner: Runner,
        held_claims: HeldClaims,
        attempts: Attempts,
        refuse: Callable[[Claim], AttemptResult | None],
        job: Callable[[Claim], Job],
    ) -> None:
        self._runner = runner
        self._held_claims = held_claims
        self._attempts = attempts
        self._refuse = refuse
        self._job = job

    def run(self, claims: Sequence[Running], results: ResultGroup) -> list[Running]:
        """Run claims of one version (:func:`by_version`) in a train. Returns those that it did not run, in order.

        Every result is added to ``results``, which :meth:`ResultGroup.settle` stores later.
        """
        try:
            job = self._job(claims[0].claim)
        except FunctoryError:
            # The first one that runs alone meets the same, and reports it.
            return [*claims]
        if not self._runner.may_train(job):
            return [*claims]
        return _Train(self._held_claims, self._attempts, claims, results).run(self._runner, self._refuse, job)


class _Train:
    """One train. Its methods that the sandbox calls are short, because nothing is watched meanwhile."""

    def __init__(
        self, held_claims: HeldClaims, attempts: Attempts, claims: Sequence[Running], results: ResultGroup
    ) -> None:
        self._held_claims = held_claims
        self._attempts = attempts
        self._claims = claims
        self._results = results
        # The code has no grants, so it knows no secret.
        self._redact = Redactor()
        # Those that have no result yet, by the ids of their passengers, in order.
        self._open: dict[int, Running] = {}
        self._to_release: list[tuple[str, int]] = []

    def run(self, runner: Runner, refuse: Callable[[Claim], AttemptResult | None], job: Job) -> list[Running]:
        passengers: list[Passenger] = []
        for running in self._claims:
            refused = refuse(running.claim)
            if refused is None:
                passengers.append(Passenger(job_of_same_version(job, running.claim), running.control))
                self._open[id(passengers[-1])] = running
            elif self._held_claims.begin(running):
                self._results.add(running, refused, later=True)
            else:
                self._results.drop(running, later=True)
        self._begin_next()
        try:
            runner.train(passengers, on_outcome=self._on_outcome, on_given_back=lambda _: None)
        except Unavailable as error:
            log.warning("no train, its executions run alone", reason=error.why)
        self._release()
        given_back = [*self._open.values()]
        self._held_claims.wait_again(given_back)
        return given_back

    def _on_outcome(self, passenger: Passenger, outcome: Outcome) -> None:
        """Keep the result of the passenger that ran."""
        running = self._open.pop(id(passenger))
        self._held_claims.note_end(running)
        violations.count(outcome)
        self._begin_next()
        killed = outcome.kill_reason if outcome.status == "killed" else None
        # One that was released because it waited too long, and began all the same, runs elsewhere.
        if not self._held_claims.begin(running) or killed in ("lost", "shutdown"):
            if killed == "lost":
                id_, fence = running.key
                log.warning("lease lost, child killed", execution_id=id_, fence=fence)
            elif killed == "shutdown":
                self._to_release.append(running.key)
            self._results.drop(running, later=True)
            return
        try:
            result = attempt_result(running.claim, outcome, self._redact)
        except Exception as error:
            result = defect(running.claim, error, self._redact)
        running.calls = result.spans
        self._results.add(running, result, later=True)

    def _begin_next(self) -> None:
        """Mark the passenger that may run now: it is not released any more because it waits too long."""
        for running in self._open.values():
            if self._held_claims.begin(running):
                return

    def _release(self) -> None:
        if self._to_release:
            try:
                self._attempts.release(self._to_release)
            except Unavailable as error:
                log.warning("claims not released, their leases will expire", reason=error.why)

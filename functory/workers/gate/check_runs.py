"""The checks that need a sandbox: the tests of a proposal, and what the tests see."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functory.engine.errors import FunctoryError
from functory.engine.functions.version_row import VersionCode, VersionRow
from functory.engine.releases.checks import MUTANTS, TESTS, End, Work
from functory.workers.environments import Environments
from functory.workers.gate import mutants
from functory.workers.gate.mutants import EMPTY, Mutant
from functory.workers.gate.test_runs import Result, TestedVersion
from functory.workers.sandbox.runner import Runner

# A check that takes longer ends with what it knows.
MAX_SECONDS = 300.0
Ended = tuple[End, dict[str, Any]]


class CheckRuns:
    """Runs checks with the sandbox of a worker. ``new_id`` makes the ids that the code sees as its execution's."""

    def __init__(self, runner: Runner, environments: Environments, new_id: Callable[[], str]) -> None:
        self._runner = runner
        self._environments = environments
        self._new_id = new_id

    def run(self, work: Work, keep: Callable[[], None]) -> Ended:
        """Run one check. Returns its end and its report. ``keep`` is called between two tests; it raises when the check
        is not needed any more.
        """
        try:
            tested = self._tested(work.version, work.codes)
        except FunctoryError as error:
            return "failed", {"problem": error.reason}
        if work.name == TESTS:
            return self._tests(work, tested, keep)
        assert work.name == MUTANTS
        return self._mutants(work, tested, keep)

    def _tested(self, version: VersionRow, codes: Mapping[str, VersionCode]) -> TestedVersion:
        return TestedVersion(self._runner, self._environments, version, codes, self._new_id)

    def _tests(self, work: Work, tested: TestedVersion, keep: Callable[[], None]) -> Ended:
        results = tested.run_all(work.proposal["tests"], keep)
        report = {**_counts(results), "tests": [one.as_json() for one in results]}
        if work.base is not None:
            report["base"] = self._base(work, keep)
        failed = next((one for one in results if one.verdict == "failed"), None)
        if failed is not None:
            return "failed", {**report, "problem": f"{failed.name}: {failed.message}"}
        unknown = next((one for one in results if one.verdict == "unknown"), None)
        if unknown is not None:
            return "warned", {**report, "problem": f"{unknown.name}: {unknown.message}"}
        return "passed", report

    def _base(self, work: Work, keep: Callable[[], None]) -> dict[str, Any]:
        """Say how the active version does in the same tests: a repair shows a test that it fails."""
        assert work.base is not None
        try:
            tested = self._tested(work.base, work.base_codes)
        except FunctoryError as error:
            return {"version": work.base.number, "problem": error.reason}
        return {
            "version": work.base.number,
            **_counts(tested.run_all(work.proposal["tests"], keep)),
        }

    def _mutants(self, work: Work, tested: TestedVersion, keep: Callable[[], None]) -> Ended:
        first = tested.run_all(work.proposal["tests"], keep)
        failed = next((one for one in first if one.verdict == "failed"), None)
        if failed is not None:
            problem = f"{failed.name} passed before, and failed now: {failed.message}"
            return "failed", {"problem": problem}
        names = {one.name for one in first if one.verdict == "passed"}
        tests = [one for one in work.proposal["tests"] if one["name"] in names]
        if not tests:
            return "warned", {"problem": "no test has passed, so none can see a fault"}
        unseen: list[Mutant] = []
        made = seen = 0
        began = time.monotonic()
        for mutant in mutants.of(work.version.source, work.version.name):
            if time.monotonic() - began > MAX_SECONDS:
                break
            made += 1
            if _is_seen(tested, tests, mutant, keep):
                seen += 1
            else:
                unseen.append(mutant)
        needed = work.proposal["rules"]["mutants"]
        report = {
            "made": made,
            "seen": seen,
            "share": round(seen / made, 3),
            "needed": needed,
            "unseen": [{"line": one.line, "fault": one.fault} for one in unseen],
        }
        if any(one.fault == EMPTY for one in unseen):
            return "failed", {**report, "problem": "the tests pass on a function that only gives None"}
        if seen / made < needed:
            problem = f"the tests see {seen} of {made} faults, and {needed:.0%} are needed"
            return "failed", {**report, "problem": problem}
        return "passed", report


def _is_seen(
    tested: TestedVersion, tests: Sequence[Mapping[str, Any]], mutant: Mutant, keep: Callable[[], None]
) -> bool:
    """Return True when a test does not pass on a mutant."""
    for test in tests:
        keep()
        if tested.run(test, source=mutant.source).verdict != "passed":
            return True
    return False


def _counts(results: Sequence[Result]) -> dict[str, int]:
    return {
        verdict: sum(one.verdict == verdict for one in results) for verdict in ("passed", "failed", "unknown")
    }

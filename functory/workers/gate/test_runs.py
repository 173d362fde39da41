"""The runs of a proposal's tests in the sandbox: without rights, without effects, each in a process of its own.

A test function runs in another process than the function that it tests, and calls it through its host: code that
replaces ``abs`` or ends its process would deceive a test beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from functory.engine.access.grants import RIGHTS
from functory.engine.errors import ExecutionFailed
from functory.engine.functions import arguments, limits
from functory.engine.functions.version_row import VersionCode, VersionRow
from functory.engine.releases import version_tests
from functory.workers.environments import Environments, package_folders
from functory.workers.gate.withheld_host import WithheldHost
from functory.workers.sandbox.protocol.job import Code, Job, Outcome
from functory.workers.sandbox.runner import Runner
from functory.workers.version_jobs import sandbox_codes, sandbox_limits

Verdict = Literal["passed", "failed", "unknown"]
# A test is short, whatever the function may take.
MAX_TEST_SECONDS = 20.0
# A process that has run a proposal never runs anything else.
TRUST_DOMAIN = "rehearsal"
_MAX_MESSAGE = 600


@dataclass(frozen=True)
class Result:
    """What came of a test. ``unknown``: the code asked for what a test does not get."""

    name: str
    verdict: Verdict
    message: str | None
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "verdict": self.verdict,
            "message": self.message,
            "seconds": round(self.seconds, 3),
        }


class TestedVersion:
    """A version that can be tested, perhaps with another source text: with one of its mutants."""

    __test__ = False

    def __init__(
        self,
        runner: Runner,
        environments: Environments,
        version: VersionRow,
        codes: Mapping[str, VersionCode],
        new_id: Callable[[], str],
    ) -> None:
        self._runner = runner
        self._new_id = new_id
        self._name, self._number = version.name, version.number
        self._parameters = version.parameters
        self._key = f"{self._name}@{self._number}"
        self._codes = sandbox_codes(codes)
        self._packages = package_folders(codes, environments)
        bounds = sandbox_limits(limits.parse(version.limits))
        wall, cpu = min(bounds.wall_seconds, MAX_TEST_SECONDS), min(bounds.cpu_seconds, MAX_TEST_SECONDS)
        self._limits = msgspec.structs.replace(
            bounds, wall_seconds=wall, total_seconds=wall, cpu_seconds=cpu, processes=1
        )
        asked = [code.declared_grants.only(RIGHTS).items() for code in codes.values()]
        self._rights = sorted({f"{kind} {value}".rstrip() for items in asked for kind, value in items})

    def run(self, test: Mapping[str, Any], *, source: str | None = None) -> Result:
        """Run one test, on ``source`` instead of the version's own text."""
        began = time.monotonic()
        if "code" in test:
            host: WithheldHost = TestFunctionHost(
                self._name, self._parameters, lambda input_: self._outcome(input_, source, WithheldHost({}))
            )
            outcome = self._runner.run(self._test_job(test), host)
        else:
            host = WithheldHost(test.get("answers", {}))
            outcome, _ = self._outcome(test["input"], source, host)
        seconds = time.monotonic() - began
        problem = _problem(test, outcome)
        if host.withheld:
            return Result(test["name"], "unknown", f"it asked for {', '.join(host.withheld)}", seconds)
        if problem is not None and self._rights:
            # The refusal of a host or a file looks as an ordinary error of the code.
            needs = f"it needs {', '.join(self._rights)}, which a test does not get: {problem}"
            return Result(test["name"], "unknown", needs[:_MAX_MESSAGE], seconds)
        return Result(test["name"], "passed" if problem is None else "failed", problem, seconds)

    def run_all(
        self, tests: Sequence[Mapping[str, Any]], keep: Callable[[], None], *, source: str | None = None
    ) -> list[Result]:
        """Run tests one after another; ``keep`` is called between them, and may raise to end it."""
        found: list[Result] = []
        for test in tests:
            keep()
            found.append(self.run(test, source=source))
        return found

    def _outcome(
        self, input_: Mapping[str, Any], source: str | None, host: WithheldHost
    ) -> tuple[Outcome, WithheldHost]:
        """Run the function itself."""
        codes = self._codes
        if source is not None:
            codes = {**codes, self._key: msgspec.structs.replace(codes[self._key], source=source)}
        return self._runner.run(self._job(self._name, self._number, codes, input_), host), host

    def _test_job(self, test: Mapping[str, Any]) -> Job:
        """Return the job of a test function, in whose process the tested one is a call."""
        own = version_tests.function_of(test)
        stands_for = _STANDS_FOR_ASYNC if self._codes[self._key].is_async else _STANDS_FOR
        codes = {
            f"{own.name}@1": Code(
                name=own.name,
                version=1,
                source=own.text,
                is_async=own.is_async,
                dependencies={self._name: self._key},
            ),
            self._key: Code(
                name=self._name,
                version=self._number,
                source=stands_for.format(name=self._name),
                is_async=self._codes[self._key].is_async,
            ),
        }
        return self._job(own.name, 1, codes, {})

    def _job(self, name: str, number: int, codes: Mapping[str, Code], input_: Mapping[str, Any]) -> Job:
        id_ = self._new_id()
        return Job(
            execution_id=id_,
            function=name,
            version=number,
            root_id=id_,
            entry=f"{name}@{number}",
            codes=dict(codes),
            input=dict(input_),
            limits=self._limits,
            packages=self._packages,
            trust_domain=TRUST_DOMAIN,
        )


# An error of the tested function is raised as the builtin one of its name, so that a test can expect it.
_STANDS_FOR = """
def {name}(*args, **kwargs):
    import builtins
    from functory import CallFailed, call
    try:
        return call("{name}", *args, **kwargs)
    except CallFailed as error:
        kind = getattr(builtins, error.error.get("type", ""), None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            raise kind(error.error.get("message", "")) from None
        raise
"""
_STANDS_FOR_ASYNC = (
    _STANDS_FOR.replace("def {name}", "async def {name}")
    .replace("CallFailed, call", "CallFailed, acall")
    .replace("return call(", "return await acall(")
)


class TestFunctionHost(WithheldHost):
    """The host of a test function: its calls of the tested function run that one, each in a process of its own."""

    __test__ = False

    def __init__(
        self,
        name: str,
        parameters: Sequence[Mapping[str, Any]],
        run: Callable[[Mapping[str, Any]], tuple[Outcome, WithheldHost]],
    ) -> None:
        super().__init__({})
        self._name = name
        self._parameters = parameters
        self._run = run

    def call(
        self,
        name: str,
        version: int | None,
        input: dict[str, Any] | None,  # noqa: A002
        args: list[Any],
        kwargs: dict[str, Any],
        durable: bool = False,
        abandon: bool = False,
    ) -> Any:
        """The result of the tested function. Raises :class:`ExecutionFailed`."""
        if name != self._name:
            return super().call(name, version, input, args, kwargs, durable)
        given = arguments.bind(name, self._parameters, args, kwargs) if input is None else input
        outcome, host = self._run(given)
        for what in host.withheld:
            self.note(what)
        if outcome.status == "succeeded":
            return outcome.result
        error = outcome.error or {"type": outcome.status, "message": ""}
        message = f"{error.get('type')}: {error.get('message', '')}"
        raise ExecutionFailed(f"{name} failed", message, state="failed", error=error, execution_id="")


def _problem(test: Mapping[str, Any], outcome: Outcome) -> str | None:
    if outcome.status == "succeeded":
        ended: dict[str, Any] = {"ok": True, "value": outcome.result}
    elif outcome.status == "failed":
        ended = {"ok": False, "error": outcome.error or {}}
    else:
        message = (outcome.error or {}).get("message", "")
        return f"it ended as {outcome.status.replace('_', ' ')}: {message}".rstrip(": ")[:_MAX_MESSAGE]
    found = version_tests.problem_of(test, ended)
    return None if found is None else found[:_MAX_MESSAGE]

"""A runner without child processes: a function is a Python callable of the scenario, called in the worker's thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from functory.engine.errors import ExecutionFailed, FunctoryError
from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.host import Host
from functory.workers.sandbox.protocol.job import ChildGrants, Job, Log, Outcome, Span, Status
from functory.workers.sandbox.supervision.train import Passenger

# Durations of every run, in seconds: rows with them are equal for all batch sizes.
DURATION, WAITED = 0.25, 0.125


class Ended(Exception):
    """The function ends without a result; ``fields`` are those of its outcome."""

    def __init__(self, status: Status, **fields: Any) -> None:
        super().__init__(status)
        self.status: Status = status
        self.fields = fields


class WorkerKilled(BaseException):
    """The worker's process ends here: nothing after it runs."""


@dataclass
class Call:
    """One attempt of a function: its job, its requests to the engine, and what it leaves behind."""

    job: Job
    host: Host
    logs: list[Log] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    files: list[bytes] = field(default_factory=list)

    @property
    def talked(self) -> bool:
        """True when it has said anything but its result."""
        return bool(self.logs or self.spans or self.files)

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def number(self) -> int:
        """The ``n`` of its event (the first, where several started it), or of the input that a caller gave."""
        given = next(iter(self.job.input.values()))
        given = given[0] if isinstance(given, list) else given
        return given["data"]["n"] if "data" in given else given["n"]

    def emit(self, type_: str, data: Any = None, subject: str | None = None) -> str:
        return self.host.emit(type_, data, subject)

    def call(self, function: str, durable: bool = False, **named: Any) -> Any:
        return self.host.call(function, None, None, [], named, durable)

    def gather(self, function: str, *inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Start one child for each input, and wait for all of them."""
        ids = [self.host.submit(function, None, [], dict(one)) for one in inputs]
        return list(self.host.gather(ids, None))

    def say(self, text: str) -> None:
        """Print a line."""
        self.logs.append(
            Log(seq=len(self.logs) + 1, stream="stdout", level=None, text=text, offset_seconds=0.0)
        )

    def span(self, function: str, given: Any, output: Any) -> None:
        """Record the call of a dependency."""
        self.spans.append(
            Span(
                seq=len(self.spans) + 1,
                parent_seq=None,
                function=function,
                version=1,
                input=given,
                output=output,
                offset_seconds=0.0,
                duration_seconds=DURATION,
            )
        )

    def fail(self, message: str = "no", kind: str = "ValueError") -> None:
        """Raise an error of the function."""
        raise Ended("failed", error={"type": kind, "message": message})


Behaviour = Callable[[Call], Any]


class _Asked(Exception):
    """The code has asked the engine for something, which ends its ride in a train."""


class _NoRequests:
    """A host that answers nothing: a passenger of a train that asks is given back before the engine hears of it."""

    def __getattr__(self, name: str) -> Any:
        raise _Asked


class ScriptedRunner:
    """Plays ``functory.workers.sandbox.runner.Runner`` with the behaviours of a scenario, by the function's name.

    Trains are as in the real one: of versions that may be kept and have no grants, that have run here before, and that
    never said anything but their result.
    """

    tier = "A"

    def __init__(self) -> None:
        self.behaviours: dict[str, Behaviour] = {}
        self._ran: set[str] = set()
        self._talked: set[str] = set()
        # Attempts that ended in a train.
        self.passengers = 0

    def start(self, *, inspecting: bool = False) -> None:
        """There is nothing to start."""

    def run(self, job: Job, host: Host, control: Control | None = None) -> Outcome:
        """Run one attempt."""
        control = control or Control()
        call = Call(job, host)
        try:
            return self._play(call)
        finally:
            self._ran.add(job.entry)
            if call.talked:
                self._talked.add(job.entry)
            control.ended.set()

    def may_train(self, job: Job) -> bool:
        """True when executions like this one may ride a train."""
        return (
            job.reuse
            and job.grants == ChildGrants()
            and job.entry in self._ran
            and job.entry not in self._talked
        )

    def train(
        self,
        passengers: Sequence[Passenger],
        *,
        on_outcome: Callable[[Passenger, Outcome], None],
        on_given_back: Callable[[Sequence[Passenger]], None],
        **_: Any,
    ) -> None:
        """Run attempts one after another, as ``Runner.train`` does."""
        for place, passenger in enumerate(passengers):
            call = Call(passenger.job, cast(Host, _NoRequests()))
            outcome: Outcome | None = None
            if passenger.control.reason is None and not passenger.control.withdrawn:
                with contextlib.suppress(_Asked):
                    outcome = self._play(call)
            if outcome is None or call.talked:
                self._talked.add(passenger.job.entry)
                on_given_back(passengers[place:])
                return
            self.passengers += 1
            passenger.control.ended.set()
            on_outcome(passenger, outcome)
            if outcome.status not in ("succeeded", "failed") and passengers[place + 1 :]:
                # The child is gone.
                on_given_back(passengers[place + 1 :])
                return

    def _play(self, call: Call) -> Outcome:
        status: Status = "succeeded"
        fields: dict[str, Any] = {}
        try:
            fields["result"] = self.behaviours.get(call.job.function, lambda _: None)(call)
        except Ended as ended:
            status, fields = ended.status, ended.fields
        except (ExecutionFailed, FunctoryError) as error:
            # A request that the engine refuses raises in the function.
            status, fields = "failed", {"error": {"type": type(error).__name__, "message": error.what}}
        return Outcome(
            status=status,
            logs=call.logs,
            spans=call.spans,
            written_files=call.files,
            duration_seconds=DURATION,
            waited_seconds=WAITED,
            **fields,
        )

    def inspect(self, *given: Any, **named: Any) -> Any:
        raise AssertionError("signatures are not read here")

    def close(self) -> None:
        """Nothing is open."""

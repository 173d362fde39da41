"""Runs several executions of one version in one child, without waiting for one to send the next: a train.

A train is for code that has no effect outside but through the worker, and only while it sends nothing but results.
At anything else, a line of output or a request, the train ends: the child is ended, and the passengers without an
answer are given back, to be run alone. Nothing that one of them has done until then is seen anywhere.

Tickets say exactly who has begun: see ``TrainLedger``. Those who have not are given back as soon as the train is known
to end before them, while the one that runs goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from functory.engine.serialization.control_characters import escape_control_characters
from functory.workers.sandbox.pool.child import MOST_TICKETS, Child
from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.frames import (
    Failed,
    Finished,
    FromGuest,
    Start,
    encode_for_guest,
)
from functory.workers.sandbox.protocol.job import Job, Outcome
from functory.workers.sandbox.supervision.result_frame import TOO_LARGE, failure_fields, verdict_of
from functory.workers.sandbox.supervision.supervisor import Supervisor
from functory.workers.sandbox.supervision.train_ledger import (
    TrainLedger,
    is_answer,
    is_last_of_child,
    shares,
)
from functory.workers.sandbox.supervision.verdict import Verdict, outcome_error

# A result is read at most this much later than it came: then some come at once, and each costs the worker less.
_NAP_SECONDS = 0.001
_MOST_BYTES = 4 * 1024 * 1024  # of encoded inputs that are held at once
_OVER = Verdict("succeeded")  # of the train; it says nothing about a passenger


class Passenger(msgspec.Struct, frozen=True, eq=False):
    """One attempt that rides a train. ``control.kill`` ends it, ``control.withdraw`` only if it has not begun."""

    job: Job
    control: Control = msgspec.field(default_factory=Control)


class TrainCalls(NamedTuple):
    """What a train calls, on its supervising thread: see ``Runner.train``."""

    on_outcome: Callable[[Passenger, Outcome], None]
    on_given_back: Callable[[Sequence[Passenger]], None]


class Train:
    """One train. Each passenger is handed either to ``on_outcome``, in their order, or to ``on_given_back``."""

    def __init__(
        self,
        passengers: Sequence[Passenger],
        child: Child,
        monotonic: Callable[[], float],
        calls: TrainCalls,
        on_task_started: Callable[[Child], None],
    ) -> None:
        self._passengers = passengers
        self._child = child
        self._limits = passengers[0].job.limits
        self._calls = calls
        self._ledger = TrainLedger(len(passengers))
        self._arrived: list[tuple[Finished | Failed, Verdict, int]] = []
        self._handed = 0
        self._ended = False
        self.talked = False
        """It has sent something that is not a result."""
        self.seconds = 0.0
        """Of all passengers that were answered, together."""
        self._supervisor = Supervisor(
            child,
            self._limits,
            monotonic,
            self._on_frame,
            Control(),
            on_wake=self._on_wake,
            on_task_started=lambda: on_task_started(child),
            on_round=self._on_round,
        )

    @property
    def answered(self) -> int:
        """The number of passengers that were answered."""
        return self._ledger.answered

    @property
    def child_reported_end(self) -> bool:
        """True if the child answered the last one that it began, and is still there."""
        return self._supervisor.child_reported_end

    def run(self, frames: Sequence[bytes]) -> bool:
        """Send ``frames``, one for each passenger, and wait for the end. True if the child may be used again."""
        self._child.issue_tickets(len(frames))
        for passenger in self._passengers:
            passenger.control.attach(self._child.wake)
        try:
            self._nap()
            verdict = self._supervisor.supervise(b"".join(frames))
            silent = not self.talked and not self._supervisor.log_collector.total
            whole = self._ledger.answered == self._ledger.size and silent and not self._ended
            self._finish(verdict)
            return whole and self.child_reported_end
        finally:
            for passenger in self._passengers:
                passenger.control.detach()

    def _finish(self, verdict: Verdict | None) -> None:
        """Charge the one that ran with the end of the child, and give back the others."""
        self._close()
        if verdict not in (None, _OVER):
            # What the child had written before it was stopped counts.
            self._supervisor.read_rest()
        running = self._ledger.running
        if verdict in (None, _OVER) or self.talked:
            running = None
        if running is not None and verdict is not None:
            self._answer(
                Outcome(
                    status=verdict.status,
                    signal=verdict.signal,
                    kill_reason=verdict.kill_reason,
                    error=outcome_error(verdict),
                    duration_seconds=self._supervisor.offset,
                    pid=self._child.pid,
                )
            )
        self._give_back(self._aboard())

    def _aboard(self) -> Sequence[Passenger]:
        """Return those who are neither answered nor given back."""
        return self._passengers[self._ledger.answered : len(self._passengers) - self._handed]

    def _close(self) -> None:
        """Take the tickets back, once, and give back those who have not begun."""
        if self._ledger.closed:
            return
        waiting = self._ledger.close(self._child.take_back_tickets())
        self._give_back([self._passengers[number] for number in waiting])

    def _give_back(self, passengers: Sequence[Passenger]) -> None:
        if passengers:
            self._handed += len(passengers)
            self._calls.on_given_back(passengers)

    def _on_frame(self, frame: FromGuest, size: int, memory: int) -> Verdict | None:
        del memory
        if not is_answer(frame):
            # A child that could not be set up says so to those who run alone.
            self.talked |= not isinstance(frame, Failed)
            self._ended = True
        if self._ended:
            return _OVER
        assert isinstance(frame, Finished | Failed)
        self._arrived.append((frame, verdict_of(frame, size, self._limits), size))
        if is_last_of_child(frame):
            self._ended = True
            return _OVER
        return _OVER if self._ledger.answered + len(self._arrived) >= self._ledger.size else None

    def _on_round(self) -> Verdict | None:
        """Hand out the answers that came, if nothing was printed with them: it is not known whose line it is."""
        if self._arrived:
            self._supervisor.drain_output()
        if self._supervisor.log_collector.total:
            self._arrived = []
            self.talked = True
            return _OVER
        if self._arrived:
            arrived, self._arrived = self._arrived, []
            durations = shares([frame.seconds for frame, _, _ in arrived], self._supervisor.offset)
            for (frame, verdict, size), seconds in zip(arrived, durations, strict=True):
                self.seconds += seconds
                self._answer(self._outcome(frame, verdict, seconds, size))
            self._supervisor.restart()
            self._nap()
        # A closed train is over when the one that ran is answered.
        return _OVER if self.talked or self._ledger.running is None else None

    def _outcome(self, frame: Finished | Failed, verdict: Verdict, seconds: float, size: int) -> Outcome:
        fields: dict[str, Any] = {}
        if isinstance(frame, Failed):
            fields = failure_fields(frame, self._limits)
        elif verdict.type == TOO_LARGE:
            fields["error"] = outcome_error(verdict)
        else:
            fields |= {"result": frame.value, "result_bytes": size}
            if frame.warnings:
                fields["warnings"] = [escape_control_characters(text) for text in frame.warnings]
        return Outcome(status=verdict.status, duration_seconds=seconds, pid=self._child.pid, **fields)

    def _answer(self, outcome: Outcome) -> None:
        passenger = self._passengers[self._ledger.answered]
        self._ledger.answered += 1
        passenger.control.ended.set()
        self._calls.on_outcome(passenger, outcome)

    def _nap(self) -> None:
        """Rest before the next read while several answers are to come."""
        left = self._ledger.size - self._ledger.answered
        self._supervisor.nap_seconds = _NAP_SECONDS if left > 1 and not self._ledger.closed else 0.0

    def _on_wake(self) -> Verdict | None:
        """Take out those who are not wanted any more; end the child if the one that runs is among them."""
        if not any(one.control.reason or one.control.withdrawn for one in self._aboard()):
            return None
        self._close()
        running = self._ledger.running
        if running is None:
            return _OVER
        reason = self._passengers[running].control.reason
        return None if reason is None else Verdict("killed", f"killed: {reason}", reason, type="Killed")


def train_frames(jobs: Sequence[Job], *, new: bool) -> list[bytes]:
    """Encode the tasks of a train: of the first passengers, as many as go well together.

    A ``new`` child gets the code with the first one. A job whose input cannot be sent is not among them.
    """
    frames: list[bytes] = []
    size = 0
    for number, job in enumerate(jobs[:MOST_TICKETS]):
        sent = job if new and not number else msgspec.structs.replace(job, codes={})
        try:
            frames.append(encode_for_guest(Start(job=sent, ticketed=True)))
        except (TypeError, ValueError, OverflowError, RecursionError):
            break
        size += len(frames[-1])
        if size > _MOST_BYTES:
            break
    return frames

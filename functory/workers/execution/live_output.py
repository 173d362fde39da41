"""Output of the attempts that run: their log lines, and their ended calls of dependencies, stored meanwhile.

The thread that renews the leases stores it (:mod:`functory.workers.execution.held_claims`): all new output of the
worker in one transaction, at most every ``seconds``, and only of attempts that are older than that. A short attempt
costs nothing; its result has all of its output. The lines come from the run with their secrets removed, and once more
with all secrets that the run has asked for.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from functory.engine.errors import Unavailable
from functory.engine.executions.attempt_output import AttemptOutput
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.workers.execution.job_mapping import log_row, span_row
from functory.workers.redaction.redactor import Redactor
from functory.workers.sandbox.protocol.control import Control

# Lines, and as many spans, of one attempt in one transaction: more would delay the leases.
MAX_ROWS = 2000


@dataclass(eq=False)
class RunningOutput:
    """The output of one attempt, and how much of it is stored."""

    key: tuple[str, int]
    control: Control
    redact: Redactor
    began_at: float
    # Its lines are stored while it runs; else its end stores those that are kept.
    with_lines: bool = True
    # There is a line that is not stored.
    is_new: bool = False
    lines_stored: int = 0
    spans_stored: int = 0
    seqs_of_spans: set[int] = field(default_factory=set)
    # A commit with some of the next rows may have succeeded.
    repeated: bool = False
    ended: bool = False
    # Held while output is stored: the end waits for it, and stores the rest.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> AttemptOutput | None:
        """Return the next rows; None when there are none."""
        source = self.control.output
        self.is_new = False
        if source is None or self.ended:
            return None
        lines = source.lines(self.lines_stored, MAX_ROWS) if self.with_lines else []
        spans = source.closed_spans(self.spans_stored, MAX_ROWS)
        if not lines and not spans:
            return None
        self.is_new = len(lines) == MAX_ROWS
        return AttemptOutput(
            self.key,
            [self.redact(log_row(line)) for line in lines],
            [self.redact(span_row(one)) for one in spans],
            self.repeated,
        )

    def rest_of(self, result: AttemptResult) -> AttemptResult:
        """Return the result of the attempt without the output that is stored already. The attempt has ended."""
        if not (self.lines_stored or self.spans_stored or self.repeated):
            return result
        return replace(
            result,
            logs=result.logs[self.lines_stored :],
            spans=[row for row in result.spans if row["seq"] not in self.seqs_of_spans],
            output_repeated=self.repeated,
        )

    def note_stored(self, output: AttemptOutput) -> None:
        """Note that these rows are stored."""
        self.lines_stored += len(output.logs)
        self.spans_stored += len(output.spans)
        self.seqs_of_spans.update(row["seq"] for row in output.spans)
        self.repeated = False


class LiveOutput:
    """The output of all attempts of one worker process. ``wake`` wakes the thread that calls :meth:`store`."""

    def __init__(self, attempts: Attempts, seconds: float, wake: Callable[[], None]) -> None:
        self._attempts = attempts
        self._seconds = seconds
        self._wake = wake
        self._running: dict[tuple[str, int], RunningOutput] = {}
        self._lock = threading.Lock()
        self._stored_at = -math.inf
        # The thread knows that output is to come.
        self._awaited = False

    def begin(
        self, key: tuple[str, int], control: Control, redact: Redactor, *, lines: bool = True
    ) -> RunningOutput:
        """Store the output of an attempt that begins to run now, its ``lines`` among it. Call it before the run, and
        :meth:`end` after it.
        """
        output = RunningOutput(key, control, redact, time.monotonic(), lines)

        def on_line() -> None:
            if not output.is_new:
                output.is_new = True
                self._expect()

        if lines:
            control.on_line = on_line
        with self._lock:
            self._running[key] = output
        return output

    def end(self, output: RunningOutput) -> None:
        """Store no more of an attempt. Its end stores the rest (:meth:`RunningOutput.rest_of`)."""
        with output.lock:
            output.ended = True
        with self._lock:
            self._running.pop(output.key, None)

    def due_at(self) -> float:
        """Return when :meth:`store` is due, in monotonic seconds; infinity when nothing is new."""
        with self._lock:
            # From now on a line wakes the thread again, unless a pause for it is already known.
            waiting = [output for output in self._running.values() if output.is_new]
            self._awaited = bool(waiting)
            if not waiting:
                return math.inf
            return max(min(output.began_at for output in waiting), self._stored_at) + self._seconds

    def store(self, now: float, *, also_spans: bool) -> None:
        """Store the new output of attempts that are old enough; ``also_spans`` even of those without a new line.

        Raises :class:`~functory.engine.errors.Unavailable`; the next call tries again.
        """
        with self._lock:
            old = [one for one in self._running.values() if now - one.began_at >= self._seconds]
        self._stored_at = now
        self._store([one for one in old if one.is_new or also_spans])

    def _expect(self) -> None:
        with self._lock:
            if self._awaited:
                return
            self._awaited = True
        self._wake()

    def _store(self, running: Sequence[RunningOutput]) -> None:
        taken: list[tuple[RunningOutput, AttemptOutput]] = []
        locked: list[RunningOutput] = []
        try:
            for one in running:
                one.lock.acquire()
                locked.append(one)
                if (output := one.take()) is not None:
                    taken.append((one, output))
            if taken:
                self._write(taken)
        finally:
            for one in locked:
                one.lock.release()

    def _write(self, taken: Sequence[tuple[RunningOutput, AttemptOutput]]) -> None:
        try:
            owned = self._attempts.store_output([output for _, output in taken])
        except BaseException as error:
            for one, _ in taken:
                one.is_new = True
                one.repeated |= isinstance(error, Unavailable)
            raise
        for one, output in taken:
            if one.key in owned:
                one.note_stored(output)
            else:
                # Another attempt has the execution.
                one.ended = True

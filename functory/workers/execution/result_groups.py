"""Results of a worker process on their way to the database: stored in groups, and none waits long.

The results of one message are stored together: when :data:`GROUP_SIZE` have come, when the first has waited
:data:`GROUP_SECONDS`, and when the message is done. So a lone execution is finished at once, a message of a hundred
costs a few transactions, and no result waits for a slow execution of its message.
"""

from __future__ import annotations

import heapq
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from functory.engine.errors import Stale, Unavailable
from functory.engine.executions import execution_spans
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claims import Claim
from functory.engine.executions.retry_or_dead import AttemptResult, NextState
from functory.engine.telemetry import metrics, traces
from functory.engine.telemetry.traces import Span
from functory.workers.execution.held_claims import HeldClaims, Running
from functory.workers.execution.unavailable_retry import retry_while_unavailable

log = structlog.get_logger("functory.worker")

# A larger transaction would cost little less for each result.
GROUP_SIZE = 200
# The longest wait for others of the message. A commit takes a few milliseconds itself.
GROUP_SECONDS = 0.02
# Longest pause between two tries to store results while the database is unavailable.
MAX_PAUSE_SECONDS = 5.0


# An attempt that has ended, and its result.
Ended = tuple[Running, AttemptResult]


class ResultGroups:
    """Stores the results of one worker process. ``closed`` ends the wait for an unavailable database."""

    def __init__(self, attempts: Attempts, held_claims: HeldClaims, closed: threading.Event) -> None:
        self._attempts = attempts
        self._held_claims = held_claims
        self._closed = closed
        self._timer = _Timer()

    def group(self, count: int) -> ResultGroup:
        """Return a group for the claims of one message; each of the ``count`` is added to it or dropped."""
        return ResultGroup(count, self._store, self._held_claims, self._timer.watch)

    def close(self) -> None:
        """Stop the thread that stores results whose group is incomplete; waits up to 5 seconds for it."""
        self._timer.close()

    def _store(self, ended: Sequence[Ended]) -> None:
        """Store results and forget their claims. While the database is unavailable, keep both and try again."""

        def log_wait(error: Unavailable) -> None:
            ids = [running.claim.id for running, _ in ended]
            log.warning("database unavailable, results wait", execution_ids=ids, reason=error.why)

        results = [(running.claim, result) for running, result in ended]
        try:
            following = retry_while_unavailable(
                lambda: self._attempts.finish_many(results),
                self._closed,
                longest_pause=MAX_PAUSE_SECONDS,
                on_wait=log_wait,
            )
            for (running, result), next_state in zip(ended, following, strict=True):
                if isinstance(next_state, Exception):
                    self._record_refusal(running, next_state)
                else:
                    _record(running, result, next_state)
        except Unavailable as error:
            # The leases expire, and the reaper makes the executions claimable again.
            for running, _ in ended:
                id_ = running.claim.id
                log.warning("execution abandoned, its lease will expire", execution_id=id_, reason=error.why)
        except Exception as error:
            for running, _ in ended:
                self._record_refusal(running, error)
        finally:
            self._held_claims.remove([running for running, _ in ended])

    def _record_refusal(self, running: Running, error: Exception) -> None:
        claim = running.claim
        if isinstance(error, Stale):
            metrics.zombies.inc()
            log.warning("lease lost, result refused", execution_id=claim.id, fence=claim.fence)
            return
        crashed = defect(claim, error, running.redact)
        try:
            _record(running, crashed, self._attempts.finish(claim, crashed))
        except Exception:
            log.exception("defect not recorded, the lease will expire", execution_id=claim.id)


class ResultGroup:
    """The results of one message. :meth:`add` and :meth:`drop` may be called from many threads."""

    def __init__(
        self,
        count: int,
        store: Callable[[Sequence[Ended]], None],
        held_claims: HeldClaims,
        watch: Callable[[ResultGroup, float], None],
    ) -> None:
        self._open = count
        self._store = store
        self._held_claims = held_claims
        self._watch = watch
        self._waiting: list[Ended] = []
        self._lock = threading.Lock()
        # Held while results are stored: the call that completes the group returns when all are.
        self._storing = threading.Lock()

    def add(self, running: Running, attempt_result: AttemptResult, *, later: bool = False) -> None:
        """Store a result, with others of the message if more are to come.

        The result of an attempt that may have had effects outside is stored at once: the shorter the time, the less
        likely is a crash after which it runs again. With ``later`` the call does not wait for the database:
        :meth:`settle` does.
        """
        with self._lock:
            self._open -= 1
            self._waiting.append((running, attempt_result))
            count = len(self._waiting)
            now = self._open <= 0 or count >= GROUP_SIZE or bool(running.claim.grants)
        if now and not later:
            self.flush()
        elif count == GROUP_SIZE:
            self._watch(self, 0.0)
        elif count == 1 and (self._open or later):
            self._watch(self, GROUP_SECONDS)

    def drop(self, running: Running, *, later: bool = False) -> None:
        """Forget a claim without a result. ``later`` as in :meth:`add`."""
        self._held_claims.remove([running])
        with self._lock:
            self._open -= 1
        if not later:
            self.settle()

    def settle(self) -> None:
        """Store what waits if the group is complete."""
        if self._open <= 0:
            self.flush()

    def flush(self) -> None:
        """Store what waits. Returns when it is stored, or cannot be."""
        with self._storing:
            with self._lock:
                taken, self._waiting = self._waiting, []
            if taken:
                self._store(taken)


class _Timer:
    """A thread that flushes groups when they are due. It starts with the first group."""

    def __init__(self) -> None:
        # Times, a number for those of the same time, and groups: a heap.
        self._watched: list[tuple[float, int, ResultGroup]] = []
        self._count = 0
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def watch(self, group: ResultGroup, seconds: float) -> None:
        """Flush ``group`` in ``seconds``."""
        with self._changed:
            self._count += 1
            heapq.heappush(self._watched, (time.monotonic() + seconds, self._count, group))
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="functory-results", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._watched and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                due, _, group = self._watched[0]
                pause = due - time.monotonic()
                if pause > 0:
                    self._changed.wait(pause)
                    continue
                heapq.heappop(self._watched)
            try:
                group.flush()
            except Exception:
                log.exception("results not stored")


def defect(claim: Claim, error: Exception, redact: Callable[[Any], Any]) -> AttemptResult:
    """Log a defect of the worker, and return the result of the attempt: it is retried as after a crash."""
    log.error(
        "execution failed by a defect of the worker",
        execution_id=claim.id,
        # Its text may quote what the code has sent.
        exception=redact("".join(traceback.format_exception(error))),
    )
    record: dict[str, Any] = redact({"type": type(error).__name__, "message": str(error)})
    return AttemptResult("crashed", error=record)


def _record(running: Running, result: AttemptResult, next_state: NextState) -> None:
    """Count an attempt that is stored, and record its spans."""
    row = running.claim.row
    function = metrics.function_label(row.function)
    metrics.execution_attempts.labels(result.outcome).inc()
    trace = traces.exemplar(row.root_id)
    metrics.observe(metrics.execution_duration.labels(function), result.duration_seconds, trace)
    if next_state.state == "succeeded":
        metrics.execution_output.observe(result.result_bytes)
    if next_state.state != "queued":
        metrics.executions_finished.labels(function, next_state.state).inc()
    if (recorder := traces.recorder) is not None:
        recorder.record(_spans(running, result, next_state))


def _spans(running: Running, result: AttemptResult, next_state: NextState) -> list[Span]:
    return execution_spans.of_attempt(
        running.claim,
        result.outcome,
        result.error,
        # An attempt that was refused has run nothing.
        ended_at=running.ended_at or running.claim.claimed_at,
        duration_seconds=result.duration_seconds,
        calls=running.calls,
        final_state=None if next_state.state == "queued" else next_state.state,
    )

"""The shutdown signals of a worker: the first ends it softly, the second hard.

The first SIGTERM or SIGINT: claim nothing more, let executions run for ``grace_seconds``, release the others, exit with
0. The second, or SIGQUIT: kill the children, try for two seconds to release their executions (else their leases
expire), exit with 128 + the signal's number as if the signal had killed the process. A third exits at once. No child
survives: the kernel kills a worker's children with it.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable

import structlog

from functory.engine import role_state
from functory.engine.errors import FunctoryError

log = structlog.get_logger("functory.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)

# A hard shutdown takes at most this long: one transaction that releases the executions.
HARD_SECONDS = 2.0
# Time after the grace period to release the killed executions.
LATE_SECONDS = 5.0
# sysexits.h, EX_TEMPFAIL: the supervisor starts the worker again.
EX_TEMPFAIL = 75


class ShutdownSignals:
    """Ends a worker process within a bounded time, even when one of its threads hangs.

    ``drain(grace)`` makes the worker end within ``grace`` seconds; ``close`` releases its executions and deregisters
    it. Each runs on its own thread. The worker calls :meth:`mark_finished` after an orderly end.
    """

    def __init__(self, grace: float, drain: Callable[[float], None], close: Callable[[], None]) -> None:
        self._grace = grace
        self._drain = drain
        self._close = close
        self._request_count = 0
        self._finished = threading.Event()
        self.status = 0

    def install(self, read_earlier_signals: Callable[[], bytes] = bytes) -> ShutdownSignals:
        """Install the signal handlers; in the main thread only.

        ``read_earlier_signals`` returns the numbers of the signals that an earlier handler received: a worker that is
        stopped during its start ends.
        """
        # The interpreter writes signals to a pipe and a thread reads them: a Python handler would run only after the
        # main thread returns from its wait.
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        # Children handle their own signals.
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        for number in SIGNALS:
            signal.signal(number, _nothing)
        for number in read_earlier_signals():
            self._on_signal(number)
        threading.Thread(target=self._listen, args=(read_end,), name="functory-signals", daemon=True).start()
        return self

    def shut_down(self, status: int) -> None:
        """End softly with this exit status, without a signal."""
        self._request_count = max(self._request_count, 1)
        self._start_shutdown(hard=False, status=status)

    def shut_down_after(self, error: FunctoryError) -> None:
        """End softly because of an error, with its exit status; does nothing in a shutdown."""
        if not self.requested:
            log.error("ended by itself", what=error.what, why=error.why, hint=error.try_)
            self.shut_down(error.code)

    @property
    def requested(self) -> bool:
        """True once a shutdown was requested."""
        return self._request_count > 0

    def mark_finished(self) -> None:
        """Note the orderly end of the worker."""
        self._finished.set()

    def wait_finished(self, timeout: float) -> bool:
        """Wait for :meth:`mark_finished`. False after ``timeout`` seconds."""
        return self._finished.wait(timeout)

    def _listen(self, read_end: int) -> None:
        while True:
            for number in os.read(read_end, 64):
                if number in SIGNALS:
                    self._on_signal(number)

    def _on_signal(self, number: int) -> None:
        self._request_count += 1
        if self._request_count > 2:
            os._exit(128 + number)
        hard = self._request_count > 1 or number == signal.SIGQUIT
        self._start_shutdown(hard=hard, status=128 + number if hard else 0)

    def _start_shutdown(self, *, hard: bool, status: int) -> None:
        self.status = status
        threading.Thread(target=self._run_shutdown, args=(hard,), name="functory-end", daemon=True).start()

    def _run_shutdown(self, hard: bool) -> None:
        until = time.monotonic() + (HARD_SECONDS if hard else self._grace + LATE_SECONDS)
        log.info("worker stopping", grace_seconds=0 if hard else self._grace)
        role_state.report_stopping()
        grace = 0.0 if hard else self._grace
        threading.Thread(target=self._drain, args=(grace,), name="functory-draining", daemon=True).start()
        if hard:
            self._close_within(HARD_SECONDS)
            os._exit(self.status)
        if not self._finished.wait(max(0.0, until - time.monotonic())):
            # Celery waits for a broker that does not answer. Nothing of the worker's own depends on it.
            if self._close_within(LATE_SECONDS):
                log.warning("worker ended without waiting for its broker any longer")
                os._exit(self.status)
            _log_blocking_threads("worker did not end in time")
            os._exit(self.status or 1)
        # The interpreter waits for threads of libraries, possibly for ever; the worker itself has closed everything.
        time.sleep(LATE_SECONDS)
        _log_blocking_threads("exit blocked by threads after an orderly end")
        os._exit(self.status)

    def _close_within(self, seconds: float) -> bool:
        """Release the executions and deregister the worker. True when that was done within ``seconds``."""
        leaving = threading.Thread(target=self._close, name="functory-leave", daemon=True)
        leaving.start()
        leaving.join(seconds)
        return not leaving.is_alive()


def _log_blocking_threads(what: str) -> None:
    """Log the threads that block the end, with their stacks."""
    log.warning(what, threads=sorted(thread.name for thread in threading.enumerate() if not thread.daemon))
    faulthandler.dump_traceback(all_threads=True)


def _nothing(_number: int, _frame: object) -> None:
    """Handle nothing: only signals with a Python handler are written to the pipe."""

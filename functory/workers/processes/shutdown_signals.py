"""What signals ask of a worker: softly at the first, hard at the second.

The first SIGTERM or SIGINT: take nothing new, let executions end for ``grace_seconds``, give back what is not done,
end with 0. The second, or SIGQUIT: kill what runs, try for two seconds to give it back (else its lease ends), end with
128 + the signal's number as if it had killed the process. A third ends at once. None of them leaves a child behind:
the kernel kills a worker's children with it.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable

import structlog

log = structlog.get_logger("functory.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)

# What may take this long even when it is to be hard: a transaction that gives back what ran.
HARD_SECONDS = 2.0
# After the grace time: what runs was killed by then, and is being given back.
LATE_SECONDS = 5.0
# sysexits.h, EX_TEMPFAIL: start me again.
EX_TEMPFAIL = 75


class ShutdownSignals:
    """Ends a worker's process; each of its ends is bounded, whatever hangs in there.

    ``drain(grace)`` makes the worker end within ``grace`` seconds; ``leave`` gives back what still runs and signs
    off. Both are called on threads of their own. :meth:`over` is called by who has ended in order.
    """

    def __init__(self, grace: float, drain: Callable[[float], None], close: Callable[[], None]) -> None:
        self._grace = grace
        self._drain = drain
        self._close = close
        self._request_count = 0
        self._finished = threading.Event()
        self.status = 0

    def install(self, read_earlier_signals: Callable[[], bytes] = bytes) -> ShutdownSignals:
        """Take over the signals; in the main thread only.

        ``earlier`` gives the numbers of the signals that whoever listened until now has heard: a worker that is asked
        to end while it starts ends.
        """
        # Written below the interpreter and read by a thread: the kernel may give a signal to any thread, and a handler
        # would run only when the main one comes back from where it waits.
        heard, bell = os.pipe()
        os.set_blocking(bell, False)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        # Children have signals of their own.
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        for number in SIGNALS:
            signal.signal(number, _nothing)
        for number in read_earlier_signals():
            self._on_signal(number)
        threading.Thread(target=self._listen, args=(heard,), name="functory-signals", daemon=True).start()
        return self

    def shut_down(self, status: int) -> None:
        """End softly with this status, not because of a signal."""
        self._request_count = max(self._request_count, 1)
        self._start_shutdown(hard=False, status=status)

    @property
    def requested(self) -> bool:
        """Whether the end was asked for."""
        return self._request_count > 0

    def mark_finished(self) -> None:
        """The worker has ended in order."""
        self._finished.set()

    def wait_finished(self, timeout: float) -> bool:
        """Wait for that."""
        return self._finished.wait(timeout)

    def _listen(self, heard: int) -> None:
        while True:
            for number in os.read(heard, 64):
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
        log.info("stopping", grace_seconds=0 if hard else self._grace)
        grace = 0.0 if hard else self._grace
        threading.Thread(target=self._drain, args=(grace,), name="functory-draining", daemon=True).start()
        if hard:
            leaving = threading.Thread(target=self._close, name="functory-leave", daemon=True)
            leaving.start()
            leaving.join(HARD_SECONDS)
            os._exit(self.status)
        if not self._finished.wait(max(0.0, until - time.monotonic())):
            _log_blocking_threads("did not end in time")
            os._exit(self.status or 1)
        # The interpreter waits for threads of libraries, and may do so for ever; nothing of ours is open any more.
        time.sleep(LATE_SECONDS)
        _log_blocking_threads("ended in order, and was held up")
        os._exit(self.status)


def _log_blocking_threads(what: str) -> None:
    """Who holds up the end: the only trace of it, when somebody asks tomorrow."""
    log.warning(what, threads=sorted(one.name for one in threading.enumerate() if not one.daemon))
    faulthandler.dump_traceback(all_threads=True)


def _nothing(_number: int, _frame: object) -> None:
    """A signal without a handler of Python's would not be written to the pipe."""

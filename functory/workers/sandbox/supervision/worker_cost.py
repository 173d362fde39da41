"""Counts what one run costs its worker: the memory of what it has sent, and the CPU time of handling that.

A child is held to its limits by the kernel, but the worker decodes what it sends, and has to keep some of it. So
that no child makes its worker do or hold more than it may do or hold itself, both count against the limits of its run.
"""

from __future__ import annotations

import time

from functory.workers.sandbox.protocol.decoded_size import decoded_size
from functory.workers.sandbox.protocol.frames import FromGuest, decode_guest
from functory.workers.sandbox.protocol.job import ChildLimits
from functory.workers.sandbox.supervision.verdict import Verdict

# A value that a function sends exists at least twice in its own memory: as it is, and as it is sent.
_MEMORY_SHARE = 2
_CPU_SHARE = 4
_LEAST_CPU_SECONDS = 1.0
# An ordinary request costs some milliseconds. How many there may be is limited by itself.
_REQUEST_SECONDS = 0.05


class TooCostly(Exception):
    """The run has cost its worker more than it may; ``verdict`` ends it."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


class WorkerCost:
    """The cost of one run. Used by the thread that supervises the run, and by no other.

    ``memory_bytes`` is what the worker holds for the run now.
    """

    def __init__(self, limits: ChildLimits) -> None:
        self.memory_bytes = 0
        self._most_memory = limits.memory_bytes // _MEMORY_SHARE
        self._most_cpu = max(_LEAST_CPU_SECONDS, limits.cpu_seconds / _CPU_SHARE)
        self._memory_limit = limits.memory_bytes
        self._started = 0.0
        self._elsewhere = 0.0

    def start(self) -> None:
        """Begin to count the CPU time of the calling thread."""
        self._started = time.thread_time()

    def decode(self, payload: bytes) -> tuple[FromGuest, int]:
        """Decode a frame, and return it with the bytes of memory that it takes at most.

        Raises ``ProtocolError``, and ``TooCostly`` before anything is decoded.
        """
        left = self._most_memory - self.memory_bytes
        size = decoded_size(payload, left)
        if size > left:
            raise TooCostly(
                Verdict(
                    "output_too_large",
                    f"what it sent would take more than {self._most_memory} bytes of the worker's memory: half of its "
                    f"memory_bytes ({self._memory_limit}), for everything that it sends at the same time\n"
                    "try: send smaller or flatter values, fewer at the same time, or raise memory_bytes",
                    "worker_memory",
                    type="OutputTooLarge",
                )
            )
        return decode_guest(payload), size

    def hold(self, size: int) -> None:
        """Count ``size`` bytes as held until they are released."""
        self.memory_bytes += size

    def release(self, size: int) -> None:
        self.memory_bytes -= size

    def answered(self, cpu_seconds: float) -> None:
        """Count the CPU time that another thread took to answer one request."""
        self._elsewhere += max(0.0, cpu_seconds - _REQUEST_SECONDS)

    def exclude(self, cpu_seconds: float) -> None:
        """Leave out CPU time of the calling thread that no message of the child has caused."""
        self._started += cpu_seconds

    def verdict(self) -> Verdict | None:
        """Return how the run ends if it has taken too much CPU time of the worker."""
        if time.thread_time() - self._started + self._elsewhere <= self._most_cpu:
            return None
        return Verdict(
            "timed_out",
            f"its messages and its output took more than {self._most_cpu:g} s of the worker's CPU\n"
            "try: send and print less, or raise cpu",
            "worker_cpu",
            type="TimedOut",
        )

"""Background services: the contract between a role and the work that it repeats.

A role runs each service in a loop of its own (:class:`functory.roles.service_loop.ServiceLoop`). Any number of
processes may run the same service: rows are claimed or locked, so no process is a leader.

    class Sweeper(Service):
        name, topic, poll_seconds = "sweeper", None, 60.0

        def run_once(self) -> bool:
            return self._sweep(limit=1000) == 1000
"""

from __future__ import annotations

from typing import Protocol

# Under load a service waits this long before its next round, so that the work that comes in meanwhile shares one
# transaction. Load means that a wake-up signal comes within this time after a round.
COALESCE_SECONDS = 0.002
# A round that takes longer than this hangs: statements and messages without an answer fail after seconds.
STALL_SECONDS = 300.0


class Service(Protocol):
    """One kind of background work.

    - ``name``: in logs, in ``/readyz`` and as the name of the thread.
    - ``topic``: wake-up signal that starts a round early; None for a service that only polls.
    - ``poll_seconds``: longest time between two rounds; a multiple of it while wake-up signals arrive.
    - ``coalesce_seconds``: pause after a wake-up signal under load; none when the service was idle for longer.
    - ``stall_seconds``: a round that takes longer makes no progress, and its process ends.
    """

    name: str
    topic: str | None
    poll_seconds: float
    coalesce_seconds: float = COALESCE_SECONDS
    stall_seconds: float = STALL_SECONDS

    def run_once(self) -> bool:
        """Run one round. True when more work may be ready now. Raises :class:`Unavailable`."""
        ...

    def next_due(self) -> float | None:
        """Return the seconds until the next round is needed; None when only a wake-up signal or the poll interval
        decides.
        """
        return None

    def close(self) -> None:
        """Release connections and claims. Called once, after the last round."""
        return

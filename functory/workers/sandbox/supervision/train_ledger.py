"""Keeps the account of a train: who was answered, who runs, who has not begun. Pure.

The passengers of a train run one after another, in their order, and each takes a ticket before it begins. So passenger
k + 1 begins after the result of passenger k was written, and the number of tickets that are left says who has begun.
While tickets are out the account is only a bound; once they were taken back it is exact.
"""

from __future__ import annotations

from functory.workers.sandbox.protocol.frames import Failed, Finished, FromGuest


class TrainLedger:
    """The account of ``size`` passengers. ``answered`` is the number of those whose result has come."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.answered = 0
        self._begun: int | None = None

    @property
    def closed(self) -> bool:
        """True if the tickets were taken back, so that no more passengers begin."""
        return self._begun is not None

    def close(self, tickets: int) -> range:
        """Note that ``tickets`` were taken back. Return the passengers that have not begun, and never will here."""
        assert self._begun is None, "the tickets are taken back once"
        self._begun = self.size - tickets
        return range(max(self._begun, self.answered), self.size)

    @property
    def running(self) -> int | None:
        """The passenger that runs, or the first one that may; None when no one does."""
        begun = self.size if self._begun is None else self._begun
        return self.answered if self.answered < begun else None


def is_answer(frame: FromGuest) -> bool:
    """Return True for the result of a passenger; any other frame ends a train."""
    return isinstance(frame, Finished) or (isinstance(frame, Failed) and frame.kind != "setup")


def is_last_of_child(frame: Finished | Failed) -> bool:
    """Return True if the child begins no one after this answer: it is not as it was."""
    return isinstance(frame, Failed) or bool(frame.leftover)


def shares(told: list[float], most: float) -> list[float]:
    """Return the durations of passengers whose answers came together, as the child has told them.

    It is not believed more than the ``most`` seconds for which the worker has waited for all of them.
    """
    found: list[float] = []
    for seconds in told:
        found.append(min(seconds, most))
        most -= found[-1]
    return found

"""The claim record: an execution that one attempt owns, and all that it needs to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.access.grants import NOTHING, Grants
from functory.engine.errors import FunctoryError
from functory.engine.events.causation import Cause
from functory.engine.functions.limits import Limits


@dataclass(frozen=True)
class Claim:
    """One attempt that this worker owns: the execution's row and the exact code it runs.

    ``codes`` holds version rows by ``name@number``, the entry first. ``problem`` says why it cannot
    run (a dependency is missing): it is then finished without starting anything. ``grants`` are those of all
    its codes together, for they share a process.
    """

    row: Mapping[str, Any]
    version: Mapping[str, Any]
    codes: Mapping[str, Mapping[str, Any]]
    limits: Limits
    problem: FunctoryError | None = None
    grants: Grants = NOTHING
    grant_warnings: Sequence[str] = ()
    # Seconds between the first sending and this claim; None if no message was sent.
    queued_seconds: float | None = None

    @property
    def id(self) -> str:
        return self.row["id"]

    @property
    def fence(self) -> int:
        return self.row["fence"]

    @property
    def cause(self) -> Cause:
        """The cause that events and executions of this attempt carry."""
        return Cause.from_row(self.row)

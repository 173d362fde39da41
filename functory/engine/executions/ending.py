"""The ending of an attempt: its result, and what follows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.executions.claims import Claim
from functory.engine.executions.retry_or_dead import AttemptResult, NextState


@dataclass(frozen=True)
class Ending:
    """The result of one attempt, and what follows it. ``matched`` are the output patterns of a success, each with its
    groups.
    """

    claim: Claim
    attempt_result: AttemptResult
    next_state: NextState
    matched: Sequence[tuple[str, Mapping[str, Any]]] = ()

    @property
    def key(self) -> tuple[str, int]:
        """The execution's id and the claim's fence."""
        return self.claim.id, self.claim.fence

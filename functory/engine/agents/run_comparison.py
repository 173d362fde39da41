"""How a rerun compares with the run that it repeats. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from functory.engine.serialization import json_codec

# same: both have the same result. differs: both have succeeded, with other results. broken: it succeeded, and does not
# now. mended: the other way round. fails: neither succeeds. open: it has not ended yet.
Verdict = Literal["same", "differs", "broken", "mended", "fails", "open"]


@dataclass(frozen=True)
class Spent:
    """What the tree of a run has used; ``usd`` in nano-dollars."""

    steps: int
    calls: int
    usd: int

    @classmethod
    def of(cls, own: Mapping[str, Any]) -> Spent:
        """Read it from a run with its meter (:meth:`functory.engine.executions.runs.service.Runs.get`)."""
        meter = own["spent"] or {}
        return cls(own["step"], meter.get("calls", 0), meter.get("usd_spent", 0))


def has_passed(own: Mapping[str, Any]) -> bool:
    """Return True for a run that has reached its goal, and whose checks say so if its agent has any."""
    return own["state"] == "succeeded" and own["checked"] is not False


def verdict_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> Verdict:
    """Compare a rerun with its source."""
    if now["ended_at"] is None:
        return "open"
    if not has_passed(now):
        return "broken" if has_passed(before) else "fails"
    if not has_passed(before):
        return "mended"
    is_same = json_codec.digest(before["result"]) == json_codec.digest(now["result"])
    return "same" if is_same else "differs"


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many of some runs have passed, and what they have used together."""
    used = [Spent.of(one) for one in runs]
    passed = sum(has_passed(one) for one in runs)
    return {
        "runs": len(runs),
        "passed": passed,
        "pass_rate": passed / len(runs) if runs else 0.0,
        "steps": sum(one.steps for one in used),
        "calls": sum(one.calls for one in used),
        "usd": sum(one.usd for one in used),
    }

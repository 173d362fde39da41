"""Progress detectors: does a run get anywhere? Pure, over the steps of the run.

Six of them look at the last :data:`WINDOW` steps. The first five warn, and end the run when it goes on as before; the
sixth only warns, because limits end a run by themselves. A run that polls is let alone: results that change are
progress, and a pause between two looks (``step.wait``) is none of a loop's.

=================  ===========================================================================  =============
detector           what repeats                                                                 reason
=================  ===========================================================================  =============
identical_call     the same request with the same result                                        loop
ping_pong          two requests in turn, with the same results                                  loop
repeated_error     the same error, whatever was asked                                           loop
no_new_result      results that were all there before                                           no_progress
plan_unchanged     a plan (``memo["plan"]``) of which nothing changes, with no new result       no_progress
budget_burn        nothing: most of a limit is used                                             none
=================  ===========================================================================  =============
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from functory.engine.serialization import json_codec

WINDOW = 20
# How often something repeats before the run gets a notice, and before it ends.
IDENTICAL, PING_PONG, ERRORS = (3, 4), (3, 4), (3, 5)
# Steps without anything new.
NOTHING_NEW, SAME_PLAN = (8, 12), (10, 16)
BURNT = 0.8

Reason = Literal["loop", "no_progress"]
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")


@dataclass(frozen=True)
class Step:
    """One step as the detectors see it: hashes of what it was given, of its plan, and of what it asked for; of the
    error it was given, if it was one. ``paused`` says that it asked for a pause.
    """

    number: int
    given: str | None
    asked: str | None = None
    plan: str | None = None
    error: str | None = None
    paused: bool = False

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Step:
        """Return the step of a row of ``run_step``."""
        return cls(
            row["number"],
            row["given_hash"],
            row["asked_hash"],
            row["plan_hash"],
            row["error_hash"],
            row["paused"],
        )


@dataclass(frozen=True)
class Finding:
    """What a detector has found. ``stops``: the run has had its notice. ``steps`` are the numbers that show it."""

    detector: str
    reason: Reason
    message: str
    steps: Sequence[int]
    stops: bool


def look(steps: Sequence[Step]) -> Finding | None:
    """Return what is found in the steps of a run, oldest first; the last one is about to start. A finding that stops
    comes before one that warns.
    """
    window = steps[-WINDOW:]
    found = [
        finding
        for detect in (_identical_call, _ping_pong, _repeated_error, _no_new_result, _plan_unchanged)
        if (finding := detect(window)) is not None
    ]
    return next((one for one in found if one.stops), found[0] if found else None)


def burn(used: Mapping[str, float]) -> str | None:
    """Return the notice for a run whose limits are used up to these shares."""
    name, share = max(used.items(), key=lambda item: item[1], default=("", 0.0))
    if share < BURNT:
        return None
    return f"{share:.0%} of the limit {name} is used: finish now"


def hash_of(value: Any) -> str | None:
    """Return the hash of what a step was given or asked for; ids and costs are no part of it."""
    return None if value is None else json_codec.digest(_plain(value))


def error_of(given: Any) -> str | None:
    """Return the hash of the error in what a step was given: of its step, or of all of its calls. Numbers in the text
    do not tell errors apart.
    """
    if not isinstance(given, Mapping):
        return None
    if given.get("kind") == "problem":
        errors = [given["error"]]
    else:
        results = given.get("results") or []
        errors = [result.get("error") or {} for result in results if not result["ok"]]
        if not errors or len(errors) < len(results):
            return None
    texts = [[str(one.get("type")), _NUMBERS.sub("#", str(one.get("message")))] for one in errors]
    return json_codec.digest(texts)


_OWN = frozenset({
    "id", "call_id", "execution_id", "approval_id", "usage", "cost_usd", "replayed", "finish_reason", "notice",
})  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if key not in _OWN}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _pairs(steps: Sequence[Step]) -> list[tuple[str, str, int]]:
    """Return each request with its result and the number of its step, since the last pause."""
    found: list[tuple[str, str, int]] = []
    for one, following in itertools.pairwise(steps):
        if one.paused:
            found = []
        elif one.asked is not None and following.given is not None:
            found.append((one.asked, following.given, one.number))
    return found


def _identical_call(steps: Sequence[Step]) -> Finding | None:
    pairs = _pairs(steps)
    if not pairs:
        return None
    same = [number for asked, given, number in pairs if (asked, given) == pairs[-1][:2]]
    message = f"the same request had the same result {len(same)} times"
    return _finding("identical_call", "loop", len(same), IDENTICAL, message, same)


def _ping_pong(steps: Sequence[Step]) -> Finding | None:
    pairs = _pairs(steps)
    cycles = 0
    last = [pair[:2] for pair in pairs]
    if len(last) < 2 or last[-1] == last[-2]:
        return None
    while last[-2:] == [pair[:2] for pair in pairs[-2:]]:
        cycles, last = cycles + 1, last[:-2]
    numbers = [number for _, _, number in pairs[len(pairs) - 2 * cycles :]]
    message = f"two requests had the same results in turn, {cycles} times"
    return _finding("ping_pong", "loop", cycles, PING_PONG, message, numbers)


def _repeated_error(steps: Sequence[Step]) -> Finding | None:
    if not steps or steps[-1].error is None:
        return None
    since = _since_pause(steps)
    same = [one.number for one in since if one.error == steps[-1].error]
    return _finding(
        "repeated_error", "loop", len(same), ERRORS, f"the same error came {len(same)} times", same
    )


def _no_new_result(steps: Sequence[Step]) -> Finding | None:
    since = _since_pause(steps)
    seen: set[str] = set()
    old: list[int] = []
    for one in since:
        if one.given is None:
            continue
        if one.given in seen:
            old.append(one.number)
        else:
            seen.add(one.given)
            old = []
    message = f"{len(old)} steps in a row have brought nothing new"
    return _finding("no_new_result", "no_progress", len(old), NOTHING_NEW, message, old)


def _plan_unchanged(steps: Sequence[Step]) -> Finding | None:
    since = _since_pause(steps)
    if not since or since[-1].plan is None:
        return None
    same: list[int] = []
    for one in reversed(since):
        if one.plan != since[-1].plan:
            break
        same.append(one.number)
    # What is new is progress, also under a plan that stays.
    given = [one.given for one in since if one.number in same and one.given is not None]
    if len(set(given)) > len(given) // 2:
        return None
    message = f"nothing of the plan has changed in {len(same)} steps"
    return _finding("plan_unchanged", "no_progress", len(same), SAME_PLAN, message, same[::-1])


def _since_pause(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps after the last one that asked for a pause."""
    last = max((place for place, one in enumerate(steps) if one.paused), default=-1)
    return steps[last + 1 :]


def _finding(
    detector: str, reason: Reason, count: int, most: tuple[int, int], message: str, steps: Sequence[int]
) -> Finding | None:
    warns, stops = most
    return Finding(detector, reason, message, list(steps), count >= stops) if count >= warns else None

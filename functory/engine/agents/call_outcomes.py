"""What follows the sending of a call: it ends, it is sent again later, or another model is asked. Pure.

A call that may have been answered, but whose answer was lost, is *unknown*: it may have cost money, and so it is never
sent again by the engine. Its reservation stays spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from functory.engine.backoff import HALF, pause

# Tries of one model for one call.
MAX_TRIES = 3
# Times that a model is asked to repair an answer that is not what was asked for.
MAX_REPAIRS = 1
# A provider that asks for more patience is not waited for.
MOST_RETRY_AFTER = 60.0
RETRY_SECONDS, MOST_RETRY_SECONDS = 0.5, 20.0

# retry: nothing was answered, and later it may be; final: the request is wrong; lost: it may have been answered.
FailureKind = Literal["retry", "final", "lost"]


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer. ``estimated``: the provider told none, and they were counted by us."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    estimated: bool = False


@dataclass(frozen=True)
class Answer:
    """A model's answer, in our form: ``text``, ``tool_calls``, ``value``, or ``vectors``."""

    response: Mapping[str, Any]
    usage: Usage
    finish_reason: str = "stop"
    status: int = 200
    # Messages to send after the request's own, when the answer is not what was asked for; and what is wrong with it.
    repair: Sequence[Mapping[str, Any]] | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Failure:
    """No answer. ``provider``: it tells something about the provider's health. ``charged``: the try may have cost
    money, as much as was reserved for it.
    """

    kind: FailureKind
    problem: str
    status: int | None = None
    retry_after: float | None = None
    provider: bool = True
    charged: bool = False


Outcome = Answer | Failure


@dataclass(frozen=True)
class Next:
    """What follows: an end, or (``queued``) a further try of ``model`` at ``due_at``."""

    state: Literal["succeeded", "failed", "unknown", "queued"]
    model: str
    due_at: datetime | None = None
    repair: Sequence[Mapping[str, Any]] | None = None
    same_model: bool = True


def next_of(
    call: Mapping[str, Any], fallbacks: Sequence[str], outcome: Outcome, now: datetime, draw: float
) -> Next:
    """Decide what follows the outcome of a try of ``call``. ``fallbacks`` are the models that may be asked after the
    present one; ``draw`` is a random number from 0 to 1.
    """
    asked = call["asked"]
    if isinstance(outcome, Answer):
        if outcome.repair is None:
            return Next("succeeded", asked)
        if len(call["repair"] or ()) >= 2 * MAX_REPAIRS:
            return Next("failed", asked)
        return Next("queued", asked, now, [*(call["repair"] or ()), *outcome.repair])
    if outcome.kind == "lost":
        return Next("unknown", asked)
    if outcome.kind == "retry":
        wait = outcome.retry_after if outcome.retry_after is not None else _wait(call["model_tries"], draw)
        if call["model_tries"] < MAX_TRIES and wait <= MOST_RETRY_AFTER:
            return Next("queued", asked, now + timedelta(seconds=wait), call["repair"])
        if fallbacks:
            return Next("queued", fallbacks[0], now, same_model=False)
    return Next("failed", asked)


def following(model: Mapping[str, Any], asked: str) -> list[str]:
    """Return the fallbacks of the model that a call was for, after the one that is asked now."""
    order = [model["name"], *model["fallbacks"]]
    return order[order.index(asked) + 1 :] if asked in order else []


def _wait(tries: int, draw: float) -> float:
    return pause(tries, RETRY_SECONDS, MOST_RETRY_SECONDS, spread=HALF, draw=draw)

"""What stops a request to a model: a limit that it would exceed. Pure.

A limit is always a number: zero allows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from functory.engine.agents import money

Limit = Literal["usd", "tokens", "calls", "tool_calls", "children", "proposals", "deadline"]

# The part of a limit from which an event reports that it comes near.
WARNING_SHARE = 0.8


@dataclass(frozen=True)
class Amount:
    """What a request may cost at most: nano-dollars and tokens."""

    usd: int
    tokens: int


@dataclass(frozen=True)
class LimitReached:
    """A limit that a request would exceed. ``whose``: ``tree``, or a quota such as ``all`` or ``agent writer``."""

    whose: str
    limit: Limit
    maximum: int
    used: int
    wanted: int

    def sentence(self) -> str:
        """Say it for people."""
        if self.limit == "deadline":
            return f"the time of the {self.whose} is over"
        show = money.dollars if self.limit == "usd" else "{:,}".format
        unit = "" if self.limit == "usd" else f" {self.limit.replace('_', ' ')}"
        day = "" if self.whose == "tree" else " a day"
        owner = "the tree" if self.whose == "tree" else _QUOTA_OWNERS.get(self.whose, self.whose)
        return (
            f"{owner} may use {show(self.maximum)}{unit}{day}; it has used {show(self.used)}, "
            f"and this needs up to {show(self.wanted)}"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "whose": self.whose,
            "limit": self.limit,
            "maximum": self.maximum,
            "used": self.used,
            "wanted": self.wanted,
        }


_QUOTA_OWNERS = {"all": "everybody together"}


def of_tree(meter: Mapping[str, Any], amount: Amount, now: datetime) -> LimitReached | None:
    """Return the limit of a tree that one more call of at most ``amount`` would exceed."""
    if meter["deadline_at"] <= now:
        return LimitReached("tree", "deadline", 0, 0, 0)
    return (
        _exceeded("tree", "usd", meter["usd_limit"], meter["usd_spent"] + meter["usd_reserved"], amount.usd)
        or _exceeded(
            "tree",
            "tokens",
            meter["tokens_limit"],
            meter["tokens_spent"] + meter["tokens_reserved"],
            amount.tokens,
        )
        or _exceeded("tree", "calls", meter["calls_limit"], meter["calls"], 1)
    )


def of_quota(
    whose: str, limits: Mapping[str, int | None], day: Mapping[str, Any], amount: Amount
) -> LimitReached | None:
    """Return the limit of a quota that one more call would exceed. ``limits``: ``usd``, ``tokens`` and ``calls``; None
    is not limited by it.
    """
    wanted = {"usd": amount.usd, "tokens": amount.tokens}
    for limit in ("usd", "tokens"):
        used = day[f"{limit}_spent"] + day[f"{limit}_reserved"]
        if reached := _exceeded(whose, limit, limits[limit], used, wanted[limit]):
            return reached
    return _exceeded(whose, "calls", limits["calls"], day["calls"], 1)


def is_near(maximum: int | None, used: int) -> bool:
    """Return True when a limit is nearly used."""
    return maximum is not None and used >= WARNING_SHARE * maximum


def _exceeded(whose: str, limit: Any, maximum: int | None, used: int, wanted: int) -> LimitReached | None:
    if maximum is None or used + wanted <= maximum:
        return None
    return LimitReached(whose, limit, maximum, used, wanted)

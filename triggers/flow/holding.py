"""The controls that let a match wait for others: debounce and batch.

The names, the limits and the meanings are Inngest's (its documentation of flow control, 2026).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.durations import seconds
from triggers.conditions import Condition, compile_condition
from triggers.flow import fields
from triggers.values import Value

WEEK = 7 * 86_400.0
# Bytes of the events of one batch.
MOST_BYTES = 10_485_760


@dataclass(frozen=True)
class Debounce:
    """The match waits until ``period`` seconds have passed without another one of its key, at most ``timeout``."""

    period: float
    timeout: float | None
    key: Value | None
    keep: Literal["last", "all"]


@dataclass(frozen=True)
class Batch:
    """Matches wait until there are ``max_size`` of their key, or ``max_bytes``, or for ``timeout`` seconds. Events for
    which ``condition`` does not hold run alone."""

    max_size: int
    timeout: float
    max_bytes: int
    key: Value | None
    condition: Condition | None


def compile_debounce(given: Any) -> Debounce:
    """Raises :class:`Invalid`."""
    example = '"debounce": {"period": "10s", "timeout": "5m"}'
    found = fields.members(given, "debounce", ("period", "timeout", "key", "keep"), example)
    period = seconds(fields.needed(found, "period", "debounce", example), "period of debounce", 1, WEEK)
    timeout = found.get("timeout")
    keep: Any = fields.choice(found.get("keep", "last"), "keep of debounce", ("last", "all"))
    longest = None if timeout is None else seconds(timeout, "timeout of debounce", period, WEEK)
    return Debounce(period, longest, fields.key(found, "debounce"), keep)


def compile_batch(given: Any) -> Batch:
    """Raises :class:`Invalid`."""
    example = '"batch": {"max_size": 100, "timeout": "60s"}'
    known = ("max_size", "timeout", "max_bytes", "key", "if")
    found = fields.members(given, "batch", known, example)
    condition = found.get("if")
    return Batch(
        fields.whole(found.get("max_size", 100), "max_size of batch", 1, 1000),
        seconds(found.get("timeout", 60.0), "timeout of batch", 1, 600),
        fields.whole(found.get("max_bytes", MOST_BYTES), "max_bytes of batch", 1, MOST_BYTES),
        fields.key(found, "batch"),
        None if condition is None else compile_condition(condition),
    )

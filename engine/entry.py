"""What a match has to pass before it may fire or wait: idempotency, then the rate limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.admission import Fire, Refused
from engine.holds import Hold
from engine.tx import Tx

Match = tuple[Mapping[str, Any], Fire | Hold]


def enter(tx: Tx, matches: Sequence[Match]) -> tuple[list[Match], list[Refused]]:
    """Sort matches into those that go on and those that their trigger's flow control drops."""
    return list(matches), []

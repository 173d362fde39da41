"""Matches that wait for more events or for time to pass: debounce, batch and composites share these rows.

A bucket is a (trigger, key); its row is what is locked to change anything in it. A match that waits is a row of
table ``hold``, written in the transaction that routes its event, so nothing is lost between the two; its firing is
written when the bucket decides about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from engine.controls import NONE, Controls, Key
from engine.tx import Tx


@dataclass(frozen=True)
class Bucket:
    """A bucket as a match finds it: how many matches and bytes wait in it, this one among them."""

    opened_at: datetime
    due_at: datetime | None
    count: int
    bytes: int
    memory: Any


@dataclass(frozen=True)
class Hold:
    """A match that waits. ``due`` says when its bucket is to be looked at, now that this one is in it."""

    trigger: Mapping[str, Any]
    key: Key
    due: Callable[[Bucket, datetime], datetime | None]
    part: int = 0
    controls: Controls = NONE


def put(tx: Tx, held: Sequence[tuple[Mapping[str, Any], Hold]]) -> None:
    """Let the matches of these event rows wait in their buckets."""
    if held:
        raise NotImplementedError

"""Matches that wait, and what becomes of them: the plain data that debounce, batch and composites decide about.

A decision is a pure function of the matches in a bucket, what the bucket remembers, and the time. It may be asked again
at any moment, by any process, and after any loss of the one that asked before: what it says depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True)
class WaitingMatch:
    """A match that waits.

    ``id`` is its event's, ``at`` the event's own time, ``since`` when it began to wait. ``parts`` has a bit for each
    part of a composite that the event can stand for; ``size`` is its data's in bytes, where that counts. ``fresh``:
    no decision has looked at it yet.
    """

    id: str
    at: datetime
    since: datetime
    parts: int = 1
    size: int = 0
    fresh: bool = True


@dataclass(frozen=True)
class BufferMemory:
    """What a bucket knows beside its matches.

    ``opened_at`` is when its first match came, ``armed_at`` when its trigger was last saved or resumed; ``memory`` is
    what the last decision left, None before the first.
    """

    opened_at: datetime
    armed_at: datetime
    memory: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Firing:
    """Matches that fire together, as one execution, in their order. That of ``by`` decides: its key, its root."""

    ids: tuple[str, ...]
    deciding_id: str


@dataclass(frozen=True)
class DroppedMatch:
    """A match that fires nothing: the reason as it is recorded, and the words for people."""

    id: str
    reason: str
    detail: str


@dataclass(frozen=True)
class SilencePeriod:
    """Nothing has come: since when, the last event if there was one, and the moment that made it a silence."""

    since: datetime
    last_event_id: str | None
    at: datetime


@dataclass
class BufferDecision:
    """A decision. What is neither in ``fired`` nor ``dropped`` goes on waiting.

    ``due`` is when to look again if nothing comes before (None: never), ``keep`` whether the bucket has to stay
    although nothing waits in it.
    """

    fired: list[Firing] = field(default_factory=list)
    dropped: list[DroppedMatch] = field(default_factory=list)
    silences: list[SilencePeriod] = field(default_factory=list)
    due_at: datetime | None = None
    memory: Mapping[str, Any] | None = None
    keep_buffer: bool = False


class BufferPolicy(Protocol):
    """A control that lets matches wait. ``listed`` says whether its function gets a list of events, even of one."""

    @property
    def kind(self) -> str: ...

    @property
    def delivers_list(self) -> bool: ...

    def due_at(
        self, state: BufferMemory, count: int, size: int, match: WaitingMatch, now: datetime
    ) -> datetime | None:
        """When a bucket is to be looked at, now that ``match`` is in it as one of ``count`` with ``size`` bytes."""
        ...

    def decide(self, state: BufferMemory, waiting: Sequence[WaitingMatch], now: datetime) -> BufferDecision:
        """Decide about a bucket at ``now``; for composites that is how far the events have been routed."""
        ...

"""Waiting matches and buffer decisions: the plain data of debounce, batch and composites.

A decision is a pure function of the matches in a buffer, the buffer's memory, and the time. Any process may compute it
again at any time, also after a crash: it depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol

from functory.engine.database.schema.events import SuppressionReason


@dataclass(frozen=True)
class WaitingMatch:
    """A match that waits.

    ``id`` is its event's id, ``at`` the event's own time, ``since`` when it began to wait. ``parts`` has a bit for each
    part of a composite that the event matches; ``size`` is the size of its data in bytes, where that counts.
    ``fresh``: no decision has seen it yet.
    """

    id: str
    at: datetime
    since: datetime
    parts: int = 1
    size: int = 0
    fresh: bool = True


@dataclass(frozen=True)
class BufferMemory:
    """The state of a buffer beside its matches.

    ``opened_at`` is when its first match came, ``armed_at`` when its trigger was last saved or resumed; ``memory`` is
    what the last decision left; None before the first.
    """

    opened_at: datetime
    armed_at: datetime
    memory: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Firing:
    """Matches that fire together as one execution, in their order. The deciding event gives the key and the root."""

    ids: tuple[str, ...]
    deciding_id: str


@dataclass(frozen=True)
class DroppedMatch:
    """A match that does not fire: the reason as it is recorded, and a sentence for people."""

    id: str
    reason: SuppressionReason
    detail: str


@dataclass(frozen=True)
class SilencePeriod:
    """A silence: its start, the last event before it if there was one, and the time ``at`` which it is reported."""

    since: datetime
    last_event_id: str | None
    at: datetime


@dataclass
class BufferDecision:
    """A decision about a buffer. A match that is neither in ``fired`` nor in ``dropped`` keeps waiting.

    ``due_at`` is the time of the next decision if no event comes before (None: never); ``keep_buffer`` keeps an empty
    buffer.
    """

    fired: list[Firing] = field(default_factory=list)
    dropped: list[DroppedMatch] = field(default_factory=list)
    silences: list[SilencePeriod] = field(default_factory=list)
    due_at: datetime | None = None
    memory: Mapping[str, Any] | None = None
    keep_buffer: bool = False


class BufferPolicy(Protocol):
    """A control that buffers matches. ``delivers_list``: its function gets a list of events, even for one event."""

    kind: ClassVar[str]

    @property
    def delivers_list(self) -> bool: ...

    def due_at(
        self, state: BufferMemory, count: int, size: int, match: WaitingMatch, now: datetime
    ) -> datetime | None:
        """The time at which a buffer is due; the new ``match`` is one of its ``count`` matches of ``size`` bytes."""
        ...

    def decide(self, state: BufferMemory, waiting: Sequence[WaitingMatch], now: datetime) -> BufferDecision:
        """Decide about a buffer at ``now``; for composites, the time up to which all events are routed."""
        ...

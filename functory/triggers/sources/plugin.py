"""The contract of a kind of source: what a plug-in has to be, and what it is given.

A kind is a subclass of :class:`Kind`, named by an entry point of the group ``functory.sources`` whose name is the
kind's. It says which events it writes and what a configuration looks like; the rest has defaults:

- ``check`` refuses a configuration that cannot work (beyond what ``Config`` says);
- ``saved`` and ``gone`` run in the transaction that saves, resumes, pauses or deletes a source, for what the kind
  keeps in the database;
- ``run`` is called in a thread of its own, in one process at a time, and returns when ``desk.ending`` is set.
  Whatever it raises is noted as the source's problem, and it is started again after a pause that grows.

The promise of a source: an arrival becomes one event, however often it is heard of and whoever is killed. The
natural key of the arrival (:class:`functory.engine.events.receipts.Arrival`) is what keeps it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeVar

import structlog
from pydantic import BaseModel, ConfigDict

from functory.engine.database.transaction import Tx
from functory.engine.events.receipts import IncomingEvent
from functory.engine.sources.store import KEEP_CURSOR, Hook

T = TypeVar("T")


class SourceConfig(BaseModel):
    """The base of a kind's configuration: unknown fields are refused, values in errors are not shown."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class SourceContext(Protocol):
    """What a running source is given: the way in for its events."""

    name: str
    config: Any  # of the kind's Config
    cursor: Any  # what was last put down as how far it has read; None at first
    since: datetime  # when it was saved or resumed last
    stop_event: threading.Event
    max_bytes: int  # the largest data of an event that is taken
    broker: str  # the URL of Functory's own broker; it may hold a password: never log it
    exchange: str  # the exchange there that Functory's own events go onto
    log: structlog.typing.FilteringBoundLogger

    def put(
        self, arrivals: Sequence[IncomingEvent], *, cursor: Any = KEEP_CURSOR, also: Hook | None = None
    ) -> Sequence[str | None]:
        """Write events, and how far the source has read, in one transaction. An event id each, None for what had
        arrived before. ``also`` writes rows of the kind's own in the same transaction; it gets the source's row.
        Raises :class:`Invalid` for an arrival that cannot become an event (its type is none of the kind's, its data
        are too large); nothing is written then. Raises :class:`Stale` when the source was changed, paused or
        deleted, or another process runs it, :class:`Unavailable` without a database: let both through."""
        ...

    def read(self, look: Callable[[Tx, Mapping[str, Any]], T]) -> T:
        """What ``look`` finds in the database, given the source's row. Raises :class:`Unavailable`."""
        ...

    def secret(self, name: str) -> str:
        """A stored secret. Raises :class:`NotFound`. Never log it, never put it into an error."""
        ...

    def report_problem(self, problem: str) -> None:
        """Note what keeps the source from working, for ``functory source list``; it goes on."""
        ...

    def clear_problem(self) -> None:
        """It works (again)."""
        ...


class SourcePlugin:
    """One kind of source. See the module's text for what a subclass gives."""

    kind: ClassVar[str]
    summary: ClassVar[str]  # a line for ``functory source kinds``
    types: ClassVar[tuple[str, ...]]  # the events that it writes; ``*`` when the configuration says
    Config: ClassVar[type[SourceConfig]]
    runs: ClassVar[bool] = False  # whether there is a ``run``

    def check(self, config: Any) -> None:
        """Raise :class:`Invalid` when the configuration cannot work."""

    def on_enabled(self, tx: Tx, row: Mapping[str, Any], config: Any) -> None:
        """In the transaction in which a source was saved or resumed."""

    def on_disabled(self, tx: Tx, row: Mapping[str, Any], config: Any) -> None:
        """In the transaction in which a source was paused or deleted (``row["state"]`` says which).

        ``config`` is None when what is stored is no configuration of this release any more.
        """

    def run(self, context: SourceContext) -> None:
        """Take events in until ``desk.ending`` is set."""
        raise NotImplementedError

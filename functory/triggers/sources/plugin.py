"""The contract of a source plug-in: its class, and the context that it runs with.

Authors import it from :mod:`functory.sources`. A plug-in is a subclass of :class:`SourcePlugin`, named by an entry
point of the group ``functory.sources`` whose name is the plug-in's ``kind``. It names the events that it writes and
the shape of its configuration. The other members have defaults:

- ``check`` refuses a configuration that cannot work, beyond the rules of ``Config``;
- ``on_enabled`` and ``on_disabled`` run in the transaction that saves, resumes, pauses or deletes a source, for rows
  of the plug-in's own;
- ``run`` is called in a thread of its own, in one process at a time, and returns when ``context.stop_event`` is set.
  An exception is stored as the source's problem, and ``run`` is called again after a pause that grows.

The promise of a source: an incoming event is written once, even if it is delivered several times or a process is
killed. Its natural key (:class:`functory.engine.events.receipts.IncomingEvent`) ensures that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeVar

import structlog
from pydantic import BaseModel, ConfigDict, Field

from functory.engine.database.transaction import Tx
from functory.engine.events.lineage_tokens import LineageToken
from functory.engine.events.receipts import IncomingEvent
from functory.engine.sources.store import KEEP_CURSOR, Hook

T = TypeVar("T")


class ConfigPart(BaseModel):
    """An object in a configuration. Unknown fields are refused; errors do not show values."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class SourceConfig(ConfigPart):
    """The base of a plug-in's configuration. Unknown fields are refused; errors do not show values."""

    max_per_minute: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="events a minute, over ten minutes, beyond which the breaker pauses it; 0 for no limit; "
        "FUNCTORY_SOURCE_RATE by default",
    )


class SourceContext(Protocol):
    """The context of ``run``: the configuration, the cursor, and the methods that write events."""

    name: str
    config: Any  # an instance of the plug-in's Config
    cursor: Any  # the position that the last ``put`` stored; None at first
    since: datetime  # when the source was last saved or resumed
    stop_event: threading.Event
    max_bytes: int  # the largest data of an event, in bytes
    broker: str  # the URL of Functory's own broker; it may hold a password: never log it
    exchange: str  # the exchange of Functory's own events on that broker
    max_depth: int  # the greatest depth of an event
    log: structlog.typing.FilteringBoundLogger

    def put(
        self, events: Sequence[IncomingEvent], *, cursor: Any = KEEP_CURSOR, also: Hook | None = None
    ) -> Sequence[str | None]:
        """Write events, and the position that the source has read to, in one transaction.

        Returns one event id for each, None for an event that was written before. ``also`` gets the transaction and
        the source's row, and may write rows of the plug-in's own. Raises :class:`Invalid` for an event that cannot be
        written (a type that the plug-in does not have, data that are too large); nothing is written then. Raises
        :class:`Stale` when the source was changed, paused or deleted, or when another process runs it, and
        :class:`Unavailable` without a database: let both through."""
        ...

    def read(self, query: Callable[[Tx, Mapping[str, Any]], T]) -> T:
        """The result of ``query(tx, row)``; ``row`` is the source's. Raises :class:`Unavailable`."""
        ...

    def secret(self, name: str) -> str:
        """The value of a stored secret. Never log it, never put it into an error. Raises :class:`NotFound`."""
        ...

    def lineage(self, headers: Iterable[tuple[str, str]]) -> LineageToken | None:
        """The execution that the headers of an arrival (lower-case names) name as its cause, for
        ``IncomingEvent.lineage``; None when they name none. They are ``functory-lineage`` and ``tracestate``, as in a
        function's HTTP requests. A token that is forged, expired or of another deployment is ignored."""
        ...

    def report_problem(self, problem: str) -> None:
        """Store why the source does not work, for ``functory source list``. The source keeps running."""
        ...

    def clear_problem(self) -> None:
        """Remove the stored problem."""
        ...

    def report_progress(self, waiting: Callable[[], int | None] | None = None) -> None:
        """Store that the source was looked at just now, for ``functory source list``. Call it after each look:
        it writes at most every 15 seconds. ``waiting`` returns how many messages are not taken yet; it is called
        only when the number is written."""
        ...


class SourcePlugin:
    """One kind of source. The module's text lists what a subclass defines."""

    kind: ClassVar[str]
    summary: ClassVar[str]  # a line for ``functory source kinds``
    types: ClassVar[tuple[str, ...]]  # the event types that it writes; ``*`` when the configuration decides
    Config: ClassVar[type[SourceConfig]]
    runs: ClassVar[bool] = False  # True if ``run`` is to be called

    def check(self, config: Any) -> None:
        """Raise :class:`Invalid` when the configuration cannot work."""

    def check_exchange(self, config: Any, own_exchange: str) -> None:
        """Raise :class:`Invalid` when the source would read Functory's own events. ``own_exchange`` is the name of
        their exchange on Functory's own broker."""

    def on_enabled(self, tx: Tx, row: Mapping[str, Any], config: Any) -> None:
        """Called in the transaction that saves or resumes a source."""

    def on_disabled(self, tx: Tx, row: Mapping[str, Any], config: Any) -> None:
        """Called in the transaction that pauses or deletes a source; ``row["state"]`` is the new state.

        ``config`` is None when this release cannot read the stored configuration.
        """

    def run(self, context: SourceContext) -> None:
        """Write events until ``context.stop_event`` is set."""
        raise NotImplementedError

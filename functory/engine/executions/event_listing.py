"""Lists of events for people: filters, pages, and slim rows with what the triggers decided.

Pages are in the order of the ids, newest first; their cost is bounded (:mod:`functory.engine.database.id_pages`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import id_pages, prune_watermarks
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database
from functory.engine.database.id_pages import Way
from functory.engine.database.schema import event, execution, firing, routing_queue
from functory.engine.database.schema.events import EVENT_STATES
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound
from functory.engine.events.store import as_id
from functory.engine.executions import about

MAX_VALUES = 20

_COLUMNS = (
    "id", "type", "subject", "source", "time", "state", "depth", "root_id", "cause_execution_id", "extensions",
    "problem",
)  # fmt: skip


@dataclass(frozen=True)
class EventFilter:
    """Which events a list has: those that fit all fields; of several values of a field, one has to fit."""

    types: Sequence[str] = ()
    # Only together with types, of which there is an index.
    subject: str | None = None
    states: Sequence[str] = ()
    # Of this source exactly, such as /functory/webhook/orders. There is no index of it.
    source: str | None = None
    root: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    # Text in the data or in the subject.
    text: str | None = None

    def __post_init__(self) -> None:
        choices.check("state", self.states, EVENT_STATES)
        if self.subject is not None and not self.types:
            raise Invalid("a subject needs a type", "subjects are looked for among the events of a type")
        if len(self.types) > MAX_VALUES:
            raise Invalid("too many types", f"at most {MAX_VALUES} can be asked for at once")
        if self.text is not None and not 2 <= len(self.text) <= 200:
            raise Invalid("wrong text to search for", "it must have 2 to 200 characters")


@dataclass(frozen=True)
class EventPage:
    """Rows of a page; ``next`` is the key of the next page, None on the last one."""

    rows: list[dict[str, Any]]
    next: str | None


def page(
    database: Database,
    wanted: EventFilter,
    *,
    before: str | None = None,
    limit: int = 50,
    scope: Scope = None,
) -> EventPage:
    """Return a page of events, newest first. ``before`` is ``next`` of the page before. Raises :class:`Invalid`."""
    with database.read() as tx:
        tested = [*_tested(wanted), *scopes.events(scope)]
        found = id_pages.find(tx, event.c.id, _ways(wanted), tested, before=before, limit=limit)
        return EventPage(rows_of(tx, found.ids), found.next)


def rows_of(tx: Tx, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the slim rows of these events, in the same order; ids that do not exist are left out."""
    if not ids:
        return []
    rows = tx.rows(sa.select(*(event.c[name] for name in _COLUMNS)).where(event.c.id.in_(ids)))
    counts = tx.rows(
        sa.select(firing.c.event_id, firing.c.decision, sa.func.count().label("count"))
        .where(firing.c.event_id.in_(ids))
        .group_by(firing.c.event_id, firing.c.decision)
    )
    of = {(row["event_id"], row["decision"]): row["count"] for row in counts}
    shown = {
        row["id"]: row
        | {"fired": of.get((row["id"], "fired"), 0), "suppressed": of.get((row["id"], "suppressed"), 0)}
        for row in rows
    }
    return [shown[id_] for id_ in ids if id_ in shown]


def has_history(tx: Tx) -> bool:
    """Return whether anything ever happened: there is an event or an execution, or there were some that were pruned."""
    kept = sa.or_(*(sa.exists(sa.select(table.c.id)) for table in (event, execution)))
    return bool(tx.scalar(sa.select(kept))) or prune_watermarks.read(tx) is not None


def row_of(database: Database, id_: str) -> dict[str, Any]:
    """Return the slim row of one event. Raises :class:`NotFound`."""
    with database.read() as tx:
        rows = rows_of(tx, [as_id(id_, "event")])
        if not rows:
            raise _missing(tx, id_)
    return rows[0]


def check_visible(database: Database, id_: str, scope: Scope) -> None:
    """Raise :class:`NotFound` for an event that does not exist or that is outside of ``scope``."""
    if scope is None:
        return
    with database.read() as tx:
        key = as_id(id_, "event")
        if tx.scalar(sa.select(event.c.id).where(event.c.id == key, *scopes.events(scope))) is None:
            raise _missing(tx, id_)


def _missing(tx: Tx, id_: str) -> NotFound:
    return prune_watermarks.missing(tx, as_id(id_, "event"), f"event {id_} not found", "functory event list")


def _ways(wanted: EventFilter) -> list[Way]:
    within: list[sa.ColumnElement[bool]] = []
    if wanted.since is not None:
        within.append(event.c.id >= lowest_id(wanted.since))
    if wanted.until is not None:
        within.append(event.c.id < lowest_id(wanted.until))
    if wanted.root is not None:
        return [Way(event.c.id, [event.c.root_id == as_id(wanted.root, "root"), *within])]
    if wanted.states and "routed" not in wanted.states:
        open_ = sa.select(routing_queue.c.event_id).where(
            routing_queue.c.quarantined.in_([state == "quarantined" for state in wanted.states])
        )
        return [Way(event.c.id, [event.c.id.in_(open_), *within])]
    if wanted.types:
        return [Way(event.c.id, [event.c.type == one, *within]) for one in dict.fromkeys(wanted.types)]
    return [Way(event.c.id, within)]


def _tested(wanted: EventFilter) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if wanted.types and (wanted.root is not None or wanted.states):
        found.append(event.c.type.in_(wanted.types))
    if wanted.states:
        found.append(event.c.state.in_(wanted.states))
    if wanted.subject is not None:
        found.append(event.c.subject == wanted.subject)
    if wanted.source is not None:
        found.append(event.c.source == wanted.source)
    if wanted.text is not None:
        found.append(
            sa.or_(
                about.holds(event.c.data, wanted.text),
                sa.type_coerce(event.c.subject, sa.Text).icontains(wanted.text, autoescape=True),
            )
        )
    return found

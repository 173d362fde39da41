"""Pages of triggers and of their firings, and the events that a draft is tried on.

A scope (:mod:`functory.engine.access.scopes`) limits which triggers are seen: one outside of it is not found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import prune_watermarks
from functory.engine.database.connection import Database
from functory.engine.database.schema import (
    Id,
    Instant,
    breaker,
    event,
    execution,
    firing,
    suppression,
    trigger,
    trigger_version,
)
from functory.engine.database.schema.events import SUPPRESSION_REASONS
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound, Refused
from functory.engine.events.store import as_id

STATES = ("enabled", "paused", "shadow")
DECISIONS = ("fired", "suppressed")
# Firings that a page looks at when it is filtered: a rare reason is looked for among these, page by page.
LOOKED_AT = 5000

_CURRENT = sa.and_(
    trigger_version.c.trigger_id == trigger.c.id, trigger_version.c.number == trigger.c.version
)
# If trigger_id has to be equal, PostgreSQL takes the index of events where most triggers fire often, and reads it all
# for a trigger that has never fired. So the firings of a trigger are those between two primary keys.
_KEY = sa.tuple_(firing.c.trigger_id, firing.c.event_id)
_NEWEST = (firing.c.trigger_id.desc(), firing.c.event_id.desc())
_FIRST_ID, _LAST_ID = (sa.literal(f"{8 * d}-{4 * d}-{4 * d}-{4 * d}-{12 * d}", Id) for d in "0f")

# The time of the last firing: one look into the primary key for each trigger, whatever it has fired.
LAST_AT = (
    sa.select(firing.c.time)
    .where(sa.tuple_(trigger.c.id, _FIRST_ID) <= _KEY, sa.tuple_(trigger.c.id, _LAST_ID) >= _KEY)
    .order_by(*_NEWEST)
    .limit(1)
    .correlate(trigger)
    .scalar_subquery()
    .label("last_at")
)


@dataclass(frozen=True)
class FiringPage:
    """Rows of a page; ``next`` is the event id that the next page begins below, None on the last one."""

    rows: list[dict[str, Any]]
    next: str | None


def list_triggers(
    database: Database,
    *,
    scope: Scope = None,
    text: str | None = None,
    states: Sequence[str] = (),
    label: str | None = None,
    names: Collection[str] | None = None,
    after: str | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Return triggers by name with their definitions, last firing and open circuit breaker: one more than ``limit``
    when there are more. ``names`` are the only ones to return.
    """
    statement = (
        _selected(LAST_AT, trigger_version.c.author)
        .where(trigger.c.state != "deleted", *scopes.triggers(scope))
        .order_by(trigger.c.name)
        .limit(limit + 1)
    )
    if text:
        statement = statement.where(trigger.c.name.icontains(text, autoescape=True))
    if states:
        statement = statement.where(trigger.c.state.in_(states))
    if label is not None:
        statement = statement.where(*scopes.triggers([label]))
    if names is not None:
        statement = statement.where(trigger.c.name.in_(sorted(names)[:1000]))
    if after is not None:
        statement = statement.where(trigger.c.name > after)
    with database.read() as tx:
        rows = tx.rows(statement)
        open_ = _open_breakers(tx, [row["id"] for row in rows])
    return [row | {"breaker": open_.get(row["id"])} for row in rows]


def get(database: Database, name: str, scope: Scope = None) -> dict[str, Any]:
    """Return one trigger as :func:`list_triggers` does, with ``sha256`` of its version. Raises
    :class:`NotFound`.
    """
    statement = _selected(LAST_AT, trigger_version.c.author, trigger_version.c.sha256).where(
        trigger.c.name == name, trigger.c.state != "deleted", *scopes.triggers(scope)
    )
    with database.read() as tx:
        row = tx.first(statement)
        if row is None:
            raise NotFound(f"trigger {name!r} not found", try_="functory trigger list")
        open_ = _open_breakers(tx, [row["id"]])
    return row | {"breaker": open_.get(row["id"])}


def check_changeable(database: Database, name: str, scope: Scope) -> None:
    """Check that a caller with this scope may save ``name``: it is new, or in the scope. Raises :class:`Refused`."""
    if scope is None:
        return
    alive = sa.select(trigger.c.id).where(trigger.c.name == name, trigger.c.state != "deleted")
    with database.read() as tx:
        exists = tx.scalar(alive) is not None
        if exists and tx.scalar(alive.where(*scopes.triggers(scope))) is None:
            raise Refused(
                f"the trigger {name} is not yours to change",
                f"it has none of your labels: {', '.join(scope) or 'you have none'}",
                "choose another name, or ask an admin for a label of it",
            )


def list_versions(
    database: Database, trigger_id: str, *, before: int | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """Return versions of a trigger, newest first: one more than ``limit`` when there are more."""
    statement = (
        sa.select(trigger_version)
        .where(trigger_version.c.trigger_id == trigger_id)
        .order_by(trigger_version.c.number.desc())
        .limit(limit + 1)
    )
    if before is not None:
        statement = statement.where(trigger_version.c.number < before)
    with database.read() as tx:
        return tx.rows(statement)


def list_firings(
    database: Database,
    trigger_id: str,
    *,
    decisions: Sequence[str] = (),
    reasons: Sequence[str] = (),
    scope: Scope = None,
    before: str | None = None,
    limit: int = 50,
) -> FiringPage:
    """Return firings of a trigger by their events, newest first, each with its event and execution.

    With filters a page looks at :data:`LOOKED_AT` firings at most, so it may have fewer rows than ``limit`` and still
    have a ``next``. Raises :class:`Invalid` for an unknown reason.
    """
    choices.check("reason", reasons, SUPPRESSION_REASONS)
    own = sa.literal(trigger_id, Id)
    newest = (
        sa.select(firing)
        .where(sa.tuple_(own, _FIRST_ID) <= _KEY, sa.tuple_(own, _LAST_ID) >= _KEY)
        .order_by(*_NEWEST)
        .limit(LOOKED_AT if decisions or reasons else limit + 1)
    )
    if before is not None:
        newest = newest.where(sa.tuple_(own, sa.literal(as_id(before, "event"), Id)) > _KEY)
    seen = newest.subquery("seen")
    statement = sa.select(seen).order_by(seen.c.event_id.desc()).limit(limit + 1)
    if decisions:
        statement = statement.where(seen.c.decision.in_(list(decisions)))
    if reasons:
        statement = statement.where(seen.c.reason.in_(list(reasons)))
    with database.read() as tx:
        rows = tx.rows(statement)
        more = len(rows) > limit
        rows = rows[:limit]
        following = rows[-1]["event_id"] if more and rows else None
        if not more and (decisions or reasons):
            last = tx.rows(newest.with_only_columns(firing.c.event_id).offset(LOOKED_AT - 1))
            following = last[0]["event_id"] if last else None
        rows = _with_events_and_executions(tx, rows, scope)
    return FiringPage(rows, following)


def list_suppressions(
    database: Database,
    *,
    scope: Scope = None,
    name: str | None = None,
    reasons: Sequence[str] = (),
    root_id: str | None = None,
    before: Sequence[str] | None = None,
    limit: int = 50,
) -> tuple[list[dict[str, Any]], list[str] | None]:
    """Return the counts of suppressed matches by trigger, root and reason, the latest first, and the key of the next
    page.
    """
    choices.check("reason", reasons, SUPPRESSION_REASONS)
    order = (suppression.c.last_at, suppression.c.trigger_id, suppression.c.root_id, suppression.c.reason)
    statement = (
        sa.select(suppression, trigger.c.name.label("trigger"))
        .outerjoin(trigger, trigger.c.id == suppression.c.trigger_id)
        .where(*scopes.triggers(scope))
        .order_by(*(column.desc() for column in order))
        .limit(limit + 1)
    )
    if name is not None:
        statement = statement.where(trigger.c.name == name)
    if reasons:
        statement = statement.where(suppression.c.reason.in_(list(reasons)))
    if root_id is not None:
        statement = statement.where(suppression.c.root_id == as_id(root_id, "root"))
    if before is not None:
        time, trigger_id, root, reason = before
        place = (
            sa.literal(_time_of(time), Instant),
            sa.literal(as_id(trigger_id, "trigger"), Id),
            sa.literal(as_id(root, "root"), Id),
            sa.literal(reason),
        )
        statement = statement.where(sa.tuple_(*order) < sa.tuple_(*place))
    with database.read() as tx:
        rows = tx.rows(statement)
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]
    key = [last["last_at"].isoformat(), last["trigger_id"], last["root_id"], last["reason"]]
    return rows[:limit], key


def _time_of(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid("the key of the page cannot be read", "it begins with a time") from None


def newest_events(
    database: Database, types: Iterable[str] | None, limit: int, scope: Scope = None
) -> list[dict[str, Any]]:
    """Return the newest events of these types (None: of all), newest first, with their data."""
    statement = sa.select(event).where(*scopes.events(scope)).order_by(event.c.id.desc()).limit(limit)
    chosen: list[dict[str, Any]] = []
    with database.read() as tx:
        if types is None:
            return tx.rows(statement)
        for type_ in sorted(types):
            chosen += tx.rows(statement.where(event.c.type == type_))
            chosen = sorted(chosen, key=lambda row: row["id"], reverse=True)[:limit]
    return chosen


def event_in_scope(database: Database, event_id: str, scope: Scope) -> dict[str, Any]:
    """Return an event with its data. Raises :class:`NotFound` for one outside of the scope."""
    id_ = as_id(event_id, "event")
    with database.read() as tx:
        row = tx.first(sa.select(event).where(event.c.id == id_, *scopes.events(scope)))
        if row is None:
            raise prune_watermarks.missing(tx, id_, f"event {event_id} not found", "functory event list")
    return row


def firings_of_events(
    database: Database, trigger_id: str, event_ids: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Return what a trigger decided about these events, by the event."""
    if not event_ids:
        return {}
    statement = sa.select(firing).where(
        firing.c.trigger_id == trigger_id, firing.c.event_id.in_(sorted(event_ids))
    )
    with database.read() as tx:
        return {row["event_id"]: row for row in tx.rows(statement)}


def _with_events_and_executions(tx: Tx, rows: list[dict[str, Any]], scope: Scope) -> list[dict[str, Any]]:
    ids = sorted({row["event_id"] for row in rows})
    started = sorted({row["execution_id"] for row in rows if row["execution_id"]})
    events: dict[str, dict[str, Any]] = {}
    states: dict[str, str] = {}
    if ids:
        found = tx.rows(
            sa.select(event.c.id, event.c.type, event.c.subject, event.c.time).where(event.c.id.in_(ids))
        )
        events = {row["id"]: row for row in found}
    if started:
        states = tx.pairs(
            sa.select(execution.c.id, execution.c.state).where(
                execution.c.id.in_(started), *scopes.executions(scope)
            )
        )
    return [
        row
        | {
            "event_type": events.get(row["event_id"], {}).get("type"),
            "subject": events.get(row["event_id"], {}).get("subject"),
            "execution_state": states.get(row["execution_id"]),
        }
        for row in rows
    ]


def _open_breakers(tx: Tx, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the open circuit breakers of these triggers, by trigger."""
    if not ids:
        return {}
    rows = tx.rows(
        sa.select(breaker).where(breaker.c.trigger_id.in_(list(ids)), breaker.c.open_until > tx.now)
    )
    return {row["trigger_id"]: row for row in rows}


def _selected(*more: Any) -> sa.Select[Any]:
    return sa.select(trigger, trigger_version.c.definition, *more).join(trigger_version, _CURRENT)

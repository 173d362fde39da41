"""Suppressed matches in bulk: which ones were not started yet (:mod:`functory.engine.firings.unfired_matches`).

A page is started in one transaction: after a kill the same command goes on with what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.connection import Database
from functory.engine.database.schema import (
    Id,
    decided_by_version,
    execution,
    firing,
    trigger,
    trigger_version,
)
from functory.engine.database.schema.events import SUPPRESSION_REASONS
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow
from functory.engine.errors import NotFound
from functory.engine.firings.suppressions import GUARD_REASONS
from functory.engine.firings.unfired_matches import replay_key

# Reasons that say that something was wrong, not that the trigger was meant to do nothing: these are resumed unless
# others are named.
RESUMABLE = GUARD_REASONS | {"trigger_paused", "function_unavailable", "input_error", "condition_error"}
# Matches of one transaction.
BATCH = 200
# Failed matches that are kept with their error; the others are counted.
MAX_FAILED = 20


@dataclass(frozen=True)
class MatchFilter:
    """Which suppressed matches: of a trigger (its name), of a root, for these reasons, of the triggers in a scope.
    Raises :class:`Invalid` for an unknown reason.
    """

    trigger: str | None = None
    root_id: str | None = None
    reasons: Sequence[str] = ()
    scope: Scope = None

    def __post_init__(self) -> None:
        choices.check("reason", self.reasons, SUPPRESSION_REASONS)


class ResumableMatch(TypedRow, frozen=True):
    """A suppressed match that was not started yet: its firing, the name of its trigger, and the definition that
    decided.
    """

    trigger_id: str
    event_id: str
    root_id: str
    reason: str
    detail: str | None
    time: datetime
    trigger: str
    definition: Mapping[str, Any]


_RESUMABLE_MATCH = (
    firing.c.trigger_id,
    firing.c.event_id,
    firing.c.root_id,
    firing.c.reason,
    firing.c.detail,
    firing.c.time,
    trigger.c.name,
    trigger_version.c.definition,
)


@dataclass
class Resumed:
    """What was resumed: counts by (trigger, reason); ``failed`` matches have no execution, for the error."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed_count: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)

    def add_failed(self, match: ResumableMatch, error: str) -> None:
        """Count a match that could not be resumed."""
        self.failed_count += 1
        if len(self.failed) < MAX_FAILED:
            self.failed.append({"trigger": match.trigger, "event_id": match.event_id, "error": error})


class SuppressedMatches:
    """Reads the suppressed matches that were not replayed yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pages(
        self, which: MatchFilter, after: tuple[str, str] | None = None
    ) -> Iterator[list[ResumableMatch]]:
        """Yield the matches in pages.

        They are ordered by trigger, then by event; with ``after`` those behind this one, by the ids of its trigger and
        event. Raises :class:`NotFound` for a trigger that there is not.
        """
        last = after
        while True:
            with self._database.read() as tx:
                if last is None and which.trigger is not None:
                    _check_trigger(tx, which.trigger)
                rows = _next_page(tx, which, last)
                known = _replayed(tx, rows)
            if not rows:
                return
            last = rows[-1].trigger_id, rows[-1].event_id
            found = [row for row in rows if _key(row) not in known]
            if found:
                yield found

    def count(self, which: MatchFilter) -> Counter[tuple[str, str]]:
        """Count the matches, by (trigger, reason)."""
        return Counter((row.trigger, row.reason) for page in self.pages(which) for row in page)


def _next_page(tx: Tx, which: MatchFilter, last: tuple[str, str] | None) -> list[ResumableMatch]:
    statement = (
        sa.select(*_RESUMABLE_MATCH)
        .join(trigger, trigger.c.id == firing.c.trigger_id)
        .join(trigger_version, decided_by_version)
        .where(
            firing.c.decision == "suppressed",
            firing.c.reason.in_(sorted(which.reasons or RESUMABLE)),
            *scopes.triggers(which.scope),
        )
        .order_by(firing.c.trigger_id, firing.c.event_id)
        .limit(BATCH)
    )
    if which.trigger is not None:
        statement = statement.where(trigger.c.name == which.trigger)
    if which.root_id is not None:
        statement = statement.where(firing.c.root_id == which.root_id)
    if last is not None:
        place = sa.tuple_(sa.literal(last[0], Id), sa.literal(last[1], Id))
        statement = statement.where(sa.tuple_(firing.c.trigger_id, firing.c.event_id) > place)
    return tx.all(ResumableMatch, statement)


def _replayed(tx: Tx, matches: Sequence[ResumableMatch]) -> set[str]:
    keys = [_key(match) for match in matches]
    found = sa.select(execution.c.idempotency_key).where(execution.c.idempotency_key.in_(keys))
    return set(tx.execute(found).scalars()) if keys else set()


def _key(match: ResumableMatch) -> str:
    return replay_key(match.trigger_id, match.event_id)


def _check_trigger(tx: Tx, name: str) -> None:
    if tx.scalar(sa.select(trigger.c.id).where(trigger.c.name == name)) is None:
        raise NotFound(f"trigger {name} does not exist", try_="functory trigger list")

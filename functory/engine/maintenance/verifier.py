"""The verifier: one of the schedulers checks the invariants at intervals, cheaply, while everything runs.

Every ``verify_seconds`` one process checks the open rows, whenever they were made, and the rows of the last hour, or
those of the last :data:`MOST_RECENT` executions if these are fewer; once a day it checks everything. For each kind of
check a row holds when the next one is due, and the process that advances it runs the check; so any number of schedulers
may run. Table ``verification`` keeps what was found, and every scheduler's metrics read it there: a violation stays
until a look at everything no longer finds it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from functory.engine.database.clock import time_of_id
from functory.engine.database.connection import Database
from functory.engine.database.schema import counter, execution, verification
from functory.engine.database.transaction import Tx
from functory.engine.maintenance.invariants import CODES, InvariantResult, verify
from functory.engine.service import Service
from functory.engine.settings import Settings

log = structlog.get_logger("functory.verify")

# These are about open rows, which a partial index finds: their cost does not grow with the rows that have ended.
OPEN = ("I1", "I5", "I15")
# How far back a frequent check goes, in time and in executions: its cost does not grow with the load.
RECENT = timedelta(hours=1)
MOST_RECENT = 50_000
# The time between two complete checks; one that was interrupted is tried again sooner.
DAY = 86_400
FULL_RETRY_SECONDS = 3600
# A role that has just started has more urgent work, and a script that ends soon need not check at all.
FIRST_SECONDS = 60.0
# Seconds between two checks of the due time.
POLL_SECONDS = 30.0

_FIRST_RECENT = (
    sa.select(execution.c.id)
    .order_by(execution.c.id.desc())
    .offset(sa.bindparam("most", type_=sa.Integer))
    .limit(1)
)

_NEXT, _WHOLE = "verify: next look", "verify: next look at everything"


class Verifier(Service):
    """Checks the invariants when a check is due. Not shared between threads."""

    name, topic = "verifier", None
    # A check of everything takes as long as the database is large.
    stall_seconds = math.inf

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = min(POLL_SECONDS, settings.verify_seconds or POLL_SECONDS)
        self._database = database
        self._settings = settings
        self._from = database.clock.monotonic() + min(FIRST_SECONDS, settings.verify_seconds)

    def run_once(self) -> bool:
        """Run :meth:`verify_if_due`. Always False: the next look has its time. Raises :class:`Unavailable`."""
        self.verify_if_due()
        return False

    def verify_if_due(self) -> list[InvariantResult]:
        """Run the due checks; return their results, empty when nothing was due here. Raises :class:`Unavailable`."""
        if not self._settings.verify_seconds or self._database.clock.monotonic() < self._from:
            return []
        self._from = self._database.clock.monotonic() + min(POLL_SECONDS, self._settings.verify_seconds)
        if self._claim(_WHOLE, FULL_RETRY_SECONDS):
            found = self._ask(None, CODES)
            save_results(self._database, found, whole=True)
            self._put_off(_WHOLE, DAY)
            self._put_off(_NEXT, self._settings.verify_seconds)
        elif self._claim(_NEXT, self._settings.verify_seconds):
            since = self._recent()
            found = self._ask(None, OPEN) + self._ask(since, [code for code in CODES if code not in OPEN])
            save_results(self._database, found, whole=False)
        else:
            return []
        for one in found:
            if one.count:
                log.error(
                    "an invariant does not hold",
                    invariant=one.code,
                    says=one.title,
                    count=one.count,
                    examples=list(one.examples),
                )
        return found

    def _ask(self, since: datetime | None, codes: Sequence[str]) -> list[InvariantResult]:
        return verify(self._database, self._settings, since=since, only=codes)

    def _recent(self) -> datetime:
        """Return when the rows of a frequent check begin."""
        with self._database.read() as tx:
            first = tx.scalar(_FIRST_RECENT, {"most": MOST_RECENT})
            hour = tx.now - RECENT
        return hour if first is None else max(hour, time_of_id(first))

    def _claim(self, name: str, seconds: float) -> bool:
        """Move the due time on. False when it is not due, or another process was first."""
        with self._database.read() as tx:
            now = int(tx.now.timestamp())
            due = tx.scalar(sa.select(counter.c.value).where(counter.c.name == name))
        if due is not None and due > now:
            return False
        with self._database.write() as tx:
            if due is None and not tx.insert_missing(
                counter, [{"name": name, "value": now + round(seconds)}]
            ):
                return False
            if due is None:
                return True
            mine = counter.c.name == name, counter.c.value == due
            return bool(
                tx.execute(sa.update(counter).where(*mine).values(value=now + round(seconds))).rowcount
            )

    def _put_off(self, name: str, seconds: float) -> None:
        with self._database.write() as tx:
            value = int(tx.now.timestamp()) + round(seconds)
            if not tx.insert_missing(counter, [{"name": name, "value": value}]):
                tx.execute(sa.update(counter).where(counter.c.name == name).values(value=value))


def save_results(database: Database, found: Sequence[InvariantResult], *, whole: bool) -> None:
    """Store the results. A check of less than the ``whole`` database removes no violation that was found before."""
    with database.write() as tx:
        rows = [
            {"code": one.code, "count": one.count, "examples": list(one.examples), "time": tx.now}
            for one in found
        ]
        tx.upsert(verification, rows, _replace if whole else _keep_greater)


def _replace(new: Any) -> dict[str, Any]:
    return {"count": new["count"], "examples": new.examples, "time": new.time}


def _keep_greater(new: Any) -> dict[str, Any]:
    more = new["count"] >= verification.c.count
    return {
        "count": sa.case((more, new["count"]), else_=verification.c.count),
        "examples": sa.case((more, new.examples), else_=verification.c.examples),
        "time": new.time,
    }


def last_results(tx: Tx) -> Mapping[str, Mapping[str, Any]]:
    """Return the results of the last checks, by code: ``count``, ``examples`` and ``time``; empty before the first
    look.
    """
    return {row["code"]: row for row in tx.rows(sa.select(verification))}

"""The tallier: counts what has happened since it counted last, and checks what it has counted.

Its cursor is a time. Each round counts the rows from the cursor to 40 s ago, and moves the cursor in the same
transaction, so that nothing is counted twice or left out, whichever scheduler does it. The 40 s are for transactions
that are committed late: PostgreSQL ends one that has rested for 30 s. A round covers at most one minute and some
hundred thousand events. When it is behind, it rests nine times as long as a round took.

Once an hour a random hour of the last days is counted again, minute by minute. A difference is a violation of the
invariant I20: it is stored with those that the verifier finds, logged, and the counts are mended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from functory.engine.database import prune_watermarks
from functory.engine.database.clock import lowest_id, time_of_id
from functory.engine.database.connection import Database
from functory.engine.database.schema import Id, counter, event, execution, firing, verification
from functory.engine.database.transaction import Tx
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.tallies import rows
from functory.engine.tallies.count import EVENT, Counts, Key, count, merged
from functory.engine.tallies.rows import HOUR, MINUTE
from functory.engine.telemetry import metrics

log = structlog.get_logger("functory.tallies")

POLL_SECONDS = 10.0
# Transactions that began before are over: one that rests for 30 s is ended, and the others are shorter.
SETTLED = timedelta(seconds=40)
# At 6,000 events a second this is more than a round has to count, and takes some hundred milliseconds.
MOST_EVENTS = 100_000
# When it is behind: seconds of rest for each second of work.
REST = 9.0

KEEP_MINUTES, KEEP_HOURS = timedelta(days=8), timedelta(days=400)
CLEAN_SECONDS = 300.0

RECOUNT_SECONDS = 3600.0
# Minutes of the hour are left out after this many events: the check must not cost more than what it checks.
RECOUNT_EVENTS = 500_000
CODE, TITLE = "I20", "the tallies are what the rows say"
EXAMPLES = 5

CURSOR, SINCE, NEXT_RECOUNT = "tallies: cursor", "tallies: since", "tallies: next recount"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Tallier(Service):
    """Counts, deletes what is old, and counts again. Not shared between threads."""

    name, topic, poll_seconds = "tallier", None, POLL_SECONDS

    def __init__(
        self,
        database: Database,
        _settings: Settings,
        *,
        choose: Callable[[Sequence[int]], int] = random.choice,
    ) -> None:
        self._database = database
        self._choose = choose
        self._rest: float | None = None
        # A role that has just started has more urgent work, and a script that ends soon need not count at all.
        self._from = database.clock.monotonic() + POLL_SECONDS
        self._clean_at = 0.0
        self._recount: Recount | None = None

    def run_once(self) -> bool:
        """Run one round. Always False: the next one is after a rest. Raises :class:`Unavailable`."""
        start = self._database.clock.monotonic()
        self._rest = None
        if start < self._from:
            return False
        if self.tally():
            self._rest = max(0.01, REST * (self._database.clock.monotonic() - start))
        else:
            self.clean_if_due()
            self.recount_if_due()
        return False

    def next_due(self) -> float | None:
        """Return the seconds until the next round; None when nothing is left to count."""
        return self._rest

    def tally(self) -> bool:
        """Count the next part. True when more is left for now. Raises :class:`Unavailable`."""
        with self._database.read() as tx:
            cursor, settled = read_cursor(tx), to_milliseconds(tx.now - SETTLED)
        if cursor is None:
            cursor = self._begin()
        if cursor is None or cursor >= settled:
            return False
        with self._database.read() as tx:
            start = max(cursor, next_activity(tx, cursor))
            if start >= settled:
                return False
            end = _end_of_part(tx, start, settled)
            counts = count(tx, to_time(start), to_time(end))
        with self._database.write() as tx:
            # First, because it locks the cursor. Another process may have counted the part.
            if _advance(tx, cursor, end):
                rows.add(tx, rows.begin_of(to_time(start), MINUTE), counts)
        return settled - end >= POLL_SECONDS * 1000

    def clean_if_due(self) -> None:
        """Delete old minutes and hours, some thousand rows at a time. Raises :class:`Unavailable`."""
        monotonic = self._database.clock.monotonic()
        if monotonic < self._clean_at:
            return
        self._clean_at = monotonic + CLEAN_SECONDS
        with self._database.write() as tx:
            gone = rows.delete_before(tx, MINUTE, tx.now - KEEP_MINUTES)
            gone += rows.delete_before(tx, HOUR, tx.now - KEEP_HOURS)
        if gone:
            metrics.pruned_rows.labels("tally").inc(gone)
            # More may be left.
            self._clean_at = 0.0

    def recount_if_due(self) -> None:
        """Count one minute of an hour again, or choose an hour when it is time. Raises :class:`Unavailable`."""
        if self._recount is None:
            hour = self._choose_hour()
            if hour is None:
                return
            self._recount = Recount(hour)
        if self._recount.step(self._database):
            self._recount = None

    def _begin(self) -> int | None:
        """Set the cursor to the first time that is counted: that of the oldest event, or some days ago. Returns it;
        None without events.
        """
        with self._database.write() as tx:
            oldest = tx.scalar(_OLDEST)
            if oldest is None:
                return None
            start = max(tx.now - KEEP_MINUTES, time_of_id(oldest))
            value = to_milliseconds(rows.begin_of(start, MINUTE))
            if tx.insert_missing(counter, [{"name": CURSOR, "value": value}]):
                tx.insert_missing(counter, [{"name": SINCE, "value": value}])
            return read_cursor(tx)

    def _choose_hour(self) -> datetime | None:
        """Choose the hour that is counted again; None when it is not time, or another process does it."""
        with self._database.read() as tx:
            now, due = to_milliseconds(tx.now), tx.scalar(_COUNTER, {"name": NEXT_RECOUNT})
            if due is not None and due > now:
                return None
            hours = _whole_hours(tx)
        later = now + int(RECOUNT_SECONDS * 1000)
        with self._database.write() as tx:
            if due is None:
                tx.insert_missing(counter, [{"name": NEXT_RECOUNT, "value": later}])
                return None
            mine = counter.c.name == NEXT_RECOUNT, counter.c.value == due
            if not tx.execute(sa.update(counter).where(*mine).values(value=later)).rowcount:
                return None
        return to_time(self._choose(hours)) if hours else None


class Recount:
    """The check of one hour: its minutes in any order, one at a time."""

    def __init__(self, hour: datetime) -> None:
        self.hour = hour
        self._left = random.sample([hour + number * MINUTE for number in range(60)], 60)
        self._events = 0
        self._wrong = 0
        self._examples: list[str] = []

    def step(self, database: Database) -> bool:
        """Check one minute. True when the check is over, and its result is stored. Raises :class:`Unavailable`."""
        minute = self._left.pop()
        with database.read() as tx:
            told, true = rows.read_interval(tx, minute, MINUTE), count(tx, minute, minute + MINUTE)
        wrong = differences(told, true)
        if wrong:
            with database.write() as tx:
                # Held so that nothing is added to the hour meanwhile.
                tx.execute(_LOCKED)
                _mend(tx, minute)
        events = true.get(Key("total", "", 0, EVENT))
        self._events += events.count if events else 0
        wrong = [f"{minute:%Y-%m-%d %H:%M} UTC: {words}" for words in wrong]
        self._wrong += len(wrong)
        self._examples = [*self._examples, *wrong][:EXAMPLES]
        if self._left and self._events < RECOUNT_EVENTS:
            return False
        self._store(database)
        return True

    def _store(self, database: Database) -> None:
        with database.write() as tx:
            result = {"code": CODE, "count": self._wrong, "examples": self._examples, "time": tx.now}
            tx.upsert(verification, [result], _replace)
        if self._wrong:
            log.error(
                "an invariant does not hold",
                invariant=CODE,
                says=TITLE,
                count=self._wrong,
                examples=self._examples,
            )


def _replace(new: Any) -> dict[str, Any]:
    return {"count": new["count"], "examples": new.examples, "time": new.time}


def read_cursor(tx: Tx) -> int | None:
    """Return the time up to which all is counted, in milliseconds; None before the first round."""
    return tx.scalar(_COUNTER, {"name": CURSOR})


def next_activity(tx: Tx, since: int) -> int:
    """Return when there is something to count for the first time from ``since`` on, in milliseconds: a gap of days is
    passed over at once. Far in the future without any.
    """
    first = {"first": lowest_id(to_time(since)), "since": to_time(since)}
    ids = [tx.scalar(statement, first) for statement in _NEXT_IDS]
    times = [time_of_id(id_) for id_ in ids if id_ is not None]
    stopped = tx.scalar(_NEXT_SUPPRESSED, first)
    if stopped is not None:
        times.append(stopped)
    return to_milliseconds(min(times)) if times else 1 << 62


def _end_of_part(tx: Tx, start: int, settled: int) -> int:
    """Return where a part ends: with its minute, at what is settled, or after the most events of a round."""
    end = min(settled, to_milliseconds(rows.begin_of(to_time(start), MINUTE) + MINUTE))
    interval = {"first": lowest_id(to_time(start)), "last": lowest_id(to_time(end))}
    further = tx.scalar(_NTH_EVENT, interval | {"most": MOST_EVENTS})
    # Whole milliseconds, and at least one.
    return end if further is None else max(start + 1, to_milliseconds(time_of_id(further)))


def _advance(tx: Tx, cursor: int, until: int) -> bool:
    """Move the cursor and lock it. False when another process has moved it."""
    moved = sa.update(counter).where(counter.c.name == CURSOR, counter.c.value == cursor).values(value=until)
    return bool(tx.execute(moved).rowcount)


def _whole_hours(tx: Tx) -> range:
    """Return the hours, in milliseconds, that are counted and of which nothing is pruned."""
    cursor, since = read_cursor(tx), tx.scalar(_COUNTER, {"name": SINCE})
    if cursor is None or since is None:
        return range(0)
    hour = HOUR // _MILLISECOND
    pruned = prune_watermarks.read(tx)
    earliest = max(
        since, to_milliseconds(tx.now - KEEP_MINUTES), 0 if pruned is None else to_milliseconds(pruned)
    )
    return range(-(-earliest // hour) * hour, cursor // hour * hour, hour)


def differences(told: Counts, true: Counts) -> list[str]:
    """Return a sentence about each count that differs. A pure function."""
    return [
        f"{key.kind} {key.name!r} {key.outcome}: {have} counted, {are} there"
        for key in sorted({*told, *true})
        if (have := _number(told, key)) != (are := _number(true, key))
    ]


def _mend(tx: Tx, minute: datetime) -> None:
    """Count a minute anew, and its hour from its minutes."""
    rows.replace(tx, minute, MINUTE, count(tx, minute, minute + MINUTE))
    hour = rows.begin_of(minute, HOUR)
    minutes = (rows.read_interval(tx, hour + number * MINUTE, MINUTE) for number in range(60))
    rows.replace(tx, hour, HOUR, merged(minutes))


def _number(counts: Counts, key: Key) -> int:
    return counts[key].count if key in counts else 0


def to_milliseconds(at: datetime) -> int:
    """Return a time as the cursor holds it."""
    return (at - _EPOCH) // _MILLISECOND


def to_time(milliseconds: int) -> datetime:
    """Return the time of a cursor."""
    return _EPOCH + milliseconds * _MILLISECOND


_FIRST = sa.bindparam("first", type_=Id)
_OLDEST = sa.select(event.c.id).order_by(event.c.id).limit(1)
_COUNTER = sa.select(counter.c.value).where(counter.c.name == sa.bindparam("name"))
_LOCKED = sa.select(counter.c.value).where(counter.c.name == CURSOR).with_for_update()
_NTH_EVENT = (
    sa.select(event.c.id)
    .where(event.c.id >= _FIRST, event.c.id < sa.bindparam("last", type_=Id))
    .order_by(event.c.id)
    .offset(sa.bindparam("most", type_=sa.Integer))
    .limit(1)
)
_NEXT_IDS = tuple(
    sa.select(table.c.id).where(table.c.id >= _FIRST).order_by(table.c.id).limit(1)
    for table in (event, execution)
)
_NEXT_SUPPRESSED = sa.select(sa.func.min(firing.c.time)).where(
    firing.c.decision == "suppressed", firing.c.time >= sa.bindparam("since", type_=firing.c.time.type)
)

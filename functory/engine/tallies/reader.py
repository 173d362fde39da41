"""Reads the tallies: numbers of functions, of triggers, and of the whole engine.

What the tallier has not counted yet is counted here from the rows (:class:`RecentCounts`), so that an execution is in
the numbers as soon as it has ended.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from functory.engine.database.connection import Database
from functory.engine.database.transaction import Tx
from functory.engine.tallies import histogram, rows, tallier
from functory.engine.tallies.count import FAILURES, FIRED, OUTCOMES, Count, Key, count, source_key
from functory.engine.tallies.rows import HOUR, MINUTE

# The numbers of "24 h" are those of the current hour and the 23 before.
HOURS = 24
# Executions that expired have not run.
RUNS = tuple(outcome for outcome in OUTCOMES if outcome != "expired")
# The least age of the recent counts before they are counted again, and for each second that the counting takes: however
# many readers there are, it takes about five percent of a core, and once more whenever the tallier has gone on.
LEAST_AGE_SECONDS = 1.0
AGE_FOR_COST = 20.0
# How far back recent rows are counted. With a tallier that is further behind, numbers are missing for a while.
RECENT = timedelta(minutes=2)

Counted = tuple[datetime, Key, Count]


@dataclass
class Runs:
    """Executions of a function, a version or an interval."""

    runs: int = 0
    failures: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    queued: Counter[int] = field(default_factory=Counter)
    run: Counter[int] = field(default_factory=Counter)

    def add(self, outcome: str, one: Count) -> None:
        """Add executions that ended in this way."""
        self.outcomes[outcome] += one.count
        self.runs += one.count if outcome in RUNS else 0
        self.failures += one.count if outcome in FAILURES else 0
        self.queued.update(one.queued)
        self.run.update(one.run)

    def queued_seconds(self, share: float) -> float | None:
        """Return the percentile of the seconds until they started."""
        return histogram.percentile(self.queued, share)

    def run_seconds(self, share: float) -> float | None:
        """Return the percentile of the seconds that they ran."""
        return histogram.percentile(self.run, share)


@dataclass
class FunctionSummary:
    """A function in the last 24 hours: ``spark`` and ``failure_spark`` are executions by hour, oldest first."""

    total: Runs = field(default_factory=Runs)
    spark: list[int] = field(default_factory=lambda: [0] * HOURS)
    failure_spark: list[int] = field(default_factory=lambda: [0] * HOURS)

    @property
    def runs(self) -> int:
        """Executions that ended."""
        return self.total.runs

    @property
    def failures(self) -> int:
        """Those of them that failed, timed out, or are dead."""
        return self.total.failures

    @property
    def p95_seconds(self) -> float | None:
        """The 95th percentile of their run times; None without any."""
        return self.total.run_seconds(0.95)


@dataclass
class TriggerSummary:
    """A trigger in the last 24 hours: executions that it started, and suppressed matches by reason."""

    fired: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    spark: list[int] = field(default_factory=lambda: [0] * HOURS)

    @property
    def suppressed(self) -> int:
        """Its suppressed matches."""
        return self.reasons.total()


@dataclass
class FunctionStats:
    """A function since some time: ``series`` by minute or hour (``interval_seconds``), oldest first and without gaps,
    what each version did, and all of them together.
    """

    interval_seconds: int
    series: list[tuple[datetime, Runs]]
    versions: dict[int, Runs]
    total: Runs


class Tallies:
    """Reads the tallies of one database. Shared between threads. A given ``tx`` must see one snapshot."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent = RecentCounts(database)

    def of_functions(self, names: Sequence[str]) -> dict[str, FunctionSummary]:
        """Return the last 24 hours of these functions; a function that did not run has zeros."""
        found = {name: FunctionSummary() for name in names}
        if not names:
            return found
        with self._database.read(snapshot=True) as tx:
            first = rows.begin_of(tx.now, HOUR) - (HOURS - 1) * HOUR
            for begins_at, key, one in self._read(tx, "function", HOUR, first, names):
                summary, hour = found[key.name], (begins_at - first) // HOUR
                if hour >= HOURS:
                    continue
                summary.total.add(key.outcome, one)
                summary.spark[hour] += one.count if key.outcome in RUNS else 0
                summary.failure_spark[hour] += one.count if key.outcome in FAILURES else 0
        return found

    def of_triggers(self, names: Sequence[str]) -> dict[str, TriggerSummary]:
        """Return the last 24 hours of these triggers; a trigger that no event matched has zeros."""
        found = {name: TriggerSummary() for name in names}
        if not names:
            return found
        with self._database.read(snapshot=True) as tx:
            first = rows.begin_of(tx.now, HOUR) - (HOURS - 1) * HOUR
            for begins_at, key, one in self._read(tx, "trigger", HOUR, first, names):
                summary, hour = found[key.name], (begins_at - first) // HOUR
                if hour >= HOURS:
                    continue
                if key.outcome == FIRED:
                    summary.fired += one.count
                    summary.spark[hour] += one.count
                else:
                    summary.reasons[key.outcome] += one.count
        return found

    def of_sources(self, sources: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return how many events these sources, named by kind and name, wrote in the last 60 minutes."""
        found = dict.fromkeys(sources, 0)
        keys = {source_key(*one): one for one in sources}
        if keys:
            with self._database.read(snapshot=True) as tx:
                first = rows.begin_of(tx.now, MINUTE) - 59 * MINUTE
                for _, key, one in self._read(tx, "source", MINUTE, first, list(keys)):
                    found[keys[key.name]] += one.count
        return found

    def function_stats(self, name: str, since: datetime) -> FunctionStats:
        """Return what a function did since some time: by minute up to three hours, else by hour."""
        with self._database.read(snapshot=True) as tx:
            interval = MINUTE if tx.now - since <= 3 * HOUR else HOUR
            first = max(rows.begin_of(since, interval), rows.begin_of(tx.now, interval) - tallier.KEEP_HOURS)
            found = self._read(tx, "function", interval, first, [name])
            series = _gapless(first, tx.now, interval)
        versions: dict[int, Runs] = {}
        total = Runs()
        for begins_at, key, one in found:
            for runs in (
                series.setdefault(begins_at, Runs()),
                versions.setdefault(key.version, Runs()),
                total,
            ):
                runs.add(key.outcome, one)
        return FunctionStats(int(interval.total_seconds()), sorted(series.items()), versions, total)

    def by_minute(
        self, tx: Tx, kind: str, minutes: int, names: Sequence[str] | None = None
    ) -> dict[datetime, list[tuple[Key, Count]]]:
        """Return the counts of a kind in the last minutes, the current one included, oldest first and without gaps."""
        first = rows.begin_of(tx.now, MINUTE) - (minutes - 1) * MINUTE
        found: dict[datetime, list[tuple[Key, Count]]] = {first + n * MINUTE: [] for n in range(minutes)}
        for begins_at, key, one in self._read(tx, kind, MINUTE, first, names):
            if begins_at in found:
                found[begins_at].append((key, one))
        return found

    def busiest(
        self,
        tx: Tx,
        minutes: int,
        limit: int,
        names: Sequence[str] | None = None,
        also: Collection[str] = (),
    ) -> dict[str, Runs]:
        """Return what functions did in the last minutes, the current one included: those of which most executions
        ended, and those in ``also``.
        """
        first = rows.begin_of(tx.now, MINUTE) - (minutes - 1) * MINUTE
        recent = self._recent.of(tx, "function", MINUTE, names)
        candidates = {
            *rows.names_with_most(tx, "function", MINUTE, first, RUNS, 4 * limit, names),
            *(key.name for _, key, _ in recent if key.outcome in RUNS),
            *also,
        }
        found = {name: Runs() for name in candidates}
        for _, key, one in self._read(tx, "function", MINUTE, first, sorted(candidates)):
            found[key.name].add(key.outcome, one)
        return found

    def failing(
        self, tx: Tx, limit: int, names: Sequence[str] | None = None
    ) -> list[tuple[str, int, FunctionSummary]]:
        """Return the functions with the most failures in the last 24 hours, with the version that failed most."""
        first = rows.begin_of(tx.now, HOUR) - (HOURS - 1) * HOUR
        recent = self._recent.of(tx, "function", HOUR, names)
        # Only these can be among the worst: all rows of all functions would be too many to read each second.
        candidates = {
            *rows.names_with_most(tx, "function", HOUR, first, FAILURES, 4 * limit, names),
            *(key.name for _, key, _ in recent if key.outcome in FAILURES),
        }
        found: dict[str, FunctionSummary] = {}
        versions: dict[str, Counter[int]] = {}
        for begins_at, key, one in self._read(tx, "function", HOUR, first, sorted(candidates)):
            summary = found.setdefault(key.name, FunctionSummary())
            summary.total.add(key.outcome, one)
            hour = (begins_at - first) // HOUR
            if key.outcome in FAILURES and hour < HOURS:
                summary.failure_spark[hour] += one.count
                versions.setdefault(key.name, Counter())[key.version] += one.count
        worst = sorted(versions, key=lambda name: (-found[name].failures, name))[:limit]
        return [(name, versions[name].most_common(1)[0][0], found[name]) for name in worst]

    def outcomes(self, tx: Tx, names: Sequence[str] | None = None) -> Counter[str]:
        """Return how executions ended in the last 24 hours, of all functions or of these."""
        first = rows.begin_of(tx.now, HOUR) - (HOURS - 1) * HOUR
        found: Counter[str] = Counter()
        for _, key, one in self._read(tx, "total" if names is None else "function", HOUR, first, names):
            found[key.outcome] += one.count
        return found

    def is_behind(self, tx: Tx) -> bool:
        """Return True when the tallier has left out something that recent counts do not reach."""
        reached = tallier.to_milliseconds(tx.now - RECENT)
        cursor = tallier.read_cursor(tx)
        return cursor is not None and cursor < reached and tallier.next_activity(tx, cursor) < reached

    def _read(
        self, tx: Tx, kind: str, interval: timedelta, first: datetime, names: Sequence[str] | None
    ) -> list[Counted]:
        # The transaction sees one snapshot: what is counted is either in the rows or among the recent counts.
        recent = self._recent.of(tx, kind, interval, names)
        return rows.read(tx, kind, interval, first, names) + [item for item in recent if item[0] >= first]


class RecentCounts:
    """The counts that the tallier has not made yet, counted from the rows at most once a second for all readers."""

    def __init__(self, database: Database) -> None:
        self._monotonic: Callable[[], float] = database.clock.monotonic
        self._lock = threading.Lock()
        self._counted: list[Counted] = []
        self._cursor: int | None = None
        self._until = float("-inf")

    def of(self, tx: Tx, kind: str, interval: timedelta, names: Sequence[str] | None) -> list[Counted]:
        """Return those of one kind and of these names, by minute or hour."""
        wanted = None if names is None else set(names)
        return [
            (rows.begin_of(minute, interval), key, one)
            for minute, key, one in self._all(tx)
            if key.kind == kind and (wanted is None or key.name in wanted)
        ]

    def _all(self, tx: Tx) -> list[Counted]:
        with self._lock:
            cursor = tallier.read_cursor(tx)
            # When the tallier has gone on, what it has counted must not be added again.
            if self._monotonic() >= self._until or cursor != self._cursor:
                start = self._monotonic()
                self._counted, self._cursor = list(_count_recent(tx, cursor)), cursor
                end = self._monotonic()
                self._until = end + max(LEAST_AGE_SECONDS, AGE_FOR_COST * (end - start))
            return self._counted


def _count_recent(tx: Tx, cursor: int | None) -> Iterable[Counted]:
    start, end = tx.now - RECENT, tx.now + MINUTE
    if cursor is not None:
        start = max(start, tallier.to_time(cursor))
    while start < end:
        minute = rows.begin_of(start, MINUTE)
        counts: Mapping[Key, Count] = count(tx, start, min(minute + MINUTE, end))
        yield from ((minute, key, one) for key, one in counts.items())
        start = minute + MINUTE


def _gapless(first: datetime, now: datetime, interval: timedelta) -> dict[datetime, Runs]:
    return {first + number * interval: Runs() for number in range((now - first) // interval + 1)}

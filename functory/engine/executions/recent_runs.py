"""What the newest executions of a function spent their time on, and whether retries helped them.

The tallies count all executions (:mod:`functory.engine.tallies.reader`). What they do not have is read here from the
rows of the newest ones: the times of attempts, the calls of other functions inside them, and the types of errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.clock import lowest_id
from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import Id, attempt, execution, span
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns

# The number of the newest executions that are read: enough for a 99th percentile, and few enough for a page that reads
# them every half minute.
SAMPLE = 500
# The most errors of them that are read: each has a traceback.
ERRORS = 100


@dataclass(frozen=True)
class Calls:
    """Calls of one function inside these executions. ``seconds`` is their time together."""

    function: str
    calls: int
    failed: int
    seconds: float


class _Newest(TypedRow, frozen=True):
    """One of the newest executions of a function."""

    id: str
    version: int
    state: str
    failures: int


class _AttemptTime(TypedRow, frozen=True):
    """How long an attempt took, and how much of that it waited for child executions."""

    duration_seconds: float
    waited_seconds: float | None


@dataclass(frozen=True)
class RecentRuns:
    """The newest executions of one version that have ended.

    ``retried`` are those that ran again after a failure, ``helped`` those of them that succeeded. ``attempt_seconds``
    are the times of the attempts without waiting for child executions, in ascending order: what the timeout limits.
    """

    executions: int = 0
    retried: int = 0
    helped: int = 0
    attempt_seconds: Sequence[float] = ()
    waited_seconds: float = 0.0
    calls: Sequence[Calls] = ()
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> float:
        """The time of all attempts, waiting included."""
        return sum(self.attempt_seconds) + self.waited_seconds

    def longest_of(self, share: float) -> float | None:
        """Return the time that this share of the attempts does not exceed; None without any."""
        if not self.attempt_seconds:
            return None
        return self.attempt_seconds[
            min(len(self.attempt_seconds) - 1, int(share * len(self.attempt_seconds)))
        ]


def read(tx: Tx, function: str, version: int, since: datetime) -> RecentRuns:
    """Read the newest executions of a function that were made since some time; only those of ``version`` count."""
    newest = tx.all(_Newest, _NEWEST, {"function": function, "first": lowest_id(since)})
    ended = [row for row in newest if row.version == version and row.state in _ENDED]
    if not ended:
        return RecentRuns()
    ids = sorted(row.id for row in ended)
    within = {"ids": ids, "first": ids[0], "last": ids[-1]}
    retried = [row for row in ended if row.failures > (row.state in ("failed", "timed_out"))]
    attempts = tx.all(_AttemptTime, _ATTEMPTS, within)
    failed = sorted(row.id for row in ended if row.failures)[-ERRORS:]
    errors = tx.execute(_ERRORS, {"ids": failed}).scalars() if failed else ()
    return RecentRuns(
        executions=len(ended),
        retried=len(retried),
        helped=sum(row.state == "succeeded" for row in retried),
        attempt_seconds=sorted(
            max(0.0, row.duration_seconds - (row.waited_seconds or 0.0)) for row in attempts
        ),
        waited_seconds=sum(row.waited_seconds or 0.0 for row in attempts),
        calls=[Calls(**row) for row in tx.rows(_CALLS, within)],
        errors=Counter(map(_type_of, errors)),
    )


def _type_of(error: Any) -> str:
    return str(error.get("type") or "error")[:200] if isinstance(error, dict) else "error"


# Executions that expired have not run, and who cancels one does not say that it is wrong.
_ENDED = ("succeeded", "failed", "timed_out", "dead")
_FIRST, _LAST = sa.bindparam("first", type_=Id), sa.bindparam("last", type_=Id)


def _within(id_: Any) -> tuple[Any, ...]:
    # The interval lets PostgreSQL skip the partitions of other weeks.
    return one_of(id_), id_ >= _FIRST, id_ <= _LAST


_NEWEST = (
    sa.select(*columns(_Newest, execution))
    .where(execution.c.function == sa.bindparam("function"), execution.c.id >= _FIRST)
    .order_by(execution.c.id.desc())
    .limit(SAMPLE)
)
_ATTEMPTS = sa.select(*columns(_AttemptTime, attempt)).where(
    *_within(attempt.c.execution_id), attempt.c.duration_seconds.is_not(None)
)
_ERRORS = sa.select(attempt.c.error).where(one_of(attempt.c.execution_id), attempt.c.error.is_not(None))
_SECONDS = sa.func.sum(span.c.duration_seconds)
# Calls within these calls are a part of them.
_CALLS = (
    sa.select(
        span.c.function,
        sa.func.count().label("calls"),
        sa.func.count(span.c.error).label("failed"),
        _SECONDS.label("seconds"),
    )
    .where(*_within(span.c.execution_id), span.c.parent_seq.is_(None), span.c.duration_seconds.is_not(None))
    .group_by(span.c.function)
    .order_by(_SECONDS.desc(), span.c.function)
)

"""Which log lines of a function's executions are kept: all, few, some executions', or none.

A policy belongs to the function and not to a version: it changes what is stored and not what runs. It is a word, and
for ``sampled`` may be followed by a share: ``sampled:0.05``. Errors, tracebacks and results are kept in any case.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import audit, counters
from functory.engine.database.connection import Database
from functory.engine.database.schema import function
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound

FULL, SUMMARY, SAMPLED, OFF = "full", "summary", "sampled", "off"
DEFAULT_SHARE = 0.1
# The last lines of an attempt that did not succeed, with all policies but ``off``.
LINES_OF_A_FAILURE = 100
# The most warnings and errors of an attempt that succeeded.
MOST_WARNINGS = 100

# Decimals of a share: a smaller one would be written with an exponent, which is not read.
_DECIMALS = 4
_TEXT = re.compile(r"(full|summary|off|sampled(?::([0-9]*\.?[0-9]+))?)")


@dataclass(frozen=True)
class LogPolicy:
    """A policy; ``share`` (0 to 1) is that of the executions whose lines ``sampled`` keeps as ``full`` does."""

    word: str = FULL
    share: float = DEFAULT_SHARE

    @classmethod
    def parse(cls, text: str) -> LogPolicy:
        """Read a policy. Raises :class:`Invalid`."""
        found = _TEXT.fullmatch(text)
        share = DEFAULT_SHARE if found is None or found[2] is None else round(float(found[2]), _DECIMALS)
        if found is None or not 0 < share < 1:
            raise Invalid(
                f"{text[:40]!r} is not a log policy",
                "it is full, summary, sampled or off",
                "sampled:0.05 keeps the lines of one execution in twenty; the share is from 0.0001 to 0.9999",
            )
        return cls(text.partition(":")[0], share)

    def __str__(self) -> str:
        return f"{self.word}:{self.share:g}" if self.word == SAMPLED else self.word

    def keeps_all(self, execution_id: str) -> bool:
        """Return True if all lines of this execution are kept, also while it runs. The same for each attempt."""
        if self.word == SAMPLED:
            return int(hashlib.sha256(execution_id.encode()).hexdigest()[:8], 16) < self.share * 16**8
        return self.word == FULL

    def kept(
        self, execution_id: str, lines: Sequence[dict[str, Any]], *, failed: bool
    ) -> list[dict[str, Any]]:
        """Return the lines of an ended attempt that are stored; the last one says how many are not."""
        if self.keeps_all(execution_id):
            return [*lines]
        if self.word == OFF or not lines:
            return []
        if failed:
            chosen = [*lines[-LINES_OF_A_FAILURE:]]
        else:
            chosen = [line for line in lines if line["level"] in ("warning", "error")][-MOST_WARNINGS:]
        if len(chosen) == len(lines):
            return chosen
        last = lines[-1]
        text = f"{len(chosen):,} of {len(lines):,} log lines kept: the log policy is {self}"
        return [*chosen, last | {"stream": "log", "level": "info", "text": text, "seq": last["seq"] + 1}]


ALL = LogPolicy()


class LogPolicies:
    """Sets the policies of functions; each change is in the audit."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, name: str, policy: str, *, author: str = "", scope: Scope = None) -> str:
        """Set a function's policy, from its next attempts on. Returns it.

        Raises :class:`Invalid`, :class:`NotFound`.
        """
        wanted = str(LogPolicy.parse(policy))
        with self._database.write() as tx:
            row = tx.first(
                sa.select(function.c.id, function.c.log_policy)
                .where(function.c.name == name, function.c.state != "deleted", *scopes.functions(scope))
                .with_for_update()
            )
            if row is None:
                raise NotFound(f"function {name!r} not found", try_="functory function list")
            if row["log_policy"] != wanted:
                # Workers read again what they remember about versions.
                counters.bump(tx, counters.GRANTS)
                tx.execute(sa.update(function).where(function.c.id == row["id"]).values(log_policy=wanted))
                change = {"before": row["log_policy"], "after": wanted}
                audit.append(tx, author, "function.log_policy", name, change)
        return wanted


class LogPolicyCache:
    """The policies of the functions that a worker has claimed, read again when the counter of
    :data:`functory.engine.functions.grant_approvals.CHANGE_COUNTER` has changed.
    """

    def __init__(self, max_size: int = 2000) -> None:
        self._max_size = max_size
        # Replaced as a whole, as in GrantApprovalCache.
        self._kept: tuple[int | None, Mapping[str, LogPolicy]] = (None, {})

    def get(self, tx: Tx, change_count: int | None, names: Iterable[str]) -> Mapping[str, LogPolicy]:
        """Return the policies of these functions. Runs at most one statement; none before the first change."""
        wanted = set(names)
        if change_count is None:
            return dict.fromkeys(wanted, ALL)
        kept, known = self._kept
        if change_count != kept or len(known) > self._max_size:
            known = {}
        if unknown := sorted(wanted - set(known)):
            known = {**known, **dict.fromkeys(unknown, ALL), **_load(tx, unknown)}
            self._kept = (change_count, known)
        return known


def _load(tx: Tx, names: Sequence[str]) -> dict[str, LogPolicy]:
    rows = tx.rows(
        sa.select(function.c.name, function.c.log_policy).where(
            function.c.name.in_(names), function.c.log_policy != FULL
        )
    )
    return {row["name"]: _readable(row["log_policy"]) for row in rows}


def _readable(text: str) -> LogPolicy:
    try:
        return LogPolicy.parse(text)
    except Invalid:
        # A later release knows more policies. Nothing is lost, and the claim goes on.
        return ALL

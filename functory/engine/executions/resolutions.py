"""Resolutions: a failed execution is resolved once a replay of it has succeeded.

A replay may be replayed itself, and one execution several times. All of them do the same work, so the first success
that was started after an execution resolves it. Computed from ``execution.replay_of``; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import execution
from functory.engine.database.schema.executions import BAD_ENDS
from functory.engine.database.transaction import Tx

FAILURES = BAD_ENDS
# Every end without a result: a success of a replay is shown for all of them.
_WITHOUT_RESULT = (*FAILURES, "cancelled", "expired")
# Ids read at once while looking for unresolved executions; well below the variables that a statement of SQLite takes.
_PAGE = 500


def with_resolutions(tx: Tx, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of executions, each with ``resolved_by``: the id of the replay that succeeded, or None."""
    failed = [row["id"] for row in rows if row["state"] in _WITHOUT_RESULT]
    found: dict[str, str] = {}
    for start in range(0, len(failed), _PAGE):
        found |= resolutions(tx, failed[start : start + _PAGE])
    return [row | {"resolved_by": found.get(row["id"])} for row in rows]


def resolutions(tx: Tx, ids: Iterable[str]) -> dict[str, str]:
    """Return the execution that resolves each of these, by id; unresolved ones are left out."""
    wanted = list(ids)
    if not wanted:
        return {}
    related = {row["id"]: row for row in tx.rows(_RELATED, {"ids": wanted})}
    successes: dict[str, list[str]] = {}
    for id_, row in sorted(related.items()):
        if row["state"] == "succeeded":
            successes.setdefault(_original(related, id_), []).append(id_)
    found = {id_: _first_after(successes.get(_original(related, id_), ()), id_) for id_ in wanted}
    return {id_: success for id_, success in found.items() if success is not None}


def unresolved(tx: Tx, statement: sa.Select[Any], limit: int) -> list[str]:
    """Return up to ``limit`` ids of unresolved executions of ``statement``, newest first.

    ``statement`` selects rows of executions; only their ids are read.
    """
    found: list[str] = []
    page = statement.with_only_columns(execution.c.id).where(execution.c.state.in_(FAILURES))
    page = page.order_by(execution.c.id.desc()).limit(_PAGE)
    before: str | None = None
    while len(found) < limit:
        ids = [row["id"] for row in tx.rows(page if before is None else page.where(execution.c.id < before))]
        done = resolutions(tx, ids)
        found += [id_ for id_ in ids if id_ not in done]
        if len(ids) < _PAGE:
            break
        before = ids[-1]
    return found[:limit]


def _original(related: Mapping[str, Mapping[str, Any]], id_: str) -> str:
    """Return the oldest execution that this one is a replay of; the ones before it were pruned."""
    while (earlier := related[id_]["replay_of"]) in related:
        id_ = earlier
    return id_


def _first_after(successes: Iterable[str], id_: str) -> str | None:
    return next((success for success in successes if success > id_), None)


def _related() -> sa.Select[Any]:
    """Select the executions that ``ids`` are replays of, directly or not, and all replays of those."""
    columns = (execution.c.id, execution.c.replay_of, execution.c.state)
    given = execution.c.id.in_(sa.bindparam("ids", expanding=True))
    earlier = sa.select(*columns).where(given).cte("earlier", recursive=True)
    earlier = earlier.union(sa.select(*columns).join(earlier, execution.c.id == earlier.c.replay_of))
    later = sa.select(earlier).cte("later", recursive=True)
    later = later.union(sa.select(*columns).join(later, execution.c.replay_of == later.c.id))
    return sa.select(later)


_RELATED = _related()

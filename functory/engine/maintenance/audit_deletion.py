"""Retention of the audit: deletes the entries of starts, cancellations and events whose execution or event was pruned.

Programs start executions and send events at any rate, so these entries are as many as what they name. All other
entries stay: changes, decisions, and refused attempts, of which there is one a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa

from functory.engine.database.audit import PRUNED_ACTIONS
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import audit, event, execution
from functory.engine.maintenance import prune_exemptions

# Entries of one transaction.
CHUNK = 500


def prune(database: Database, cutoff: datetime) -> Iterator[Counter[str]]:
    """Delete entries from before ``cutoff`` that name what was deleted; yield the rows of each transaction."""
    after: str | None = None
    while True:
        with database.read() as tx:
            page = _page(tx, cutoff, after)
            if not page:
                return
            kept = _roots(tx, page)
        after = max(page)
        gone = [id_ for id_, subject in page.items() if subject not in kept]
        if gone:
            with database.write() as tx:
                count = tx.execute(sa.delete(audit).where(audit.c.id.in_(gone))).rowcount
            yield Counter(audit=count)


def counted(tx: Tx, cutoff: datetime) -> Counter[str]:
    """Return the rows that :func:`prune` would delete after the trees, by table."""
    count, after = 0, None
    while page := _page(tx, cutoff, after):
        after = max(page)
        roots = _roots(tx, page)
        old = sorted({root for root in roots.values() if root < lowest_id(cutoff)})
        free = set(old) - set(prune_exemptions.find_exempt(tx, old, cutoff))
        count += sum(subject not in roots or roots[subject] in free for subject in page.values())
    return +Counter(audit=count)


def _page(tx: Tx, cutoff: datetime, after: str | None) -> dict[str, str]:
    """Return the subjects of the next entries, by id."""
    old = [audit.c.id < lowest_id(cutoff), audit.c.action.in_(PRUNED_ACTIONS)]
    if after is not None:
        old.append(audit.c.id > after)
    return tx.pairs(sa.select(audit.c.id, audit.c.subject).where(*old).order_by(audit.c.id).limit(CHUNK))


def _roots(tx: Tx, page: dict[str, str]) -> dict[str, str]:
    """Return the roots of the executions and events that are still there, by their ids."""
    ids = sorted(set(page.values()))
    return {
        str(id_): str(root)
        for table in (execution, event)
        for id_, root in tx.pairs(sa.select(table.c.id, table.c.root_id).where(table.c.id.in_(ids))).items()
    }

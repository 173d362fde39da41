"""Retention of calls of language models: they are deleted with their tree, and their texts before that.

The tree of an execution is deleted by :mod:`functory.engine.maintenance.tree_deletion`, which calls
:func:`delete_of_trees`. What a person asked has a tree without executions and events: :func:`prune_asked` deletes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import prune_watermarks
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import (
    event,
    execution,
    gateway,
    llm_call,
    llm_content,
    llm_partial,
    llm_try,
    meter,
    quota_day,
)

# Calls, or trees, of one transaction.
PAGE = 200
# Days that hold what was spent in them: two years can be compared. A day has a few rows.
KEEP_QUOTA_DAYS = timedelta(days=800)
# Rows of gateways that were killed.
KEEP_GATEWAYS = timedelta(days=1)

OPEN = ("queued", "sent")


def delete_of_trees(tx: Tx, roots: Sequence[str]) -> Counter[str]:
    """Delete the calls and the meters of trees. None of the calls may be open."""
    calls = sa.select(llm_call.c.id).where(llm_call.c.root_id.in_(roots))
    gone = Counter[str]()
    for table, condition in (
        (llm_partial, llm_partial.c.call_id.in_(calls)),
        (llm_try, llm_try.c.call_id.in_(calls)),
        (llm_call, llm_call.c.root_id.in_(roots)),
        (llm_content, llm_content.c.root_id.in_(roots)),
        (meter, meter.c.root_id.in_(roots)),
    ):
        gone[table.name] += tx.execute(sa.delete(table).where(condition)).rowcount
    return +gone


def counted(tx: Tx, roots: Sequence[str]) -> Counter[str]:
    """Return the rows that :func:`delete_of_trees` would delete."""
    found = Counter[str]()
    for table in (llm_call, llm_content, meter):
        rows = sa.select(sa.func.count()).select_from(table).where(table.c.root_id.in_(roots))
        found[table.name] += int(tx.scalar(rows) or 0)
    tries = sa.select(sa.func.count()).select_from(llm_try.join(llm_call))
    found[llm_try.name] += int(tx.scalar(tries.where(llm_call.c.root_id.in_(roots))) or 0)
    return +found


def prune_asked(database: Database, cutoff: datetime) -> Iterator[Counter[str]]:
    """Delete the trees of what people asked, whose calls have all ended before ``cutoff``."""
    while True:
        with database.write() as tx:
            roots = list(tx.execute(_asked(cutoff).with_for_update(skip_locked=True)).scalars())
            if not roots:
                return
            prune_watermarks.advance(tx, prune_watermarks.TREES, cutoff)
            gone = delete_of_trees(tx, roots)
        yield gone + Counter(trees=len(roots))


def counted_asked(tx: Tx, cutoff: datetime) -> Counter[str]:
    """Return the rows that :func:`prune_asked` would delete."""
    roots = list(tx.execute(_asked(cutoff, limit=None)).scalars())
    found = Counter(trees=len(roots))
    for start in range(0, len(roots), PAGE):
        found += counted(tx, roots[start : start + PAGE])
    return +found


def empty_archive(database: Database, cutoff: datetime) -> Iterator[Counter[str]]:
    """Delete the requests and answers of calls that ended before ``cutoff``; what they cost stays.

    The answers of an execution that is open are kept: another attempt of it gets them. Yields their number as
    ``archived``.
    """
    of_open = sa.exists().where(
        execution.c.id == llm_call.c.execution_id, execution.c.state.in_(("queued", "running"))
    )
    has_texts = sa.or_(llm_call.c.request.is_not(None), llm_call.c.response.is_not(None))
    old = (
        sa.select(llm_call.c.id, llm_call.c.root_id)
        .where(llm_call.c.id < lowest_id(cutoff), llm_call.c.ended_at < cutoff, has_texts, ~of_open)
        .order_by(llm_call.c.id)
        .limit(PAGE)
    )
    while True:
        with database.write() as tx:
            rows = tx.rows(old.with_for_update(skip_locked=True, of=llm_call))
            if not rows:
                return
            ids, roots = [row["id"] for row in rows], sorted({row["root_id"] for row in rows})
            texts = {"request": sa.null(), "response": sa.null(), "repair": sa.null()}
            tx.execute(sa.update(llm_call).where(llm_call.c.id.in_(ids)).values(texts))
            # Messages belong to all calls of their tree.
            needed = sa.exists().where(
                llm_call.c.root_id == llm_content.c.root_id, llm_call.c.request.is_not(None)
            )
            tx.execute(sa.delete(llm_content).where(llm_content.c.root_id.in_(roots), ~needed))
        yield Counter(archived=len(rows))


def prune_days(database: Database) -> Iterator[Counter[str]]:
    """Delete days that are long over, and the rows of gateways that ended without removing theirs."""
    with database.write() as tx:
        days = sa.delete(quota_day).where(quota_day.c.day < (tx.now - KEEP_QUOTA_DAYS).date())
        gone = Counter(quota_day=tx.execute(days).rowcount)
        dead = sa.delete(gateway).where(gateway.c.seen_at < tx.now - KEEP_GATEWAYS)
        gone["gateway"] = tx.execute(dead).rowcount
    if +gone:
        yield +gone


def _asked(cutoff: datetime, limit: int | None = PAGE) -> sa.Select[Any]:
    """Return the select of the meters' roots that belong to no execution and no event, and are old."""
    return (
        sa.select(meter.c.root_id)
        .where(
            meter.c.root_id < lowest_id(cutoff),
            ~sa.exists().where(event.c.root_id == meter.c.root_id),
            ~sa.exists().where(
                llm_call.c.root_id == meter.c.root_id,
                sa.or_(llm_call.c.state.in_(OPEN), llm_call.c.ended_at >= cutoff),
            ),
        )
        .order_by(meter.c.root_id)
        .limit(limit)
    )

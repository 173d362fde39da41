"""Retention: deletes finished causal trees after a time, their log lines before that, and memories at their own time.

A tree is deleted when all of it ended longer ago than the limit: every event is routed, every execution has ended, and
no row waits in it or for it. Then only an operator can add to it, and that transaction locks the rows that it adds to.
A tree is kept while a younger tree refers to it (events that fired together).

The work is done in short transactions, and the invariants hold after each. A small tree is deleted at once, a large one
from its leaves to its root. Row locks divide the work between schedulers. The prune watermark
(:mod:`functory.engine.database.prune_watermarks`) records how far pruning has got, so that readers can report a missing
row as pruned, and the invariants do not expect it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.agents.memory import Memory
from functory.engine.database import dialects, partitions, prune_watermarks
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import (
    attempt,
    bad_end,
    budget,
    canary_execution,
    compensation,
    durable_call,
    event,
    execution,
    file_write,
    firing,
    log,
    span,
    suppression,
)
from functory.engine.executions import bad_ends
from functory.engine.maintenance import (
    audit_deletion,
    call_deletion,
    job_deletion,
    prune_exemptions,
    run_deletion,
)

# Trees that are read at once; most are small.
PAGE = 200
# About the number of events of one transaction; on SQLite every writer waits for it.
CHUNK = 500
# Log lines and spans of one transaction; executions with more lose them before they go themselves.
LINES = 20_000
# PostgreSQL: a statement that takes longer is given up, and tried again in the next pass.
STATEMENT_MILLISECONDS = 30_000

# What a root's budget counts, as in invariant I13.
BUDGETED_CAUSES = ("trigger", "parent", "step", "tool")
_LEAST = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class RetentionLimits:
    """How long finished trees (and jobs that have ended), logs of finished executions, and requests to language models
    with their answers are kept. None: for ever.
    """

    trees: timedelta | None = None
    logs: timedelta | None = None
    archive: timedelta | None = None


def prune(database: Database, limits: RetentionLimits) -> Iterator[Counter[str]]:
    """Run one pass and yield the rows that each transaction deleted, by table, trees as ``trees``. Callers may stop
    early.

    Raises :class:`Unavailable`; another pass begins anew.
    """
    now = database.clock.now()
    if expired := Memory(database).expire():
        yield Counter(memory=expired)
    if limits.logs is not None:
        yield from _logs(database, now - limits.logs)
    if limits.trees is not None:
        yield from _trees(database, now - limits.trees)
        yield from _drop_empty_partitions(database, now - limits.trees)
        yield from call_deletion.prune_asked(database, now - limits.trees)
        yield from job_deletion.prune(database, now - limits.trees)
        yield from audit_deletion.prune(database, now - limits.trees)
    if limits.archive is not None:
        yield from call_deletion.empty_archive(database, now - limits.archive)
        yield from call_deletion.prune_days(database)


def preview(database: Database, limits: RetentionLimits) -> tuple[Counter[str], Counter[str]]:
    """Return the rows that a pass would delete (by table, as :func:`prune`), and the old trees that it would keep, by
    reason.
    """
    now = database.clock.now()
    going: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    going["memory"] = Memory(database).expired()
    if limits.logs is not None:
        cutoff = now - limits.logs
        ended = (execution.c.state.not_in(prune_exemptions.OPEN), execution.c.finished_at < cutoff)
        with database.read() as tx:
            lines = sa.select(sa.func.count()).select_from(log.join(execution))
            going["log"] += int(
                tx.scalar(lines.where(execution.c.id < _log_cutoff_id(tx, cutoff), *ended)) or 0
            )
    if limits.trees is not None:
        cutoff, after = now - limits.trees, _LEAST
        while True:
            with database.read(snapshot=True) as tx:
                page = _page(tx, after, cutoff)
                if not page:
                    break
                after = page[-1]
                held = prune_exemptions.find_exempt(tx, page, cutoff)
                kept.update(held.values())
                free = [root for root in page if root not in held]
                going["trees"] += len(free)
                going.update(_counted(tx, free, with_logs=limits.logs is None))
        with database.read() as tx:
            going.update(call_deletion.counted_asked(tx, cutoff))
            going.update(job_deletion.counted(tx, cutoff))
            going.update(audit_deletion.counted(tx, cutoff))
    return +going, kept


def table_sizes(database: Database) -> list[dict[str, Any]]:
    """Return the tables that grow, with their rows (PostgreSQL: an estimate) and their bytes with indexes (None on
    SQLite).
    """
    found = []
    with database.read() as tx:
        for table in (event, firing, execution, attempt, span, log):
            rows, size = dialects.table_size(tx, table)
            found.append({"table": table.name, "rows": rows, "bytes": size})
    return found


def _trees(database: Database, cutoff: datetime) -> Iterator[Counter[str]]:
    after = _LEAST
    while True:
        with database.read(snapshot=True) as tx:
            page = _page(tx, after, cutoff)
            if not page:
                return
            held = prune_exemptions.find_exempt(tx, page, cutoff)
            free = [root for root in page if root not in held]
            size = tx.pairs(
                sa.select(event.c.root_id, sa.func.count())
                .where(event.c.root_id.in_(free))
                .group_by(event.c.root_id)
            )
        after = page[-1]
        for root in [root for root in free if size[root] > CHUNK]:
            yield from _large(database, root, cutoff)
        small: list[str] = []
        for root in [root for root in free if size[root] <= CHUNK]:
            if small and sum(size[one] for one in small) + size[root] > CHUNK:
                yield from _small(database, small, cutoff)
                small = []
            small.append(root)
        if small:
            yield from _small(database, small, cutoff)


def _small(database: Database, roots: Sequence[str], cutoff: datetime) -> Iterator[Counter[str]]:
    yield from _lines(database, execution.c.root_id.in_(roots))
    with database.write() as tx:
        free = _locked(tx, roots)
        held = prune_exemptions.find_exempt(tx, free, cutoff)
        free = [root for root in free if root not in held]
        if free:
            prune_watermarks.advance(tx, prune_watermarks.TREES, cutoff)
            gone = _delete(tx, _ids(tx, execution, free), _ids(tx, event, free))
            gone.update(_delete_tree_rows(tx, free))
            yield gone


def _large(database: Database, root: str, cutoff: datetime) -> Iterator[Counter[str]]:
    """Delete a tree that is too large for one transaction: its deepest executions first, each with all it caused."""
    yield from _lines(database, execution.c.root_id == root)
    # What an execution caused is one deeper than itself; so the rest is always a tree.
    deepest = (
        sa.select(execution.c.id)
        .where(execution.c.root_id == root)
        .order_by(execution.c.depth.desc(), execution.c.id.desc())
        .limit(CHUNK // 3)
    )
    # Events that no execution has caused: the root itself, and reports beside it.
    rest = sa.select(event.c.id).where(event.c.root_id == root).order_by(event.c.id.desc()).limit(CHUNK)
    while True:
        with database.write() as tx:
            _set_timeouts(tx)
            if prune_exemptions.find_exempt(tx, [root], cutoff):
                return
            ids = list(tx.execute(deepest.with_for_update(skip_locked=True)).scalars())
            if ids:
                caused = sa.select(event.c.id).where(event.c.cause_execution_id.in_(ids))
            elif tx.scalar(sa.select(execution.c.id).where(execution.c.root_id == root).limit(1)) is None:
                caused = rest
            else:
                return
            events = list(tx.execute(caused.with_for_update(skip_locked=True)).scalars())
            if len(events) < int(tx.scalar(sa.select(sa.func.count()).select_from(caused.subquery())) or 0):
                return
            prune_watermarks.advance(tx, prune_watermarks.TREES, cutoff)
            gone = _delete(tx, ids, events)
            if not ids and len(events) < CHUNK:
                gone.update(_delete_tree_rows(tx, [root]))
        yield gone
        if gone["trees"]:
            return


def _lines(database: Database, of: Any) -> Iterator[Counter[str]]:
    """Delete log lines and spans in parts, where they are too many to be deleted with their executions."""
    for table in (log, span):
        with database.read() as tx:
            lines = sa.select(table.c.execution_id, sa.func.count().label("count"))
            counts = tx.pairs(
                lines.select_from(table.join(execution)).where(of).group_by(table.c.execution_id)
            )
        if sum(counts.values()) <= LINES:
            continue
        taken: list[str] = []
        for id_, count in counts.items():
            if taken and sum(counts[one] for one in taken) + count > LINES:
                yield _delete_by_execution(database, table, taken)
                taken = []
            taken.append(id_)
        if taken:
            yield _delete_by_execution(database, table, taken)


def _logs(database: Database, cutoff: datetime) -> Iterator[Counter[str]]:
    """Delete log lines of executions that ended before ``cutoff``; on PostgreSQL whole weeks, once they are over."""
    with database.read() as tx:
        parts = [part for part in partitions.list_partitions(tx) if part.table == "log"]
    for part in parts:
        if part.is_default or part.end is None or part.end > lowest_id(cutoff):
            continue
        mine = sa.and_(execution.c.id < part.end, execution.c.id >= (part.first or _LEAST))
        young = sa.or_(execution.c.state.in_(prune_exemptions.OPEN), execution.c.finished_at >= cutoff)
        with database.read() as tx:
            needed = tx.scalar(sa.select(sa.exists().where(mine, young)))
            lines = sa.select(sa.func.count()).select_from(sa.table(part.name))
            count = 0 if needed else int(tx.scalar(lines) or 0)
        if not needed:
            with database.write() as tx:
                prune_watermarks.advance(tx, prune_watermarks.LOGS, cutoff)
                partitions.drop(tx, part)
            yield Counter(log=count)
    with database.read() as tx:
        latest = _log_cutoff_id(tx, cutoff)
    after = _LEAST
    while True:
        with database.read() as tx:
            ids = (
                sa.select(log.c.execution_id, sa.func.count().label("count"))
                .where(log.c.execution_id > after, log.c.execution_id < latest)
                .group_by(log.c.execution_id)
                .order_by(log.c.execution_id)
                .limit(PAGE)
            )
            counts = tx.pairs(ids)
            ended = set(
                tx.execute(
                    sa.select(execution.c.id).where(
                        execution.c.id.in_(list(counts)),
                        execution.c.state.not_in(prune_exemptions.OPEN),
                        execution.c.finished_at < cutoff,
                    )
                ).scalars()
            )
        if not counts:
            return
        after = max(counts)
        if ended:
            yield _delete_by_execution(database, log, sorted(ended), cutoff)


def _log_cutoff_id(tx: Tx, cutoff: datetime) -> str:
    """Return the id below which log lines may be deleted. A week that is not over yet is dropped as a whole later:
    deleting its rows now would cost more.
    """
    parts = [part for part in partitions.list_partitions(tx) if part.table == "log" and not part.is_default]
    later = [part.first or _LEAST for part in parts if part.end is not None and part.end > lowest_id(cutoff)]
    return min([lowest_id(cutoff), *later])


def _drop_empty_partitions(database: Database, cutoff: datetime) -> Iterator[Counter[str]]:
    """Drop the weekly partitions that are empty."""
    with database.read() as tx:
        old = [
            part
            for part in partitions.list_partitions(tx)
            if not part.is_default and part.end is not None and part.end <= lowest_id(cutoff)
        ]
    for part in old:
        with database.write() as tx:
            if tx.scalar(sa.select(sa.exists(sa.select(sa.literal(1)).select_from(sa.table(part.name))))):
                continue
            partitions.drop(tx, part)
        yield Counter(partitions=1)


def _page(tx: Tx, after: str, cutoff: datetime) -> list[str]:
    """Return the next roots that are old by their ids. Every execution has an event, so these are all trees."""
    roots = sa.select(event.c.root_id).where(event.c.root_id > after, event.c.root_id < lowest_id(cutoff))
    return list(tx.execute(roots.group_by(event.c.root_id).order_by(event.c.root_id).limit(PAGE)).scalars())


def _locked(tx: Tx, roots: Sequence[str]) -> list[str]:
    """Lock everything of these trees. Return the roots that are there and of which no other transaction holds a row."""
    _set_timeouts(tx)
    if not tx.writes_concurrently:
        return list(roots)
    free: set[str] | None = None
    for table in (event, execution):
        mine = sa.select(table.c.id, table.c.root_id).where(table.c.root_id.in_(roots)).order_by(table.c.id)
        got = Counter(str(row.root_id) for row in tx.execute(mine.with_for_update(skip_locked=True)))
        there = Counter(str(row.root_id) for row in tx.execute(mine))
        if (
            free is None
        ):  # Each tree has the event that is its root, until another transaction has deleted it.
            free = set(there)
        free -= {root for root in roots if got[root] != there[root]}
    return sorted(free or ())


def _set_timeouts(tx: Tx) -> None:
    dialects.set_timeouts(
        tx, statement_milliseconds=STATEMENT_MILLISECONDS, lock_milliseconds=partitions.LOCK_MILLISECONDS
    )


def _ids(tx: Tx, table: sa.Table, roots: Sequence[str]) -> list[str]:
    return list(tx.execute(sa.select(table.c.id).where(table.c.root_id.in_(roots))).scalars())


def _delete(tx: Tx, executions: Sequence[str], events: Sequence[str]) -> Counter[str]:
    """Delete executions and events with all rows that belong to them; budgets count what is left."""
    gone: Counter[str] = Counter()
    if executions:
        counted = (
            sa.select(execution.c.root_id, sa.func.count())
            .where(
                execution.c.id.in_(executions),
                execution.c.cause.in_(BUDGETED_CAUSES),
                execution.c.id != execution.c.root_id,
            )
            .group_by(execution.c.root_id)
        )
        for root, count in tx.pairs(counted).items():
            tx.execute(sa.update(budget).where(budget.c.root_id == root).values(used=budget.c.used - count))
        for table in (span, log, attempt, file_write, canary_execution):
            gone[table.name] += _remove(tx, table, table.c.execution_id.in_(executions))
        gone["bad_end"] += _remove(tx, bad_end, bad_ends.of_executions(executions))
        gone["durable_call"] += _remove(tx, durable_call, durable_call.c.parent_id.in_(executions))
        gone["compensation"] += _remove(
            tx,
            compensation,
            sa.or_(compensation.c.saga_id.in_(executions), compensation.c.step_id.in_(executions)),
        )
    if events:
        gone["firing"] += _remove(tx, firing, firing.c.event_id.in_(events))
    if executions:
        # The events of these executions may be deleted later, in a large tree; their firings are deleted with the
        # executions.
        by = sa.select(execution.c.event_id).where(execution.c.id.in_(executions))
        gone["firing"] += _remove(
            tx, firing, sa.and_(firing.c.event_id.in_(by), firing.c.execution_id.in_(executions))
        )
        gone["execution"] += _remove(tx, execution, execution.c.id.in_(executions))
    if events:
        gone["event"] += _remove(tx, event, event.c.id.in_(events))
    return +gone


def _delete_tree_rows(tx: Tx, roots: Sequence[str]) -> Counter[str]:
    """Delete the rows that exist once for each tree."""
    gone = Counter({"trees": len(roots)})
    gone["suppression"] += _remove(tx, suppression, suppression.c.root_id.in_(roots))
    gone["budget"] += _remove(tx, budget, budget.c.root_id.in_(roots))
    gone += call_deletion.delete_of_trees(tx, roots)
    gone += run_deletion.delete_of_trees(tx, roots)
    return +gone


def _remove(tx: Tx, table: sa.Table, condition: Any) -> int:
    return tx.execute(sa.delete(table).where(condition)).rowcount


def _delete_by_execution(
    database: Database, table: sa.Table, ids: Sequence[str], cutoff: datetime | None = None
) -> Counter[str]:
    with database.write() as tx:
        _set_timeouts(tx)
        if cutoff is not None:
            prune_watermarks.advance(tx, prune_watermarks.LOGS, cutoff)
        count = _remove(tx, table, table.c.execution_id.in_(ids))
    return Counter({table.name: count})


def _counted(tx: Tx, roots: Sequence[str], *, with_logs: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    if not roots:
        return found
    for table in (event, execution, firing, budget, suppression):
        rows = sa.select(sa.func.count()).select_from(table).where(table.c.root_id.in_(roots))
        found[table.name] += int(tx.scalar(rows) or 0)
    for table in (attempt, span, *([log] if with_logs else [])):
        rows = (
            sa.select(sa.func.count())
            .select_from(table.join(execution, execution.c.id == table.c.execution_id))
            .where(execution.c.root_id.in_(roots))
        )
        found[table.name] += int(tx.scalar(rows) or 0)
    found += call_deletion.counted(tx, roots)
    return found

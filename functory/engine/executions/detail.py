"""Everything about one execution for its page, in one snapshot: without its input and its result, which may be
large.
"""

from __future__ import annotations

from typing import Any, Literal

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database import prune_watermarks
from functory.engine.database.connection import Database
from functory.engine.database.payloads import without_payloads
from functory.engine.database.schema import compensation, event, execution, firing, function
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound
from functory.engine.events.store import as_id
from functory.engine.executions import lineage, listing, open_executions
from functory.engine.flow_control import concurrency

# Ids of events, replays and open children that are named.
MAX_NAMED = 100


def read(database: Database, id_: str, scope: Scope = None) -> dict[str, Any]:
    """Return the execution. Raises :class:`NotFound`, also for one outside of ``scope``."""
    id_ = as_id(id_, "execution")
    lengths = [
        sa.func.length(sa.type_coerce(execution.c[name], sa.Text)).label(f"{name}_bytes")
        for name in ("input", "result")
    ]
    # An execution may end between two of the statements; its state and its error must agree.
    with database.read(snapshot=True) as tx:
        row = tx.first(
            sa.select(*without_payloads(execution), *lengths).where(
                execution.c.id == id_, *scopes.executions(scope)
            )
        )
        if row is None:
            raise prune_watermarks.missing(tx, id_, f"execution {id_} not found", "functory execution list")
        (slim,) = listing.rows_of(tx, [id_], scope)
        open_ = row["state"] in ("queued", "running")
        return (
            row
            | slim
            | {
                "trigger_version": _trigger_version(tx, row),
                "event": _deciding_event(tx, row, scope),
                "events": _event_ids(tx, row),
                "waiting_for_slot": open_ and open_executions.is_waiting_for_slot(tx, id_),
                "slots": concurrency.slots_of_execution(tx, id_) if row["has_concurrency"] else [],
                "compensations": tx.rows(
                    sa.select(compensation)
                    .where(compensation.c.saga_id == id_)
                    .order_by(compensation.c.position)
                ),
                "undoes": lineage.compensations(tx, [id_]).get(id_),
                "children_open": _ids(
                    tx, execution.c.parent_id == id_, execution.c.id.in_(open_executions.open_ids())
                ),
                "replays": _ids(tx, execution.c.replay_of == id_),
                "log_policy": tx.scalar(
                    sa.select(function.c.log_policy).where(function.c.name == row["function"])
                ),
            }
        )


def payload(database: Database, id_: str, name: Literal["input", "result"]) -> str:
    """Return the JSON text of the input or the result. Raises :class:`NotFound`, also when there is no result."""
    id_ = as_id(id_, "execution")
    column = sa.type_coerce(execution.c[name], sa.Text)
    with database.read() as tx:
        row = tx.first(sa.select(column.label("text"), execution.c.state).where(execution.c.id == id_))
        if row is None:
            raise prune_watermarks.missing(tx, id_, f"execution {id_} not found", "functory execution list")
    if row["text"] is None:
        raise NotFound(f"execution {id_} has no {name}", f"it is {row['state'].replace('_', ' ')}")
    return row["text"]


def _trigger_version(tx: Tx, row: dict[str, Any]) -> int | None:
    if row["trigger_id"] is None:
        return None
    return tx.scalar(
        sa.select(firing.c.trigger_version).where(
            firing.c.trigger_id == row["trigger_id"], firing.c.event_id == row["event_id"]
        )
    )


def _deciding_event(tx: Tx, row: dict[str, Any], scope: Scope) -> dict[str, Any] | None:
    if row["event_id"] is None:
        return None
    columns = (event.c.id, event.c.type, event.c.subject, event.c.source, event.c.cause_execution_id)
    return tx.first(sa.select(*columns).where(event.c.id == row["event_id"], *scopes.events(scope)))


def _event_ids(tx: Tx, row: dict[str, Any]) -> list[str]:
    """Return the events that started it; the deciding one is the last of several."""
    if row["event_id"] is None:
        return []
    joint = tx.execute(
        sa.select(firing.c.event_id)
        .where(firing.c.execution_id == row["id"], sa.text("firing.joint"))
        .order_by(firing.c.event_id)
        .limit(MAX_NAMED)
    )
    return list(joint.scalars()) or [row["event_id"]]


def _ids(tx: Tx, *conditions: sa.ColumnElement[bool]) -> list[str]:
    found = sa.select(execution.c.id).where(*conditions).order_by(execution.c.id.desc()).limit(MAX_NAMED)
    return list(tx.execute(found).scalars())

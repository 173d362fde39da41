"""The queues of events in schema 0008: the routing queue, and an outbox of batches."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from alembic import op

from functory.engine.database.clock import new_id
from functory.engine.database.schema.column_types import Id, Instant

# What the triggers of captured tables write beside an event, before and after.
_CAPTURED = (
    '."outbox" (event_id, time) VALUES (id, written_at);',
    '."routing_queue" (event_id) VALUES (id);',
)

# Events of one row of the outbox.
_BATCH = 200

_EVENT = sa.table("event", sa.column("id", Id), sa.column("time", Instant))
_OLD_OUTBOX = sa.table("outbox", sa.column("event_id", Id), sa.column("time", Instant))
_OUTBOX = sa.table(
    "outbox",
    sa.column("id", Id),
    sa.column("event_ids", sa.LargeBinary),
    sa.column("count", sa.Integer),
    sa.column("first_id", Id),
    sa.column("time", Instant),
)


def create() -> None:
    """Move what is open out of the indexes of ``event``: an update of an event touches none of them."""
    connection = op.get_bind()
    op.create_table(
        "routing_queue",
        sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("route_after", Instant(), nullable=True),
        sa.Column("published", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("quarantined", "event_id", name=op.f("pk_routing_queue")),
    )
    # Until now the outbox had every event that was not published, so none of these is left for a router to publish.
    op.execute(
        "INSERT INTO routing_queue (quarantined, event_id, route_after, published)"
        " SELECT state = 'quarantined', id, route_after, true FROM event"
        " WHERE state = 'pending' OR state = 'quarantined'"
    )
    _rename_outbox("outbox_before")
    op.create_table(
        "outbox",
        sa.Column("id", Id, nullable=False),
        sa.Column("event_ids", sa.LargeBinary(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_id", Id, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.Column("claimed_until", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    before = sa.table("outbox_before", sa.column("event_id", Id), sa.column("time", Instant))
    rows = connection.execute(sa.select(before).order_by(before.c.event_id)).all()
    for number in range(0, len(rows), _BATCH):
        ids = [str(row.event_id) for row in rows[number : number + _BATCH]]
        batch = {
            "id": new_id(),
            "event_ids": b"".join(UUID(one).bytes for one in ids),
            "count": len(ids),
            "first_id": ids[0],
            "time": min(row.time for row in rows[number : number + _BATCH]),
        }
        connection.execute(sa.insert(_OUTBOX), batch)
    op.drop_table("outbox_before")
    for name in ("ix_event_pending", "ix_event_quarantined", "ix_event_cause_execution_id"):
        op.drop_index(name, table_name="event")
    with op.batch_alter_table("event") as table:
        table.drop_constraint("uq_event_dedup_key", type_="unique")
        table.drop_column("route_after")
    _index_events("ix_event_cause_execution_id", "cause_execution_id", "cause_execution_id IS NOT NULL")
    _index_events("uq_event_dedup_key", "dedup_key", "dedup_key IS NOT NULL", unique=True)
    if connection.dialect.name == "postgresql":
        op.execute("ALTER TABLE event SET (fillfactor = 50)")
        _rewrite_captures(connection, *_CAPTURED)


def drop() -> None:
    """Go back to one row of the outbox for each event, and to partial indexes."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        op.execute("ALTER TABLE event RESET (fillfactor)")
        _rewrite_captures(connection, *reversed(_CAPTURED))
    for name in ("ix_event_cause_execution_id", "uq_event_dedup_key"):
        op.drop_index(name, table_name="event")
    with op.batch_alter_table("event") as table:
        table.add_column(sa.Column("route_after", Instant(), nullable=True))
        table.create_unique_constraint("uq_event_dedup_key", ["dedup_key"])
    op.execute(
        "UPDATE event SET route_after ="
        " (SELECT route_after FROM routing_queue WHERE event_id = event.id AND NOT quarantined)"
        " WHERE id IN (SELECT event_id FROM routing_queue WHERE route_after IS NOT NULL)"
    )
    op.create_index("ix_event_cause_execution_id", "event", ["cause_execution_id"], unique=False)
    for state in ("pending", "quarantined"):
        _index_events(f"ix_event_{state}", "id", f"state = '{state}'")
    _rename_outbox("outbox_before")
    op.create_table(
        "outbox",
        sa.Column("event_id", Id, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["event_id"], ["event.id"], name=op.f("fk_outbox_event_id_event")),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_outbox")),
    )
    times = _unpublished(connection)
    rows = [{"event_id": id_, "time": time} for id_, time in times.items()]
    if rows:
        connection.execute(sa.insert(_OLD_OUTBOX), rows)
    op.drop_table("outbox_before")
    op.drop_table("routing_queue")


def _unpublished(connection: sa.Connection) -> dict[str, datetime]:
    """Return the events that the outbox or the routing queue has for the broker, by id, and when they came."""
    before = sa.table("outbox_before", sa.column("event_ids", sa.LargeBinary), sa.column("time", Instant))
    queue = sa.table("routing_queue", sa.column("event_id", Id), sa.column("published", sa.Boolean))
    here = sa.select(_EVENT.c.id, _EVENT.c.time)
    waiting = here.join(queue, queue.c.event_id == _EVENT.c.id).where(sa.not_(queue.c.published))
    times = {str(row.id): row.time for row in connection.execute(waiting)}
    for batch in connection.execute(sa.select(before)).all():
        ids = bytes(batch.event_ids)
        named = [str(UUID(bytes=ids[at : at + 16])) for at in range(0, len(ids) - 15, 16)]
        stored = connection.execute(here.where(_EVENT.c.id.in_(named))) if named else ()
        times |= {str(row.id): batch.time for row in stored}
    return times


def _rewrite_captures(connection: sa.Connection, before: str, after: str) -> None:
    """Let the functions that emit the events of a user's rows write into the tables of this schema."""
    ours = (
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE strpos(prosrc, :before) > 0 AND pronamespace ="
        " (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('event'))"
    )
    for definition in connection.execute(sa.text(ours), {"before": before}).scalars().all():
        # The driver takes a percent sign for a parameter.
        connection.exec_driver_sql(definition.replace(before, after).replace("%", "%%"))


def _rename_outbox(name: str) -> None:
    op.rename_table("outbox", name)
    # SQLite has no name for the index of a key.
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER INDEX pk_outbox RENAME TO pk_{name}")


def _index_events(name: str, column: str, where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(
        name, "event", [column], unique=unique, postgresql_where=condition, sqlite_where=condition
    )

"""What schema 0008 changes in the tables of executions.

What is found by the state of an execution is found in tables of its own, and no index of table execution has a column
that changes: PostgreSQL then updates its rows in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant

_QUEUE_COLUMNS = ("queue_at", "waiting_for_slot", "dispatched_at", "dispatch_count", "step_key")
_OPEN = "state IN ('queued', 'running')"
_UNSENT = "state = 'queued' AND NOT waiting_for_slot AND dispatched_at IS NULL"
# Indexes of the schema before, by name: columns and condition.
_FORMER_INDEXES: dict[str, tuple[list[str], str | None]] = {
    "ix_execution_queued": (["expires_at"], "state = 'queued'"),
    "ix_execution_due": (["run_at"], _UNSENT),
    "ix_execution_ready": (["priority DESC", "function", "queue_at", "id"], _UNSENT),
    "ix_execution_sent": (["dispatched_at"], "state = 'queued' AND dispatched_at IS NOT NULL"),
    "ix_execution_waiting_for_slot": (["run_at"], "waiting_for_slot AND state = 'queued'"),
    "ix_execution_open_trigger": (["trigger_id"], _OPEN),
    "ix_execution_running": (["lease_until"], "state = 'running'"),
    "uq_execution_step": (
        ["parent_id", "step_key"],
        "step_key IS NOT NULL AND state IN ('queued', 'running', 'succeeded')",
    ),
    "ix_execution_parent_id": (["parent_id"], None),
}
_INDEXES: dict[str, tuple[list[str], str | None]] = {
    "uq_execution_idempotency_key": (["idempotency_key"], "idempotency_key IS NOT NULL"),
    "uq_execution_trigger_id_event_id": (["trigger_id", "event_id"], "trigger_id IS NOT NULL"),
    "ix_execution_parent_id": (["parent_id"], "parent_id IS NOT NULL"),
}
# Constraints of the schema before, by table and name.
_FORMER_CONSTRAINTS = {
    "execution": {
        "uq_execution_idempotency_key": "UNIQUE (idempotency_key)",
        "uq_execution_trigger_id_event_id": "UNIQUE (trigger_id, event_id)",
        "fk_execution_version_id_function_version": "FOREIGN KEY(version_id) REFERENCES function_version (id)",
    },
    "attempt": {
        "fk_attempt_execution_id_execution": "FOREIGN KEY(execution_id) REFERENCES execution (id)",
    },
}


# Room for the versions of a row on its own page (the tables of the schema say why), and queues that are cleaned by the
# number of their dead rows, whatever their size.
_FILLFACTORS = {"execution": 40, "attempt": 50, "in_flight": 50}
_QUEUES = ("backlog", "in_flight", "routing_queue", "outbox")
_CLEANED = (
    "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,"
    " vacuum_truncate = false"
)


def create() -> None:
    """Create the queues, fill them from the open executions, and take from ``execution`` what they have now."""
    _create_queues()
    _fill_queues()
    _reduce_executions()
    if op.get_bind().dialect.name == "postgresql":
        for table, percent in _FILLFACTORS.items():
            op.execute(f"ALTER TABLE {table} SET (fillfactor = {percent})")
        for table in _QUEUES:
            op.execute(f"ALTER TABLE {table} SET ({_CLEANED})")


def drop() -> None:
    """Give ``execution`` its columns and indexes back."""
    _restore_executions()
    _empty_queues()
    if op.get_bind().dialect.name == "postgresql":
        for table in ("execution", "attempt"):
            op.execute(f"ALTER TABLE {table} RESET (fillfactor)")


def _create_queues() -> None:
    op.create_table(
        "backlog",
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("trigger_id", Id, nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("run_at", Instant(), nullable=False),
        sa.Column("queue_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.Column("waiting_for_slot", sa.Boolean(), nullable=False),
        sa.Column("throttle_key", sa.String(length=32), nullable=True),
        sa.Column("throttle_place", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("execution_id", name=op.f("pk_backlog")),
    )
    ready, throttled = "NOT waiting_for_slot", ["trigger_id", "throttle_key", "throttle_place"]
    _index("backlog", "ix_backlog_due", ["run_at"], ready)
    _index("backlog", "ix_backlog_ready", ["priority DESC", "function", "queue_at", "execution_id"], ready)
    _index("backlog", "ix_backlog_waiting_for_slot", ["run_at"], "waiting_for_slot")
    _index("backlog", "ix_backlog_throttled", throttled, "throttle_key IS NOT NULL")
    _index("backlog", "ix_backlog_trigger_id", ["trigger_id"], "trigger_id IS NOT NULL")
    _index("backlog", "ix_backlog_expires_at", ["expires_at"], "expires_at IS NOT NULL")
    op.create_table(
        "in_flight",
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("trigger_id", Id, nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("queue_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.Column("throttle_key", sa.String(length=32), nullable=True),
        sa.Column("throttle_place", Instant(), nullable=True),
        sa.Column("dispatched_at", Instant(), nullable=True),
        sa.Column("dispatch_count", sa.Integer(), nullable=False),
        sa.Column("claimed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("execution_id", name=op.f("pk_in_flight")),
    )
    op.create_table(
        "durable_call",
        sa.Column("parent_id", Id, nullable=False),
        sa.Column("step_key", sa.String(length=64), nullable=False),
        sa.Column("execution_id", Id, nullable=False),
        sa.PrimaryKeyConstraint("parent_id", "step_key", name=op.f("pk_durable_call")),
    )


def _fill_queues() -> None:
    op.execute(
        "INSERT INTO backlog (execution_id, function, trigger_id, priority, run_at, queue_at, expires_at,"
        " waiting_for_slot)"
        " SELECT id, function, trigger_id, priority, run_at, coalesce(queue_at, run_at),"
        " CASE WHEN started_at IS NULL THEN expires_at END, waiting_for_slot FROM execution"
        " WHERE state = 'queued' AND (dispatched_at IS NULL OR waiting_for_slot)"
    )
    op.execute(
        "INSERT INTO in_flight (execution_id, function, trigger_id, priority, queue_at, expires_at, dispatched_at,"
        " dispatch_count, claimed)"
        " SELECT id, function, trigger_id, priority, coalesce(queue_at, run_at),"
        " CASE WHEN started_at IS NULL THEN expires_at END, dispatched_at, dispatch_count, state = 'running'"
        " FROM execution"
        " WHERE state = 'running' OR (state = 'queued' AND dispatched_at IS NOT NULL AND NOT waiting_for_slot)"
    )
    # A call that did not succeed may run again: it needs no row.
    op.execute(
        "INSERT INTO durable_call (parent_id, step_key, execution_id) SELECT parent_id, step_key, id FROM execution"
        " WHERE step_key IS NOT NULL AND parent_id IS NOT NULL AND state IN ('queued', 'running', 'succeeded')"
    )


def _reduce_executions() -> None:
    for name in _FORMER_INDEXES:
        op.drop_index(name, table_name="execution")
    _rebuild("attempt", drop=[*_FORMER_CONSTRAINTS["attempt"]])
    _rebuild("execution", drop=[*_FORMER_CONSTRAINTS["execution"], *_QUEUE_COLUMNS])
    for name, (columns, where) in _INDEXES.items():
        _index("execution", name, columns, where)


def _restore_executions() -> None:
    for name in _INDEXES:
        op.drop_index(name, table_name="execution")
    op.add_column("execution", sa.Column("queue_at", Instant(), nullable=True))
    op.add_column(
        "execution",
        sa.Column("waiting_for_slot", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.add_column("execution", sa.Column("dispatched_at", Instant(), nullable=True))
    op.add_column("execution", sa.Column("dispatch_count", sa.Integer(), server_default="0", nullable=False))
    op.add_column("execution", sa.Column("step_key", sa.String(length=64), nullable=True))


def _empty_queues() -> None:
    op.execute("UPDATE execution SET queue_at = run_at")
    of_row = "WHERE {}.execution_id = execution.id"
    for table, columns in (
        ("backlog", ("queue_at", "waiting_for_slot")),
        ("in_flight", ("queue_at", "dispatched_at", "dispatch_count")),
        ("durable_call", ("step_key",)),
    ):
        mine = of_row.format(table)
        values = ", ".join(f"{name} = (SELECT {name} FROM {table} {mine})" for name in columns)  # noqa: S608
        op.execute(f"UPDATE execution SET {values} WHERE EXISTS (SELECT 1 FROM {table} {mine})")  # noqa: S608
    _rebuild("execution", add=_FORMER_CONSTRAINTS["execution"], plain="dispatch_count")
    _rebuild("attempt", add=_FORMER_CONSTRAINTS["attempt"])
    for name, (columns, where) in _FORMER_INDEXES.items():
        _index("execution", name, columns, where)
    for table in ("durable_call", "in_flight", "backlog"):
        op.drop_table(table)


def _index(table: str, name: str, columns: list[str], where: str | None) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(
        name,
        table,
        [sa.text(one) if " " in one else one for one in columns],
        unique=name.startswith("uq_"),
        postgresql_where=condition,
        sqlite_where=condition,
    )


def _rebuild(
    table: str, *, drop: Iterable[str] = (), add: Mapping[str, str] | None = None, plain: str | None = None
) -> None:
    """Drop columns and constraints by their names, and add constraints. Column ``plain`` loses its default."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        for name in drop:
            op.execute(
                f"ALTER TABLE {table} DROP {'COLUMN' if name in _QUEUE_COLUMNS else 'CONSTRAINT'} {name}"
            )
        for name, definition in (add or {}).items():
            op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
        if plain is not None:
            op.alter_column(table, plain, server_default=None)
        return
    # SQLite drops no constraints: the table is made anew from its own definition. Rows of other tables refer to it
    # meanwhile.
    op.execute("PRAGMA defer_foreign_keys = ON")
    rows = connection.execute(
        sa.text(
            "SELECT sql FROM sqlite_schema WHERE tbl_name = :table AND sql IS NOT NULL ORDER BY type DESC, name"
        ),
        {"table": table},
    )
    definition, *indexes = rows.scalars()
    head, _, body = definition.partition("(")
    parts = [part for part in _split(body.rstrip().removesuffix(")")) if _name(part) not in set(drop)]
    parts = [part.replace(" DEFAULT '0'", "") if _name(part) == plain else part for part in parts]
    columns = ", ".join(
        f'"{_name(part)}"' for part in parts if not part.startswith(("CONSTRAINT ", "PRIMARY KEY"))
    )
    for name, text in (add or {}).items():
        parts.append(f"CONSTRAINT {name} {text}")
    op.execute(f"CREATE TEMPORARY TABLE before_{table} AS SELECT {columns} FROM {table}")  # noqa: S608
    op.execute(f"DROP TABLE {table}")
    op.execute(sa.text(f"{head}({', '.join(parts)})".replace(":", "\\:")))
    op.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM before_{table}")  # noqa: S608
    op.execute(f"DROP TABLE before_{table}")
    for index in indexes:
        op.execute(index)


def _split(body: str) -> list[str]:
    """Return the columns and constraints of a definition: what stands between commas outside of parentheses."""
    parts, depth = [""], 0
    for character in body:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _name(part: str) -> str:
    """Return the name of a column or of a constraint."""
    return part.removeprefix("CONSTRAINT ").split()[0].strip('"')

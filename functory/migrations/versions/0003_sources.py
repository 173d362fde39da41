"""Sources and what they have taken in; what flow control and composites keep between events."""

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TABLES = (
    "slot",
    "lane",
    "cancellation",
    "once",
    "pace",
    "hold",
    "bucket",
    "file_written",
    "file_seen",
    "schedule_tick",
    "schedule",
    "receipt",
    "source",
)


def upgrade() -> None:
    op.create_table(
        "bucket",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("text", Words(), nullable=False),
        sa.Column("kind", sa.String(length=16), server_default="debounce", nullable=False),
        sa.Column("opened_at", Instant(), nullable=False),
        sa.Column("due_at", Instant(), nullable=True),
        sa.Column("memory", Json(null=True), nullable=False),
        sa.Column("count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("round", sa.Integer(), server_default="0", nullable=False),
        sa.Column("changed", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "key", name=op.f("pk_bucket")),
    )
    op.create_index(
        "ix_bucket_due",
        "bucket",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("due_at IS NOT NULL"),
        sqlite_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_table(
        "cancellation",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("rule", sa.Integer(), nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "event_id", "rule", name=op.f("pk_cancellation")),
    )
    op.create_table(
        "file_written",
        sa.Column("path_sha256", sa.String(length=64), nullable=False),
        sa.Column("content", sa.String(length=64), nullable=False),
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("path_sha256", "content", "execution_id", name=op.f("pk_file_written")),
    )
    op.create_index("ix_file_written_time", "file_written", ["time"], unique=False)
    op.create_table(
        "hold",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("parts", sa.Integer(), server_default="1", nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("trigger_version", sa.Integer(), nullable=False),
        sa.Column("event_time", Instant(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), server_default="0", nullable=False),
        sa.Column("root_id", Id, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "event_id", name=op.f("pk_hold")),
    )
    op.create_index("ix_hold_bucket", "hold", ["trigger_id", "key", "event_id"], unique=False)
    op.create_table(
        "lane",
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("text", Words(), nullable=False),
        sa.Column("capacity", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_lane")),
    )
    op.create_table(
        "once",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("text", Words(), nullable=False),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "key", name=op.f("pk_once")),
    )
    op.create_index("ix_once_expires_at", "once", ["expires_at"], unique=False)
    op.create_table(
        "pace",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("control", sa.String(length=16), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("text", Words(), nullable=False),
        sa.Column("next_at", Instant(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "control", "key", name=op.f("pk_pace")),
    )
    op.create_index("ix_pace_next_at", "pace", ["next_at"], unique=False)
    op.create_table(
        "source",
        sa.Column("id", Id, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("config", Json(), nullable=False),
        sa.Column("note", Words(), nullable=True),
        sa.Column("author", Words(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("holder", Words(), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_until", Instant(), nullable=True),
        sa.Column("cursor", Json(null=True), nullable=False),
        sa.Column("problem", Words(), nullable=True),
        sa.Column("problem_at", Instant(), nullable=True),
        sa.Column("last_event_at", Instant(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_source")),
        sa.UniqueConstraint("kind", "name", name=op.f("uq_source_kind_name")),
    )
    op.create_index(op.f("ix_source_changed"), "source", ["changed"], unique=False)
    op.create_table(
        "file_seen",
        sa.Column("source_id", Id, nullable=False),
        sa.Column("path_sha256", sa.String(length=64), nullable=False),
        sa.Column("path", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("mtime_ns", sa.BigInteger(), nullable=False),
        sa.Column("ctime_ns", sa.BigInteger(), nullable=False),
        sa.Column("inode", sa.String(length=48), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=True),
        sa.Column("problem", Words(), nullable=True),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_file_seen_source_id_source")),
        sa.PrimaryKeyConstraint("source_id", "path_sha256", name=op.f("pk_file_seen")),
    )
    op.create_index("ix_file_seen_inode", "file_seen", ["source_id", "inode"], unique=False)
    op.create_table(
        "receipt",
        sa.Column("source_id", Id, nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_receipt_source_id_source")),
        sa.PrimaryKeyConstraint("source_id", "key", name=op.f("pk_receipt")),
    )
    op.create_index("ix_receipt_time", "receipt", ["time"], unique=False)
    op.create_table(
        "schedule",
        sa.Column("source_id", Id, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("timing", sa.String(length=64), nullable=False),
        sa.Column("next_at", Instant(), nullable=True),
        sa.Column("fire_at", Instant(), nullable=True),
        sa.Column("last_at", Instant(), nullable=True),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.Column("watched_from", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_schedule_source_id_source")),
        sa.PrimaryKeyConstraint("source_id", name=op.f("pk_schedule")),
    )
    op.create_index(
        "ix_schedule_due",
        "schedule",
        ["next_at"],
        unique=False,
        postgresql_where=sa.text("next_at IS NOT NULL"),
        sqlite_where=sa.text("next_at IS NOT NULL"),
    )
    op.create_index(
        "ix_schedule_watched",
        "schedule",
        ["watched_from"],
        unique=False,
        postgresql_where=sa.text("watched_from IS NOT NULL"),
        sqlite_where=sa.text("watched_from IS NOT NULL"),
    )
    op.create_table(
        "schedule_tick",
        sa.Column("schedule_id", Id, nullable=False),
        sa.Column("fire_time_utc", Instant(), nullable=False),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["source.id"], name=op.f("fk_schedule_tick_schedule_id_source")
        ),
        sa.PrimaryKeyConstraint("schedule_id", "fire_time_utc", name=op.f("pk_schedule_tick")),
    )
    op.create_index("ix_schedule_tick_event_id", "schedule_tick", ["event_id"], unique=False)
    op.create_index("ix_schedule_tick_time", "schedule_tick", ["time"], unique=False)
    op.create_table(
        "slot",
        sa.Column("lane", sa.String(length=32), nullable=False),
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("rule", sa.Integer(), nullable=False),
        sa.Column("capacity", sa.Integer(), nullable=False),
        sa.Column("position", Id, nullable=False),
        sa.Column("queue_at", Instant(), nullable=False),
        sa.Column("taken_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["execution.id"], name=op.f("fk_slot_execution_id_execution")
        ),
        sa.PrimaryKeyConstraint("lane", "execution_id", name=op.f("pk_slot")),
    )
    op.create_index("ix_slot_execution_id", "slot", ["execution_id"], unique=False)
    op.create_index(
        "ix_slot_waiting",
        "slot",
        ["lane", "queue_at", "position"],
        unique=False,
        postgresql_where=sa.text("taken_at IS NULL"),
        sqlite_where=sa.text("taken_at IS NULL"),
    )
    op.create_index(
        "ix_slot_taken",
        "slot",
        ["lane"],
        unique=False,
        postgresql_where=sa.text("taken_at IS NOT NULL"),
        sqlite_where=sa.text("taken_at IS NOT NULL"),
    )
    op.add_column("event", sa.Column("extensions", Json(), nullable=True))
    op.add_column("execution", sa.Column("queue_at", Instant(), nullable=True))
    op.add_column("execution", sa.Column("held", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("execution", sa.Column("laned", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("firing", sa.Column("joint", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_index(
        "ix_firing_joint",
        "firing",
        ["execution_id"],
        unique=False,
        postgresql_where=sa.text("joint"),
        sqlite_where=sa.text("joint"),
    )
    # Those that are there already keep the place that they have.
    op.execute("UPDATE execution SET queue_at = run_at")
    op.drop_index("ix_execution_queued", table_name="execution")
    op.create_index(
        "ix_execution_queued",
        "execution",
        [sa.text("priority DESC"), "queue_at", "id"],
        postgresql_where=sa.text("state = 'queued'"),
        sqlite_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "ix_execution_held",
        "execution",
        ["run_at"],
        unique=False,
        postgresql_where=sa.text("held AND state = 'queued'"),
        sqlite_where=sa.text("held AND state = 'queued'"),
    )
    op.create_index(
        "ix_execution_open_trigger",
        "execution",
        ["trigger_id"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'running')"),
        sqlite_where=sa.text("state IN ('queued', 'running')"),
    )


def downgrade() -> None:
    op.drop_index("ix_firing_joint", table_name="firing")
    op.drop_column("firing", "joint")
    op.drop_index("ix_execution_open_trigger", table_name="execution")
    op.drop_index("ix_execution_held", table_name="execution")
    op.drop_index("ix_execution_queued", table_name="execution")
    op.create_index(
        "ix_execution_queued",
        "execution",
        [sa.text("priority DESC"), "run_at", "id"],
        postgresql_where=sa.text("state = 'queued'"),
        sqlite_where=sa.text("state = 'queued'"),
    )
    for column in ("laned", "held", "queue_at"):
        op.drop_column("execution", column)
    op.drop_column("event", "extensions")
    for table in _TABLES:
        op.drop_table(table)

"""The first tables."""

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", Id, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", Words(), nullable=False),
        sa.Column("data", Json(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_table(
        "breaker",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("trips", sa.Integer(), nullable=False),
        sa.Column("since", Instant(), nullable=False),
        sa.Column("open_until", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("trigger_id", name=op.f("pk_breaker")),
    )
    op.create_table(
        "budget",
        sa.Column("root_id", Id, nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("maximum", sa.Integer(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("root_id", name=op.f("pk_budget")),
    )
    op.create_table(
        "counter",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counter")),
    )
    op.create_table(
        "event",
        sa.Column("id", Id, nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("source", Words(), nullable=False),
        sa.Column("subject", Words(), nullable=True),
        sa.Column("time", Instant(), nullable=False),
        sa.Column("data", Json(), nullable=True),
        sa.Column("root_id", Id, nullable=False),
        sa.Column("cause_execution_id", Id, nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("chain", Json(), nullable=False),
        sa.Column("dedup_key", sa.String(length=255), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("route_attempts", sa.Integer(), nullable=False),
        sa.Column("route_after", Instant(), nullable=True),
        sa.Column("problem", Words(), nullable=True),
        sa.Column("routed_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
        sa.UniqueConstraint("dedup_key", name=op.f("uq_event_dedup_key")),
    )
    op.create_index("ix_event_cause_execution_id", "event", ["cause_execution_id"], unique=False)
    op.create_index(
        "ix_event_pending",
        "event",
        ["id"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
        sqlite_where=sa.text("state = 'pending'"),
    )
    op.create_index("ix_event_root_id", "event", ["root_id"], unique=False)
    op.create_index("ix_event_type", "event", ["type", "id"], unique=False)
    op.create_table(
        "firing",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("event_id", Id, nullable=False),
        sa.Column("trigger_version", sa.Integer(), nullable=False),
        sa.Column("decision", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("limit_value", sa.Integer(), nullable=True),
        sa.Column("actual_value", sa.Integer(), nullable=True),
        sa.Column("detail", Words(), nullable=True),
        sa.Column("chain", Json(), nullable=True),
        sa.Column("execution_id", Id, nullable=True),
        sa.Column("root_id", Id, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "event_id", name=op.f("pk_firing")),
    )
    op.create_index("ix_firing_event_id", "firing", ["event_id"], unique=False)
    op.create_index("ix_firing_root_id", "firing", ["root_id"], unique=False)
    op.create_index(
        "ix_firing_suppressed",
        "firing",
        ["time"],
        unique=False,
        postgresql_where=sa.text("decision = 'suppressed'"),
        sqlite_where=sa.text("decision = 'suppressed'"),
    )
    op.create_table(
        "function",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("active", sa.Integer(), nullable=True),
        sa.Column("latest", sa.Integer(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_function")),
        sa.UniqueConstraint("name", name=op.f("uq_function_name")),
    )
    op.create_table(
        "rate",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("subject", sa.String(length=32), nullable=False),
        sa.Column("next_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "subject", name=op.f("pk_rate")),
    )
    op.create_table(
        "secret",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secret")),
    )
    op.create_table(
        "state",
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("value", Json(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("function", "key", name=op.f("pk_state")),
    )
    op.create_table(
        "suppression",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("root_id", Id, nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_event_id", Id, nullable=False),
        sa.Column("first_at", Instant(), nullable=False),
        sa.Column("last_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "root_id", "reason", name=op.f("pk_suppression")),
    )
    op.create_table(
        "switch",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("note", Words(), nullable=True),
        sa.Column("author", Words(), nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_switch")),
    )
    op.create_table(
        "trigger",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("note", Words(), nullable=True),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trigger")),
        sa.UniqueConstraint("name", name=op.f("uq_trigger_name")),
    )
    op.create_index("ix_trigger_changed", "trigger", ["changed"], unique=False)
    op.create_table(
        "worker",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("isolation", sa.String(length=16), nullable=False),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("seen_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
    )
    op.create_table(
        "function_version",
        sa.Column("id", Id, nullable=False),
        sa.Column("function_id", Id, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("source", Words(), nullable=False),
        sa.Column("source_sha256", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("is_async", sa.Boolean(), nullable=False),
        sa.Column("parameters", Json(), nullable=False),
        sa.Column("input_schema", Json(), nullable=True),
        sa.Column("output_schema", Json(), nullable=True),
        sa.Column("declared", Json(), nullable=False),
        sa.Column("imports", Json(), nullable=False),
        sa.Column("dependencies", Json(), nullable=False),
        sa.Column("secrets", Json(), nullable=False),
        sa.Column("permissions", Json(), nullable=False),
        sa.Column("metadata", Json(), nullable=False),
        sa.Column("output_patterns", Json(), nullable=False),
        sa.Column("limits", Json(), nullable=False),
        sa.Column("warnings", Json(), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("cause_execution_id", Id, nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["function_id"], ["function.id"], name=op.f("fk_function_version_function_id_function")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_function_version")),
        sa.UniqueConstraint("function_id", "number", name=op.f("uq_function_version_function_id_number")),
    )
    op.create_table(
        "outbox",
        sa.Column("event_id", Id, nullable=False),
        sa.Column("time", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["event_id"], ["event.id"], name=op.f("fk_outbox_event_id_event")),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_outbox")),
    )
    op.create_table(
        "trigger_version",
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("definition", Json(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trigger_id"], ["trigger.id"], name=op.f("fk_trigger_version_trigger_id_trigger")
        ),
        sa.PrimaryKeyConstraint("trigger_id", "number", name=op.f("pk_trigger_version")),
    )
    op.create_table(
        "execution",
        sa.Column("id", Id, nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("version_id", Id, nullable=False),
        sa.Column("cause", sa.String(length=16), nullable=False),
        sa.Column("trigger_id", Id, nullable=True),
        sa.Column("event_id", Id, nullable=True),
        sa.Column("parent_id", Id, nullable=True),
        sa.Column("replay_of", Id, nullable=True),
        sa.Column("root_id", Id, nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("chain", Json(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("input", Json(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("released", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("run_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.Column("dispatched_at", Instant(), nullable=True),
        sa.Column("dispatch_count", sa.Integer(), nullable=False),
        sa.Column("lease_until", Instant(), nullable=True),
        sa.Column("worker_id", Words(), nullable=True),
        sa.Column("cancel_requested_at", Instant(), nullable=True),
        sa.Column("versions", Json(), nullable=True),
        sa.Column("result", Json(), nullable=True),
        sa.Column("result_kind", sa.String(length=8), nullable=True),
        sa.Column("warnings", Json(), nullable=True),
        sa.Column("error", Json(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("started_at", Instant(), nullable=True),
        sa.Column("finished_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(
            ["version_id"], ["function_version.id"], name=op.f("fk_execution_version_id_function_version")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_execution")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_execution_idempotency_key")),
        sa.UniqueConstraint("trigger_id", "event_id", name=op.f("uq_execution_trigger_id_event_id")),
    )
    op.create_index("ix_execution_function", "execution", ["function", "id"], unique=False)
    op.create_index("ix_execution_parent_id", "execution", ["parent_id"], unique=False)
    op.create_index(
        "ix_execution_queued",
        "execution",
        [sa.literal_column("priority DESC"), "run_at", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'queued'"),
        sqlite_where=sa.text("state = 'queued'"),
    )
    op.create_index("ix_execution_root_id", "execution", ["root_id"], unique=False)
    op.create_index(
        "ix_execution_running",
        "execution",
        ["lease_until"],
        unique=False,
        postgresql_where=sa.text("state = 'running'"),
        sqlite_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "attempt",
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("worker_id", Words(), nullable=False),
        sa.Column("isolation", sa.String(length=16), nullable=True),
        sa.Column("started_at", Instant(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("error", Json(), nullable=True),
        sa.Column("duration_seconds", sa.Float(), nullable=True),
        sa.Column("waited_seconds", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["execution.id"], name=op.f("fk_attempt_execution_id_execution")
        ),
        sa.PrimaryKeyConstraint("execution_id", "fence", name=op.f("pk_attempt")),
    )
    op.create_table(
        "log",
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("stream", sa.String(length=8), nullable=False),
        sa.Column("level", sa.String(length=8), nullable=False),
        sa.Column("text", Words(), nullable=False),
        sa.Column("offset_seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["execution.id"], name=op.f("fk_log_execution_id_execution")
        ),
        sa.PrimaryKeyConstraint("execution_id", "fence", "seq", name=op.f("pk_log")),
    )
    op.create_table(
        "span",
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("parent_seq", sa.Integer(), nullable=True),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("input", Json(), nullable=True),
        sa.Column("output", Json(), nullable=True),
        sa.Column("error", Json(), nullable=True),
        sa.Column("offset_seconds", sa.Float(), nullable=False),
        sa.Column("duration_seconds", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["execution.id"], name=op.f("fk_span_execution_id_execution")
        ),
        sa.PrimaryKeyConstraint("execution_id", "fence", "seq", name=op.f("pk_span")),
    )
    # ### end Alembic commands ###


def downgrade() -> None:
    op.drop_table("span")
    op.drop_table("log")
    op.drop_table("attempt")
    op.drop_index(
        "ix_execution_running",
        table_name="execution",
        postgresql_where=sa.text("state = 'running'"),
        sqlite_where=sa.text("state = 'running'"),
    )
    op.drop_index("ix_execution_root_id", table_name="execution")
    op.drop_index(
        "ix_execution_queued",
        table_name="execution",
        postgresql_where=sa.text("state = 'queued'"),
        sqlite_where=sa.text("state = 'queued'"),
    )
    op.drop_index("ix_execution_parent_id", table_name="execution")
    op.drop_index("ix_execution_function", table_name="execution")
    op.drop_table("execution")
    op.drop_table("trigger_version")
    op.drop_table("outbox")
    op.drop_table("function_version")
    op.drop_table("worker")
    op.drop_index("ix_trigger_changed", table_name="trigger")
    op.drop_table("trigger")
    op.drop_table("switch")
    op.drop_table("suppression")
    op.drop_table("state")
    op.drop_table("secret")
    op.drop_table("rate")
    op.drop_table("function")
    op.drop_index(
        "ix_firing_suppressed",
        table_name="firing",
        postgresql_where=sa.text("decision = 'suppressed'"),
        sqlite_where=sa.text("decision = 'suppressed'"),
    )
    op.drop_index("ix_firing_root_id", table_name="firing")
    op.drop_index("ix_firing_event_id", table_name="firing")
    op.drop_table("firing")
    op.drop_index("ix_event_type", table_name="event")
    op.drop_index("ix_event_root_id", table_name="event")
    op.drop_index(
        "ix_event_pending",
        table_name="event",
        postgresql_where=sa.text("state = 'pending'"),
        sqlite_where=sa.text("state = 'pending'"),
    )
    op.drop_index("ix_event_cause_execution_id", table_name="event")
    op.drop_table("event")
    op.drop_table("counter")
    op.drop_table("budget")
    op.drop_table("breaker")
    op.drop_table("audit")
    # ### end Alembic commands ###

"""The tables of agents and their runs in schema 0010."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words

TABLES = ("agent", "agent_version", "run", "run_step", "run_wait", "approval")


def create() -> None:
    """Create them."""
    _create_agent()
    _create_agent_version()
    _create_run()
    _create_run_step()
    _create_run_wait()
    _create_approval()


def drop() -> None:
    """Remove them."""
    for table in reversed(TABLES):
        op.drop_table(table)


def _create_agent() -> None:
    op.create_table(
        "agent",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_agent")),
    )


def _create_agent_version() -> None:
    op.create_table(
        "agent_version",
        sa.Column("agent", sa.String(length=200), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("definition", Json(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agent.name"], name=op.f("fk_agent_version_agent_agent")),
        sa.PrimaryKeyConstraint("agent", "number", name=op.f("pk_agent_version")),
    )


def _create_run() -> None:
    op.create_table(
        "run",
        sa.Column("id", Id, nullable=False),
        sa.Column("root_id", Id, nullable=False),
        sa.Column("parent_run_id", Id, nullable=True),
        sa.Column("agent", sa.String(length=200), nullable=True),
        sa.Column("agent_version", sa.Integer(), nullable=True),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("definition", Json(), nullable=False),
        sa.Column("goal", Words(), nullable=False),
        sa.Column("user_name", sa.String(length=200), nullable=True),
        sa.Column("author", Words(), nullable=False),
        sa.Column(
            "state",
            sa.String(length=16),
            nullable=False,
        ),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("detail", Json(), nullable=True),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("memo", Json(), nullable=False),
        sa.Column("pending", Json(), nullable=True),
        sa.Column("allowed", Json(), nullable=False),
        sa.Column("pause_requested_at", Instant(), nullable=True),
        sa.Column("waiting_since", Instant(), nullable=True),
        sa.Column("result", Json(), nullable=True),
        sa.Column("checked", sa.Boolean(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    )
    op.create_index("ix_run_agent", "run", ["agent", "id"], unique=False)
    op.create_index(
        "ix_run_open",
        "run",
        ["id"],
        unique=False,
        postgresql_where=sa.text("ended_at IS NULL"),
        sqlite_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("ix_run_root_id", "run", ["root_id"], unique=False)


def _create_run_step() -> None:
    op.create_table(
        "run_step",
        sa.Column("run_id", Id, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("execution_id", Id, nullable=False),
        sa.Column("given_hash", sa.String(length=64), nullable=True),
        sa.Column("plan_hash", sa.String(length=64), nullable=True),
        sa.Column("error_hash", sa.String(length=64), nullable=True),
        sa.Column("asked_hash", sa.String(length=64), nullable=True),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_run_step_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_run_step")),
        sa.UniqueConstraint("execution_id", name=op.f("uq_run_step_execution_id")),
    )


def _create_run_wait() -> None:
    op.create_table(
        "run_wait",
        sa.Column("run_id", Id, nullable=False),
        sa.Column("target_id", Id, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_run_wait_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", "target_id", name=op.f("pk_run_wait")),
    )
    op.create_index("ix_run_wait_target_id", "run_wait", ["target_id"], unique=False)


def _create_approval() -> None:
    op.create_table(
        "approval",
        sa.Column("id", Id, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column(
            "state",
            sa.String(length=16),
            nullable=False,
        ),
        sa.Column("root_id", Id, nullable=False),
        sa.Column("run_id", Id, nullable=True),
        sa.Column("execution_id", Id, nullable=True),
        sa.Column("proposal_id", Id, nullable=True),
        sa.Column("payload", Json(), nullable=False),
        sa.Column("answer", Json(), nullable=True),
        sa.Column("feedback", Words(), nullable=True),
        sa.Column("decided_by", Words(), nullable=True),
        sa.Column("requested_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.Column("decided_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_approval_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval")),
    )
    op.create_index(
        "ix_approval_pending",
        "approval",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
        sqlite_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_approval_proposal_id",
        "approval",
        ["proposal_id"],
        unique=False,
        postgresql_where=sa.text("proposal_id IS NOT NULL"),
        sqlite_where=sa.text("proposal_id IS NOT NULL"),
    )
    op.create_index("ix_approval_run_id", "approval", ["run_id"], unique=False)

"""The tables of the gate in schema 0010, and the run of an ephemeral function."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words

TABLES = ("gate_policy", "proposal", "gate_check")


def create() -> None:
    """Create them."""
    op.add_column("function", sa.Column("run_id", Id, nullable=True))
    _create_gate_policy()
    _create_proposal()
    _create_gate_check()


def drop() -> None:
    """Remove them."""
    for table in reversed(TABLES):
        op.drop_table(table)
    op.drop_column("function", "run_id")


def _create_gate_policy() -> None:
    op.create_table(
        "gate_policy",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("applies_to", Json(), nullable=False),
        sa.Column("rules", Json(), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("retired_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gate_policy")),
    )
    op.create_index(
        "uq_gate_policy_open",
        "gate_policy",
        ["name"],
        unique=True,
        postgresql_where=sa.text("retired_at IS NULL"),
        sqlite_where=sa.text("retired_at IS NULL"),
    )


def _create_proposal() -> None:
    op.create_table(
        "proposal",
        sa.Column("id", Id, nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("function_id", Id, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("base_version", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", Words(), nullable=True),
        sa.Column("description", Words(), nullable=False),
        sa.Column("tests", Json(), nullable=False),
        sa.Column("is_ephemeral", sa.Boolean(), nullable=False),
        sa.Column("rules", Json(), nullable=False),
        sa.Column("policies", Json(), nullable=False),
        sa.Column("rights", Json(), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("root_id", Id, nullable=True),
        sa.Column("run_id", Id, nullable=True),
        sa.Column("execution_id", Id, nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(
            ["function_id"], ["function.id"], name=op.f("fk_proposal_function_id_function")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proposal")),
    )
    op.create_index("ix_proposal_function_id", "proposal", ["function_id", "version"], unique=False)
    op.create_index(
        "ix_proposal_open",
        "proposal",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("ended_at IS NULL"),
        sqlite_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("ix_proposal_run_id", "proposal", ["run_id"], unique=False)


def _create_gate_check() -> None:
    op.create_table(
        "gate_check",
        sa.Column("proposal_id", Id, nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("report", Json(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(length=200), nullable=True),
        sa.Column("lease_until", Instant(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["proposal_id"], ["proposal.id"], name=op.f("fk_gate_check_proposal_id_proposal")
        ),
        sa.PrimaryKeyConstraint("proposal_id", "name", name=op.f("pk_gate_check")),
    )
    op.create_index(
        "ix_gate_check_open",
        "gate_check",
        ["proposal_id", "position"],
        unique=False,
        postgresql_where=sa.text("state IN ('pending', 'running')"),
        sqlite_where=sa.text("state IN ('pending', 'running')"),
    )

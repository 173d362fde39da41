"""Compensations of functions, durable calls."""

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Words

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ONCE = sa.text("step_key IS NOT NULL AND state IN ('queued', 'running', 'succeeded')")
_OPEN = sa.text("state IN ('waiting', 'pending', 'running')")


def upgrade() -> None:
    op.add_column("function_version", sa.Column("compensate", sa.String(length=220), nullable=True))
    op.add_column("execution", sa.Column("step_key", sa.String(length=64), nullable=True))
    op.create_index(
        "uq_execution_step",
        "execution",
        ["parent_id", "step_key"],
        unique=True,
        postgresql_where=_ONCE,
        sqlite_where=_ONCE,
    )
    op.create_table(
        "compensation",
        sa.Column("saga_id", Id, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("step_id", Id, nullable=False),
        sa.Column("step_fence", sa.Integer(), server_default="0", nullable=False),
        sa.Column("step_seq", sa.Integer(), server_default="0", nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("compensate", sa.String(length=220), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("execution_id", Id, nullable=True),
        sa.Column("problem", Words(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["saga_id"], ["execution.id"], name=op.f("fk_compensation_saga_id_execution")
        ),
        sa.ForeignKeyConstraint(
            ["step_id"], ["execution.id"], name=op.f("fk_compensation_step_id_execution")
        ),
        sa.PrimaryKeyConstraint("saga_id", "position", name=op.f("pk_compensation")),
        sa.UniqueConstraint(
            "step_id", "step_fence", "step_seq", name=op.f("uq_compensation_step_id_step_fence_step_seq")
        ),
    )
    op.create_index(
        "ix_compensation_open",
        "compensation",
        ["saga_id"],
        unique=False,
        postgresql_where=_OPEN,
        sqlite_where=_OPEN,
    )


def downgrade() -> None:
    op.drop_table("compensation")
    op.drop_index("uq_execution_step", table_name="execution")
    op.drop_column("execution", "step_key")
    op.drop_column("function_version", "compensate")

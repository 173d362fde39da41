"""Grants, environments, findings and warm runners of versions; how each attempt was confined."""

import sqlalchemy as sa
from alembic import op

from functory.engine.database.schema.column_types import Id, Instant, Json, Words

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_OF_VERSIONS = ("requirements", "grants", "reuse", "findings", "environment", "environment_error")


def upgrade() -> None:
    op.create_table(
        "environment",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("requirements", Json(), nullable=False),
        sa.Column("lock", Words(), nullable=False),
        sa.Column("python", sa.String(length=16), nullable=False),
        sa.Column("platform", sa.String(length=64), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_environment")),
    )
    op.create_table(
        "resolution",
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.Column("environment", sa.String(length=64), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["environment"], ["environment.key"], name=op.f("fk_resolution_environment_environment")
        ),
        sa.PrimaryKeyConstraint("request", name=op.f("pk_resolution")),
    )
    op.create_table(
        "widening",
        sa.Column("id", Id, nullable=False),
        sa.Column("function", sa.String(length=200), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("value", Words(), nullable=False),
        sa.Column("author", Words(), nullable=False),
        sa.Column("reason", Words(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_widening")),
        sa.UniqueConstraint(
            "function", "sha256", "kind", "value", name=op.f("uq_widening_function_sha256_kind_value")
        ),
    )
    # Versions that are there already ask for nothing: that is what the defaults say.
    for name, kind, default in (
        ("requirements", Json(), sa.text("'[]'")),
        ("grants", Json(), sa.text("'{}'")),
        ("reuse", sa.Boolean(), sa.false()),
        ("findings", Json(), sa.text("'[]'")),
    ):
        op.add_column("function_version", sa.Column(name, kind, nullable=False, server_default=default))
    op.add_column("function_version", sa.Column("environment", sa.String(length=64), nullable=True))
    op.add_column("function_version", sa.Column("environment_error", Words(), nullable=True))
    op.add_column("attempt", sa.Column("sandbox", Json(), nullable=True))


def downgrade() -> None:
    op.drop_column("attempt", "sandbox")
    for name in reversed(_OF_VERSIONS):
        op.drop_column("function_version", name)
    op.drop_table("widening")
    op.drop_table("resolution")
    op.drop_table("environment")

"""Language models: what is configured, each call, and what may be spent. Agents, their runs, memory, human decisions."""

from __future__ import annotations

from functory.migrations import agent_tables, canary_tables, memory_tables, model_tables, release_tables

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    model_tables.create()
    agent_tables.create()
    release_tables.create()
    canary_tables.create()
    memory_tables.create()


def downgrade() -> None:
    memory_tables.drop()
    canary_tables.drop()
    release_tables.drop()
    agent_tables.drop()
    model_tables.drop()

"""Users, tokens and logins, and what the pages of the dashboard read: bad ends, tallies, jobs,
numbers of sources, log policies."""

from __future__ import annotations

from functory.migrations import access_tables, bad_ends, job_tables, log_policies, source_numbers, tallies

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    access_tables.create()
    bad_ends.create()
    tallies.create()
    job_tables.create()
    source_numbers.create()
    log_policies.create()


def downgrade() -> None:
    log_policies.drop()
    source_numbers.drop()
    job_tables.drop()
    tallies.drop()
    bad_ends.drop()
    access_tables.drop()

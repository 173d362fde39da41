"""Tables of the gate: what a version of a function must show before it becomes the active one.

A proposal is a version that waits to become active. Its checks are rows. What they and persons say decides.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

# What proposals must show, and who decides. The newest row of a name is in force; older ones are the history.
gate_policy = Table(
    "gate_policy",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", sa.String(200), nullable=False),
    Column("number", sa.Integer, nullable=False),
    # {"functions": [names]}, {"labels": [labels]} or {} for all.
    Column("applies_to", Json, nullable=False),
    Column("rules", Json, nullable=False),  # functory.engine.releases.gate_rules
    Column("author", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("retired_at", Instant),
)
partial("uq_gate_policy_open", gate_policy, [gate_policy.c.name], "retired_at IS NULL", unique=True)

PROPOSAL_OPEN = ("checking", "waiting", "canary")
PROPOSAL_ENDED = ("active", "rejected", "expired", "superseded", "withdrawn", "rolled_back")
proposal = Table(
    "proposal",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function", sa.String(200), nullable=False),
    Column("function_id", Id, ForeignKey("function.id"), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("sha256", sa.String(64), nullable=False),  # of the version: what was tested is what becomes active
    Column("base_version", sa.Integer),  # the version that was active then
    Column("state", State((*PROPOSAL_OPEN, *PROPOSAL_ENDED)), nullable=False),
    Column("reason", Words),  # why it ended, for a person
    Column("description", Words, nullable=False),
    Column("tests", Json, nullable=False),  # functory.engine.releases.version_tests
    # Of a run that may use it until the run ends; no other code does.
    Column("is_ephemeral", sa.Boolean, nullable=False),
    # The rules when it was made. A later change of a policy does not touch an open proposal.
    Column("rules", Json, nullable=False),
    Column("policies", Json, nullable=False),  # names and numbers of the policies that the rules come from
    Column("rights", Json, nullable=False),  # functory.engine.releases.version_rights
    Column("author", Words, nullable=False),
    Column("root_id", Id),
    Column("run_id", Id),
    Column("execution_id", Id),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("ended_at", Instant),
)
Index("ix_proposal_function_id", proposal.c.function_id, proposal.c.version)
Index("ix_proposal_run_id", proposal.c.run_id)
partial("ix_proposal_open", proposal, [proposal.c.expires_at], "ended_at IS NULL")

CHECK_STATES = ("pending", "running", "passed", "warned", "failed", "skipped")
gate_check = Table(
    "gate_check",
    metadata,
    Column("proposal_id", Id, ForeignKey("proposal.id"), primary_key=True),
    Column("name", sa.String(32), primary_key=True),
    Column("position", sa.Integer, nullable=False),
    Column("state", State(CHECK_STATES), nullable=False),
    Column("report", Json, nullable=False),
    # A worker runs it while its lease lasts. Each try has a number, and only the newest may write the end.
    Column("tries", sa.Integer, nullable=False),
    Column("worker", sa.String(200)),
    Column("lease_until", Instant),
    Column("seconds", sa.Float),
    Column("updated_at", Instant, nullable=False),
)
partial(
    "ix_gate_check_open",
    gate_check,
    [gate_check.c.proposal_id, gate_check.c.position],
    "state IN ('pending', 'running')",
)
